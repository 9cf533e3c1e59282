"""The C++ programs of `examples/cpp`, built and run by the README's commands."""

import re
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from conftest import ROOT, assert_no_python, needs_library, output

pytestmark = needs_library


@pytest.fixture(scope="session")
def printed() -> tuple[str, str]:
    """What the README's two blocks of commands print: building, and running."""
    section = (ROOT / "README.md").read_text().partition("\n## From C++\n")[2].partition("\n## ")[0]
    build, run = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    # Where the other tests' compiled code is, and what of it can be used again.
    cache = str(ROOT / "build" / "inductor")
    return (
        output("bash", "-euc", build, TORCHINDUCTOR_CACHE_DIR=cache),
        output("bash", "-euc", run),
    )


def test_the_programs_print_what_python_prints(printed: tuple[str, str]) -> None:
    build, run = printed
    assert [line.split()[0] for line in run.splitlines()] == ["probabilities"] + [
        "probability",
        "class",
    ] * 2
    assert build.endswith(run)


def test_the_onnx_file_gives_what_stock_gives(printed: tuple[str, str]) -> None:
    session = onnxruntime.InferenceSession(ROOT / "build" / "models" / "classifier.onnx")
    features = np.arange(6, dtype=np.float32).reshape(2, 3) / np.float32(7)
    (stock,) = session.run(None, {"features": features})
    numbers = printed[1].splitlines()[0].partition("] ")[2].split()
    assert np.array(numbers, dtype=np.float32).tobytes() == stock.tobytes()


@pytest.mark.usefixtures("printed")
@pytest.mark.parametrize(
    ("program", "file"),
    [
        ("run_onnx", "classifier.onnx"),
        ("run_torchscript", "classifier.pt"),
        ("run_package", "classifier.pt2"),
    ],
)
def test_the_programs_have_no_python_in_them(program: str, file: str, runtime: Path) -> None:
    folder = ROOT / "build"
    assert_no_python(folder / "examples" / program, runtime, folder / "models" / file)
