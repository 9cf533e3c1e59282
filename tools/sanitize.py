#!/usr/bin/env python3
"""Runs the core's GoogleTests with GCC's sanitizers of addresses, undefined behaviour and leaks.

All is compiled below build/asan, with -O1 -g1 and no asserts, as PyTorch's wheels are. Nothing is
suppressed.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
BUILD = "build/asan"
JOBS = os.environ.get("MAX_JOBS", "2")
OPTIONS = {
    "ASAN_OPTIONS": "strict_string_checks=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "OMP_NUM_THREADS": "1",
}


def run(*command: str) -> None:
    """Runs a step; the first one that fails ends it all."""
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **OPTIONS})
    if done.returncode != 0:
        sys.exit(done.returncode)


def main() -> None:
    """Compiles what is not up to date and runs the tests."""
    configure = ["-S", ".", "-B", BUILD, "-G", "Ninja", "--log-level=WARNING"]
    configure += [f"-DCMAKE_MAKE_PROGRAM={BIN / 'ninja'}", f"-DPython_EXECUTABLE={sys.executable}"]
    configure += ["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O1 -g1 -DNDEBUG"]
    configure += ["-DORTDL_BUILD_TESTS=ON", "-DORTDL_SANITIZE=address,undefined"]
    run(str(BIN / "cmake"), *configure)
    print(f"[test-asan] compiling with {JOBS} jobs", flush=True)
    run(str(BIN / "cmake"), "--build", BUILD, "--parallel", JOBS, "--target", "ortdl_tests")
    command = ["--test-dir", BUILD, "--output-on-failure", "--tests-regex", "^ortdl_tests$"]
    run(str(BIN / "ctest"), *command)


if __name__ == "__main__":
    main()
