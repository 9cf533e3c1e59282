"""A CMake project that uses the installed library, which was moved to another folder meanwhile."""

import re
import shutil
import subprocess
from pathlib import Path

import onnx
import onnx.parser
import pytest
from conftest import BUILT, CMAKE, ROOT, WORK, assert_no_python, needs_library, output

pytestmark = needs_library

MODEL = """
<ir_version: 10, opset_import: ["" : 21]> g (float[n] x) => (float[n] y) { y = Neg(x) }
"""


@pytest.fixture(scope="session")
def prefix() -> Path:
    """The folder to which the installed package was moved."""
    first, moved = WORK / "first", WORK / "moved"
    for folder in (first, moved):
        shutil.rmtree(folder, ignore_errors=True)
    output(CMAKE, "--install", BUILT, "--prefix", first)
    first.rename(moved)
    return moved


@pytest.fixture(scope="session")
def consumer(prefix: Path) -> Path:
    """The program, built against the package."""
    folder = WORK / "build"
    source = ROOT / "tests" / "consumer"
    output(CMAKE, "-S", source, "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}")
    output(CMAKE, "--build", folder, "--parallel", "2")
    return folder / "consumer"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """y = -x."""
    file = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(MODEL), file)
    return file


def test_the_program_works_and_is_told_what_to_do(
    consumer: Path, runtime: Path, model: Path
) -> None:
    lines = output(consumer, runtime, model).splitlines()
    assert [bool(re.search(r"no ONNX Runtime.*ortdl::load_runtime\(", x)) for x in lines[:2]] == [
        True,
        True,
    ]
    assert re.search(r"cannot load.*'no/such/file.so'.*No such file", lines[2])
    assert re.search(r"'libm.so.6' exports no OrtGetApiBase.*libonnxruntime.so", lines[3])
    assert re.search(r"NO_SUCHFILE.*no/such/model.onnx", lines[4])
    assert lines[5:] == ["1", "-1.5 -1.5"]


def test_the_program_has_no_python_in_it(consumer: Path, runtime: Path, model: Path) -> None:
    assert_no_python(consumer, runtime, model)


def test_installed_is_what_the_whole_header_includes(consumer: Path, prefix: Path) -> None:
    folder = prefix / "include" / "ortdl"
    installed = {file.name for file in folder.glob("*.h")}
    (record,) = consumer.parent.glob("CMakeFiles/headers.dir/**/ortdl_ortdl_h.cpp.*.d")
    included = record.read_text().replace("\\\n", " ").split()
    headers = [(consumer.parent / path).resolve() for path in included]
    assert {path.name for path in headers if path.parent == folder} == installed


def refusal(prefix: Path, folder: Path, version: str, *definitions: str) -> str:
    """What CMake says to a project that asks for a version that it cannot have."""
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(asks LANGUAGES NONE)\n"
        f"find_package(ortdl {version} REQUIRED)\n"
    )
    done = subprocess.run(
        [
            CMAKE,
            "-S",
            folder,
            "-B",
            folder / "build",
            f"-DCMAKE_PREFIX_PATH={prefix}",
            *definitions,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    return " ".join(done.stderr.split())


@pytest.mark.parametrize("version", ["0.0", "0.2", "1.0"])
def test_another_version_is_refused(prefix: Path, tmp_path: Path, version: str) -> None:
    assert "ortdlConfig.cmake, version: 0.1.0" in refusal(prefix, tmp_path, version)


def test_another_pytorch_is_refused(prefix: Path, tmp_path: Path) -> None:
    fake = tmp_path / "fake"
    fake.mkdir()
    (fake / "TorchConfig.cmake").write_text("")
    (fake / "TorchConfigVersion.cmake").write_text(
        'set(PACKAGE_VERSION "2.99.0")\nset(PACKAGE_VERSION_COMPATIBLE TRUE)\n'
    )
    words = (
        r"ortdl was built with PyTorch (\S+), but \S+fake is PyTorch 2\.99\.0: name a PyTorch \1"
    )
    assert re.search(words, refusal(prefix, tmp_path, "0.1", f"-DTorch_DIR={fake}"))
