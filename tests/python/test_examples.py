"""The examples as a user runs them: what they print has to be true."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import os
import re
import subprocess
import sys
import textwrap
import time
import uuid
from pathlib import Path

import pytest

CLONE = Path(__file__).resolve().parents[2]

needs_magika = pytest.mark.skipif(
    importlib.util.find_spec("magika") is None, reason="magika is not installed"
)


def run(example: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one example from the clone, with ortdl_torch importable from it.

    No process that it started may be left when it has ended.
    """
    paths = [str(CLONE), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    mark = f"ORTDL_EXAMPLE={uuid.uuid4()}"
    done = subprocess.run(
        [sys.executable, str(CLONE / "examples" / example), *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(x for x in paths if x),
            # Compiling in the example itself: no processes beside it that would import PyTorch too.
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            **dict([mark.split("=")]),
        },
    )
    deadline = time.monotonic() + 30
    while (left := processes_with(mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left
    return done


def processes_with(variable: str) -> list[str]:
    """The running processes that have this in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        # A process may end meanwhile, and one of another user cannot be asked.
        with contextlib.suppress(OSError):
            if variable.encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text())
    return found


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


def said_to_print(example: str) -> str:
    """The output that an example's own text gives."""
    said = ast.get_docstring(ast.parse((CLONE / "examples" / example).read_text("utf-8"))) or ""
    found = re.search(r"it prints:\n\n((?: {4}.*\n)+)", said, re.IGNORECASE)
    assert found, said
    return textwrap.dedent(found[1])


@pytest.mark.parametrize(
    ("example", "package", "arguments"),
    [
        pytest.param("streaming_vad.py", "silero_vad", ["--rounds", "0"], id="speech"),
        pytest.param("read_text.py", "rapidocr", [], id="text"),
        pytest.param("export_and_back.py", "torch", [], id="export"),
        pytest.param("many_processes.py", "ray", [], id="processes"),
    ],
)
def test_an_example_prints_what_it_says(example: str, package: str, arguments: list[str]) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    done = run(example, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == said_to_print(example)
