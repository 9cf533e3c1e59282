"""What was built: the symbols it exports, what it links to, and how it is hardened."""

import subprocess
from pathlib import Path

import pytest

from ortdl_torch import _C

ROOT = Path(__file__).resolve().parents[2]


def test_only_wanted_symbols_are_exported():
    listing = subprocess.check_output(["nm", "-D", "--defined-only", _C.__file__], text=True)
    assert {line.split()[-1] for line in listing.splitlines()} == {
        "PyInit__C",
        "RegisterCustomOps",
    }


LIBRARY = ROOT / "build/cmake/libortdl.so"
BUILT = pytest.mark.skipif(not LIBRARY.is_file(), reason="the C++ library was not built")


@BUILT
def test_the_core_links_no_python():
    listing = subprocess.check_output(["readelf", "-d", LIBRARY], text=True)
    needed = [line for line in listing.splitlines() if "NEEDED" in line]
    assert needed
    assert not [line for line in needed if "python" in line]


@pytest.mark.parametrize("file", [Path(_C.__file__), pytest.param(LIBRARY, marks=BUILT)], ids=str)
def test_what_was_built_is_hardened(file: Path):
    def read(*command: str) -> str:
        return subprocess.check_output([*command, file], text=True)

    segments = {
        line.split()[0]: line.split() for line in read("readelf", "-lW").splitlines() if line
    }
    assert segments["GNU_STACK"][-2] == "RW"  # no code is run on the stack
    assert "GNU_RELRO" in segments
    dynamic = read("readelf", "-dW")
    assert "BIND_NOW" in dynamic  # so that the table of functions is read-only as well
    assert "TEXTREL" not in dynamic
    assert "__stack_chk_fail" in read("nm", "-D", "--undefined-only")


def test_the_extension_looks_for_libraries_in_no_folder_of_its_builder():
    dynamic = subprocess.check_output(["readelf", "-dW", _C.__file__], text=True)
    assert "RPATH" not in dynamic
    assert "RUNPATH" not in dynamic
