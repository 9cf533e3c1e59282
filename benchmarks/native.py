"""Small shared libraries of the benchmark's own, compiled when their source has changed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "bench"


def library(name: str) -> Path:
    """Compile ``benchmarks/<name>.cpp`` unless that is done.

    Returns:
        The shared library.

    Raises:
        SystemExit: there is no compiler, or it fails.
    """
    source, target = ROOT / "benchmarks" / f"{name}.cpp", FOLDER / f"lib{name}.so"
    if target.is_file() and target.stat().st_mtime_ns > source.stat().st_mtime_ns:
        return target
    compiler = os.environ.get("CXX", "c++").split()
    if shutil.which(compiler[0]) is None:
        raise SystemExit(f"no C++ compiler ({compiler[0]}): `apt-get install g++`, or set CXX")
    FOLDER.mkdir(parents=True, exist_ok=True)
    flags = ["-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    unfinished = target.with_suffix(f".{os.getpid()}")
    done = subprocess.run([*compiler, *flags, str(source), "-o", str(unfinished)])
    if done.returncode != 0:
        raise SystemExit(f"{source.name} could not be compiled (see above)")
    unfinished.replace(target)
    return target
