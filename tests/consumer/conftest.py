"""The installed C++ library, and programs that use it."""

import os
import subprocess
from pathlib import Path

import onnxruntime
import pytest

ROOT = Path(__file__).resolve().parents[2]
CMAKE = ROOT / ".venv" / "bin" / "cmake"
BUILT = ROOT / "build" / "cmake"
WORK = ROOT / "build" / "consumer"

needs_library = pytest.mark.skipif(
    not (BUILT / "libortdl.so").is_file(), reason="the C++ library was not built"
)


def output(*command: object, **environment: str) -> str:
    """What a command that has to succeed prints, errors included."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="session")
def runtime() -> Path:
    """The wheel's library of ONNX Runtime, for programs without Python."""
    (library,) = Path(onnxruntime.__path__[0], "capi").glob("libonnxruntime.so.*")
    return library


def loaded_libraries(*command: object) -> set[str]:
    """The names of all libraries that a program has in it by its end, and those it loads itself."""
    lines = output(*command, LD_DEBUG="libs").splitlines()
    return {Path(line.split()[-1]).name for line in lines if "calling init:" in line}


def assert_no_python(*command: object) -> None:
    """The program loads the library and ONNX Runtime, and nothing of Python."""
    names = loaded_libraries(*command)
    for wanted in ("libortdl.so", "libonnxruntime.so", "libtorch_cpu.so"):
        assert any(name.startswith(wanted) for name in names), names
    assert not [name for name in names if "python" in name]
