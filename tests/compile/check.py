#!/usr/bin/env python3
"""Compiles cuda_facts.cpp and hip_facts.cpp, which hold what the library assumes, and no more.

    PYTHON tests/compile/check.py

PYTHON's torch provides PyTorch's headers: its CPU build has c10/cuda too, so neither a GPU nor a
CUDA build is needed. CUDA's and HIP's own headers come from tools/headers.py.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def headers(name: str) -> str:
    command = [sys.executable, str(ROOT / "tools" / "headers.py"), name]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def compiles(source: str, toolkit: str, *options: str) -> bool:
    torch = find_spec("torch").submodule_search_locations[0]
    system = (f"{torch}/include", headers("onnxruntime"), headers(toolkit))
    command = [
        *os.environ.get("CXX", "c++").split(),
        "-fsyntax-only",
        "-std=c++20",
        "-Wall",
        "-Wextra",
        "-Werror",
        *options,
        f"-I{ROOT / 'csrc'}",
        *(f"-isystem{folder}" for folder in system),
        str(HERE / source),
    ]
    passed = subprocess.run(command).returncode == 0
    print(f"  {source}: {'holds' if passed else 'FAILED'}", flush=True)
    return passed


def main() -> int:
    results = (
        compiles("cuda_facts.cpp", "cuda"),
        compiles("hip_facts.cpp", "hip", "-D__HIP_PLATFORM_AMD__"),
    )
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
