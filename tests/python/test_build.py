"""What was built: the symbols it exports, and that it is the clone's own."""

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


@pytest.mark.skipif(
    not (ROOT / "build/cmake/libortdl.so").is_file(), reason="the C++ library was not built"
)
def test_the_core_links_no_python():
    listing = subprocess.check_output(
        ["readelf", "-d", ROOT / "build/cmake/libortdl.so"], text=True
    )
    needed = [line for line in listing.splitlines() if "NEEDED" in line]
    assert needed
    assert not [line for line in needed if "python" in line]
