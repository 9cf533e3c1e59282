"""Count the instructions of the core paths under valgrind's callgrind, and write them down.

    python benchmarks/instructions.py [FILE]

They hardly differ from run to run, so that a change shows as a difference in FILE, which is
benchmarks/instructions.txt unless given: a line stays as it is where none of its counts changed by
more than SLACK says. Each path runs N and 2 N times; told is the difference divided by N, since the
loop's beginning and the counter's own work are in both.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import native
from callgrind import instructions

ROOT = Path(__file__).resolve().parent.parent
CALLS = 500
PLACES = ("ortdl", "onnxruntime", "torch", "python", "libc", "other")
"""Where instructions are; the benchmark's own C++ is among the others."""
FEW = 40
SLACK = {"onnxruntime": 0.1, "libc": 0.1}
"""What a count may differ by and be taken for the same: this part of it, else 1 %, or FEW.

ONNX Runtime's own work takes one of a few courses in each process, and its allocations with it.
"""
MARK = "under callgrind: "


def place_of(file: str) -> str:
    """Which of PLACES an object file is."""
    if file.startswith("_C."):
        return "ortdl"
    if file.startswith("onnxruntime"):
        return "onnxruntime"
    if file.startswith(("libtorch", "libc10")):
        return "torch"
    if file.startswith(("python", "libpython")):
        return "python"
    if file.startswith(("libc.", "libc-", "libstdc++", "libgcc", "libm.", "libpthread", "ld-")):
        return "libc"
    return "other"


def count_here() -> None:
    """Run every path; in the process under callgrind."""
    marks = ctypes.CDLL(str(native.library("callgrind_marks")))
    if not marks.ortdl_under_valgrind():
        raise SystemExit("--count is for the process under callgrind: leave it out")
    import paths  # what it imports takes long here
    from timing import empty_loop

    empty_loop()
    names = []
    for name, sample in paths.core():
        names.append(name)
        # Python looks at a few calls before it makes them fast.
        for _ in range(20):
            sample(CALLS // 10)
        for count in (CALLS, 2 * CALLS):
            marks.ortdl_count_start()
            sample(count)
            marks.ortdl_count_stop()
    print(MARK + json.dumps({"names": names, "versions": paths.versions()}))


def count() -> tuple[dict[str, Counter[str]], dict[str, str]]:
    """Start the process under callgrind, and read what that counted.

    Returns:
        For each path the instructions per call by place; the versions of what was counted.

    Raises:
        SystemExit: a tool is missing, or the process failed.
    """
    for tool, package in (("valgrind", "valgrind"), ("setarch", "util-linux")):
        if shutil.which(tool) is None:
            raise SystemExit(f"{tool} is not on this machine: `apt-get install {package}`")
    native.library("callgrind_marks")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "callgrind.out")
        command = [
            *("setarch", "--addr-no-randomize", "valgrind", "--tool=callgrind", "--quiet"),
            *("--instr-atstart=no", f"--callgrind-out-file={out}"),
            *(sys.executable, __file__, "--count"),
        ]
        # The same hashes and the same CPU features, so that the same code runs everywhere.
        environment = {**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise SystemExit(f"the process under callgrind ended with {done.returncode}")
        line = next(line for line in done.stdout.splitlines() if line.startswith(MARK))
        told = json.loads(line.removeprefix(MARK))
        parts = [
            instructions(Path(f"{out}.{number}").read_text().splitlines())
            for number in range(1, 2 * len(told["names"]) + 1)
        ]
    counts = {}
    for name, once, twice in zip(told["names"], parts[::2], parts[1::2], strict=True):
        counts[name] = Counter[str]()
        for file in once | twice:
            counts[name][place_of(file)] += twice[file] - once[file]
    return counts, told["versions"]


def page(counts: dict[str, Counter[str]], versions: dict[str, str]) -> list[str]:
    """The file's lines; counts are of CALLS calls."""
    width = max(map(len, counts))
    lines = [
        "Instructions per call, counted by `make bench-instructions`: see instructions.py.",
        ", ".join(f"{name} {version}" for name, version in versions.items()),
        "",
        f"{'':<{width}}{'all':>13}{''.join(f'{place:>13}' for place in PLACES)}",
    ]
    for name, places in counts.items():
        numbers = [places.total(), *(places[place] for place in PLACES)]
        columns = "".join(f"{round(number / CALLS):>13}" for number in numbers)
        lines.append(f"{name:<{width}}{columns}")
    return lines


def numbers_of(line: str) -> tuple[str, list[int]]:
    """A path's name and its counts."""
    words = line.rsplit(maxsplit=len(PLACES) + 1)
    return words[0].strip(), [int(word) for word in words[1:]]


def settled(new: list[str], old: list[str]) -> list[str]:
    """The new lines, but where a path's counts are as good as the old ones its old line.

    The sum is as good as its parts. Nothing is kept if the old ones are of other versions.
    """
    if new[:4] != old[:4]:
        return new
    before = {numbers_of(line)[0]: line for line in old[4:]}
    lines = new[:4]
    for line in new[4:]:
        name, now = numbers_of(line)
        kept = before.get(name, line)
        triples = zip(PLACES, now[1:], numbers_of(kept)[1][1:], strict=True)
        same = all(abs(x - y) <= max(SLACK.get(place, 0.01) * y, FEW) for place, x, y in triples)
        lines.append(kept if same else line)
    return lines


def compiler() -> str:
    """Name and version of the compiler."""
    command = os.environ.get("CXX", "c++").split()
    said = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    return said.stdout.splitlines()[0]


def main() -> int:
    """Count, write and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", action="store_true", help=argparse.SUPPRESS)
    default = ROOT / "benchmarks" / "instructions.txt"
    parser.add_argument("file", nargs="?", type=Path, default=default, help="where to write")
    arguments = parser.parse_args()
    if arguments.count:
        count_here()
        return 0
    counts, versions = count()
    versions |= {"compiler": compiler(), "processor": platform.machine()}
    file: Path = arguments.file
    old = file.read_text().splitlines() if file.is_file() else []
    lines = settled(page(counts, versions), old)
    file.write_text("\n".join(lines) + "\n")
    print(*lines, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
