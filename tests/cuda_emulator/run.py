#!/usr/bin/env python3
"""Runs a command whose CUDA devices are emulated; builds the emulator before, if it must.

    PYTHON tests/cuda_emulator/run.py COMMAND...

README.md in this folder says what is emulated. CUDA's headers are PYTHON's, or those that
tools/headers.py finds elsewhere.
"""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Under this name PyTorch looks for the driver: the emulator, loaded first, is what it finds.
LIBRARY = ROOT / "build" / "cuda" / "emulator" / "libcuda.so.1"


def is_built() -> bool:
    sources = [Path(__file__), *HERE.glob("*.cpp"), *HERE.glob("*.h")]
    return LIBRARY.is_file() and LIBRARY.stat().st_mtime > max(f.stat().st_mtime for f in sources)


def build() -> bool:
    print("[emulator] compiling the CUDA emulator", flush=True)
    command = [sys.executable, str(ROOT / "tools" / "headers.py"), "cuda"]
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if found.returncode != 0:
        return False
    LIBRARY.parent.mkdir(parents=True, exist_ok=True)
    unfinished = LIBRARY.with_name(f"{LIBRARY.name}.{os.getpid()}")
    options = ["-std=c++20", "-O1", "-g1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"]
    compiler = [*os.environ.get("CXX", "c++").split(), *options, f"-isystem{found.stdout.strip()}"]
    sources = sorted(map(str, HERE.glob("*.cpp")))
    name = f"-Wl,-soname,{LIBRARY.name}"
    if subprocess.run([*compiler, name, *sources, "-o", str(unfinished)]).returncode != 0:
        return False
    unfinished.rename(LIBRARY)
    return True


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    if not is_built() and not build():
        return 1
    environment = {**os.environ, "LD_PRELOAD": str(LIBRARY)}
    return subprocess.run(sys.argv[1:], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
