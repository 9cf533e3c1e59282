#!/usr/bin/env python3
"""Runs clang-tidy over the project's sources, two at a time, and stops at no finding.

    tools/tidy.py BUILD_FOLDER    the folder that holds compile_commands.json

A source that passed is not looked at again until it, a header of the project or the checks change.
"""

import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLANG_TIDY = Path(sys.executable).parent / "clang-tidy"


def sources(build: Path) -> list[Path]:
    """Returns the project's own files among those that the build compiles."""
    commands = json.loads((build / "compile_commands.json").read_text())
    ours = (ROOT / "csrc", ROOT / "tests")
    files = {Path(command["file"]) for command in commands}
    # The biggest first, so that the two jobs end at about the same time.
    return sorted(
        (file for file in files if any(file.is_relative_to(folder) for folder in ours)),
        key=lambda file: file.stat().st_size,
        reverse=True,
    )


def common_state() -> bytes:
    """Returns a digest of what each source's result depends on besides the source."""
    patterns = ("csrc/**/*.h", "tests/**/*.h", "tests/*/.clang-tidy", "tests/*/CMakeLists.txt")
    files = sorted(path for pattern in patterns for path in ROOT.glob(pattern))
    names = (".clang-tidy", "requirements.txt", "CMakeLists.txt")
    digest = hashlib.sha256()
    for file in (*(ROOT / name for name in names), *files):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.digest()


def main() -> int:
    """Checks every source; returns the exit status."""
    build = Path(sys.argv[1]).resolve()
    passed = build / "tidy"
    passed.mkdir(exist_ok=True)
    common = common_state()

    def check(source: Path) -> bool:
        name = source.relative_to(ROOT)
        stamp = passed / str(name).replace("/", "-")
        state = hashlib.sha256(common + source.read_bytes()).hexdigest()
        if stamp.is_file() and stamp.read_text() == state:
            return True
        command = [str(CLANG_TIDY), "--quiet", "-p", str(build), str(source)]
        done = subprocess.run(command, capture_output=True, text=True)
        print(f"  {name}: {'passed' if done.returncode == 0 else 'FAILED'}", flush=True)
        if done.returncode == 0:
            stamp.write_text(state)
        else:
            # What clang says on stderr is only a count of the warnings in others' headers.
            print(done.stdout or done.stderr, flush=True)
        return done.returncode == 0

    with ThreadPoolExecutor(int(os.environ.get("MAX_JOBS", "2"))) as pool:
        return 0 if all(list(pool.map(check, sources(build)))) else 1


if __name__ == "__main__":
    sys.exit(main())
