#!/usr/bin/env python3
"""Runs clang-tidy over the project's sources, two jobs at a time, and stops at no finding.

    tools/tidy.py BUILD_FOLDER    the folder that holds compile_commands.json

A source that passed is not looked at again until it, a header of the project or the checks change.
Several are looked at as one, which finds neither a header that a source only has from another, nor
names of another namespace that it does not use: one that is looked at alone, as after an edit, is
checked for these as well.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLANG_TIDY = Path(sys.executable).parent / "clang-tidy"
# Nearly all the time goes into the headers of torch, so that sources are looked at together.
TOGETHER = 32


def commands(build: Path) -> dict[Path, str]:
    """Returns the project's own sources that the build compiles, each with how it does so."""
    ours = (ROOT / "csrc", ROOT / "tests")
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = Path(entry["file"])
        if any(file.is_relative_to(folder) for folder in ours):
            # Without the precompiled headers: a source is to include what it needs.
            found[file] = re.sub(
                r" -Winvalid-pch| -include \S+| -o \S+ -c \S+$", "", entry["command"]
            )
    return found


def checks(source: Path) -> Path:
    """Returns the file that says what is checked of a source."""
    files = (folder / ".clang-tidy" for folder in source.parents)
    return next(file for file in files if file.is_file())


def common_state() -> bytes:
    """Returns a digest of what each source's result depends on besides the source."""
    patterns = ("csrc/**/*.h", "tests/**/*.h", "tests/*/.clang-tidy", "tests/*/CMakeLists.txt")
    files = sorted(path for pattern in patterns for path in ROOT.glob(pattern))
    names = (".clang-tidy", "requirements.txt", "CMakeLists.txt", "tools/tidy.py")
    digest = hashlib.sha256()
    for file in (*(ROOT / name for name in names), *files):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.digest()


def batches(sources: dict[Path, str]) -> list[list[Path]]:
    """Returns the sources in lists of those that are compiled and checked in the same way."""
    alike = defaultdict(list)
    for source, command in sorted(sources.items()):
        alike[checks(source), command].append(source)
    lists = []
    for files in alike.values():
        count = -(-len(files) // TOGETHER)
        lists += [files[start::count] for start in range(count)]
    # The biggest first, so that the two jobs end at about the same time.
    return sorted(lists, key=lambda files: sum(file.stat().st_size for file in files), reverse=True)


def main() -> int:
    """Checks every source; returns the exit status."""
    build = Path(sys.argv[1]).resolve()
    passed = build / "tidy"
    passed.mkdir(exist_ok=True)
    common = common_state()
    sources = commands(build)

    def stamp(source: Path) -> Path:
        return passed / str(source.relative_to(ROOT)).replace("/", "-")

    def state(source: Path) -> str:
        return hashlib.sha256(common + source.read_bytes()).hexdigest()

    def tidy(files: list[Path]) -> subprocess.CompletedProcess[str]:
        # clang-tidy looks for the checks in the folder of the source and those above it.
        with tempfile.TemporaryDirectory(dir=passed) as temporary:
            folder = Path(temporary)
            source = files[0]
            if len(files) > 1:
                source = folder / "together.cpp"
                source.write_text("".join(f'#include "{file}"  // NOLINT\n' for file in files))
                shutil.copy(checks(files[0]), folder)
            entry = {"directory": str(build), "file": str(source)}
            entry["command"] = f"{sources[files[0]]} -c {source}"
            (folder / "compile_commands.json").write_text(json.dumps([entry]))
            command = [str(CLANG_TIDY), "--quiet", "-p", str(folder), str(source)]
            return subprocess.run(command, capture_output=True, text=True)

    def check(files: list[Path]) -> bool:
        done = tidy(files)
        if done.returncode == 0:
            for file in files:
                print(f"  {file.relative_to(ROOT)}: passed", flush=True)
                stamp(file).write_text(state(file))
            return True
        if len(files) == 1:
            print(f"  {files[0].relative_to(ROOT)}: FAILED", flush=True)
            # What clang says on stderr is only a count of the warnings in others' headers.
            print(done.stdout or done.stderr, flush=True)
            return False
        # Two sources may use one name for things of their own.
        named = [file for file in files if f"{file}:" in done.stdout] or files
        rest = [file for file in files if file not in named]
        results = [check([file]) for file in named]
        return all(results) and (not rest or check(rest))

    todo = {
        file: command
        for file, command in sources.items()
        if not stamp(file).is_file() or stamp(file).read_text() != state(file)
    }
    with ThreadPoolExecutor(int(os.environ.get("MAX_JOBS", "2"))) as pool:
        return 0 if all(list(pool.map(check, batches(todo)))) else 1


if __name__ == "__main__":
    sys.exit(main())
