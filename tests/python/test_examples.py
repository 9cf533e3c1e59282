"""The examples as a user runs them: what they print has to be true."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CLONE = Path(__file__).resolve().parents[2]

needs_magika = pytest.mark.skipif(
    importlib.util.find_spec("magika") is None, reason="magika is not installed"
)
needs_silero = pytest.mark.skipif(
    importlib.util.find_spec("silero_vad") is None, reason="silero-vad is not installed"
)


def run(example: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one example from the clone, with ortdl_torch importable from it."""
    paths = [str(CLONE), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return subprocess.run(
        [sys.executable, str(CLONE / "examples" / example), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(x for x in paths if x)},
    )


def counted(pattern: str, output: str) -> tuple[int, int]:
    """The two numbers in "<pattern> N of M"."""
    found = re.search(pattern + r" (\d+) of (\d+)", output)
    assert found, output
    return int(found[1]), int(found[2])


@needs_magika
def test_magika_agrees_on_every_file_of_the_clone() -> None:
    done = run("magika_demo.py", "--rounds", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    equal, files = counted("Equal to magika's own answer:", done.stdout)
    assert equal == files > 0
    shared, inputs = counted(r"Input memory shared \(same pointer\):", done.stdout)
    assert shared == inputs > 0
    assert re.search(r"^ +python +\d+ ", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^ +ortdl_torch, .* \d+\.\d +\d+\.\d$", done.stdout, re.MULTILINE)
    assert re.search(r"^ +onnxruntime run, .* \d+\.\d +\d+\.\d$", done.stdout, re.MULTILINE)


HARD_FILES = {
    "empty": b"",
    "one byte": b"x",
    "seven bytes": b"1234567",
    "seven bytes of no text": b"\xff\xfe\xfd\xfc\xfb\xfa\xf9",
    "eight bytes": b"12345678",
    "only blanks": b" \t\r\n\x0b\x0c" * 40,
    "a block of blanks, then text": b" " * 4096 + b"def f(x):\n    return x\n" * 9,
    "text, then a block of blanks": b"def f(x):\n    return x\n" * 9 + b"\n" * 5000,
    "seven bytes between blanks": b" " * 50 + b"1234567" + b" " * 50,
    "a character cut by the block": b" " * 4095 + "é".encode() * 8,
    "unicode blanks stay": "\u00a0\u2003\u0085".encode() * 20 + b"\x1c\x1d\x1e\x1f" * 8,
    "a block": b"".join(b"line %d\n" % i for i in range(999))[:4096],
    "a block and a byte": b"".join(b"line %d\n" % i for i in range(999))[:4097],
    "1023 bytes": b"{}" + b"a" * 1021,
    "1024 bytes": b"{}" + b"a" * 1022,
    "1025 bytes": b"{}" + b"a" * 1023,
    "all bytes": bytes(range(256)) * 40,
    "low confidence": b"zz 9 == ;; qq\n" * 3,
    "two\nlines and \u00e9": b"#!/bin/sh\nset -e\necho hello\n",
}


@needs_magika
def test_magika_agrees_on_hard_files(tmp_path: Path) -> None:
    for name, content in HARD_FILES.items():
        (tmp_path / name).write_bytes(content)
    done = run("magika_demo.py", str(tmp_path), "--rounds", "0")
    assert done.returncode == 0, done.stdout + done.stderr
    equal, files = counted("Equal to magika's own answer:", done.stdout)
    assert equal == files == len(HARD_FILES)
    assert re.search(r"^ +empty +1 ", done.stdout, re.MULTILINE), done.stdout


@needs_magika
def test_magika_demo_of_an_empty_folder_says_so(tmp_path: Path) -> None:
    done = run("magika_demo.py", str(tmp_path))
    assert done.returncode == 2
    assert "no files in" in done.stdout


@needs_silero
def test_streaming_vad_equals_the_stock_route_to_the_bit() -> None:
    done = run("streaming_vad.py", "--rounds", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    equal, frames = counted("Equal to the bit:", done.stdout)
    assert equal == frames > 0
    assert "Last state equal to the bit: yes" in done.stdout
    parts = re.findall(r"^ +([a-z ]+?) +[\d.]+ +[\d.]+  (\d+)$", done.stdout, re.MULTILINE)
    heard = {name: "".join(y for x, y in parts if x == name) for name, _ in parts}
    # A stream that lost its state would not tell these apart.
    assert min(heard["low voice"]) > "4" > max(heard["silence"]), done.stdout
