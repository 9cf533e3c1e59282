"""NumPy's own DLPack tests, from the installed package, with our OrtValue in the middle."""

from functools import partial
from types import FunctionType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy._core.tests import test_dlpack as theirs

from ortdl_torch import OrtValue

COMPLEX = (TypeError, "ONNX Runtime has no complex element type")
# The tests that must fail, each with its exception and the reason. One that passes is an error.
EXCEPTIONS: dict[str, dict[str, tuple[type[Exception], str]]] = {
    "TestImport": {
        "test_dtype_passthrough[arr0-complex64]": COMPLEX,
        "test_dtype_passthrough[arr0-complex128]": COMPLEX,
        "test_dtype_passthrough[arr1-complex64]": COMPLEX,
        "test_dtype_passthrough[arr1-complex128]": COMPLEX,
        "test_writeable": (
            AssertionError,
            "NumPy takes memory in a legacy capsule for read-only, which such a capsule cannot say",
        ),
    },
    "TestExport": {
        "test_dunder_dlpack_stream": (
            ValueError,
            "NumPy refuses a stream with a RuntimeError, an OrtValue with a ValueError",
        ),
        "test_dunder_dlpack_copy": (
            TypeError,
            "NumPy refuses a copy that is no bool with a ValueError, an OrtValue with a TypeError",
        ),
    },
}


class ByNumpy:
    """An array's memory, exported by NumPy."""

    def __init__(self, array: np.ndarray) -> None:
        self.__dlpack__ = partial(np.ndarray.__dlpack__, array)
        self.__dlpack_device__ = partial(np.ndarray.__dlpack_device__, array)


class ByValue(np.ndarray):
    """An array whose DLPack methods are those of an OrtValue over its memory."""

    def __dlpack__(self, **options: Any) -> Any:
        return OrtValue.from_dlpack(ByNumpy(self)).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return OrtValue.from_dlpack(ByNumpy(self)).__dlpack_device__()


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> np.ndarray:
    """`np.from_dlpack`, but of the value that is made of `x` as it was asked for."""
    return np.from_dlpack(OrtValue.from_dlpack(x, device=device, copy=copy))


def arange(*args: Any, **kwargs: Any) -> ByValue:
    return np.arange(*args, **kwargs).view(ByValue)


def reusable(mark: pytest.Mark) -> pytest.Mark:
    """The mark with its values in a list: NumPy has generators there, which serve one class."""
    names, values = mark.args
    return pytest.mark.parametrize(names, list(values), **mark.kwargs).mark


for function in vars(theirs.TestDLPack).values():
    if isinstance(function, FunctionType) and hasattr(function, "pytestmark"):
        function.pytestmark = [
            reusable(mark) if mark.name == "parametrize" else mark for mark in function.pytestmark
        ]


@pytest.fixture(autouse=True)
def in_the_middle(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy's tests see a NumPy in which their class has replaced a function."""
    names = {name: getattr(np, name) for name in dir(np)}
    monkeypatch.setattr(theirs, "np", SimpleNamespace(**names | request.cls.replaced))
    if exception := EXCEPTIONS[request.cls.__name__].get(request.node.name):
        kind, reason = exception
        request.applymarker(pytest.mark.xfail(raises=kind, reason=reason, strict=True))


class TestImport(theirs.TestDLPack):
    """What NumPy exports becomes a value, and that an array."""

    replaced: ClassVar = {"from_dlpack": from_dlpack}


class TestExport(theirs.TestDLPack):
    """The arrays that the tests make with arange are exported by a value."""

    replaced: ClassVar = {"arange": arange}
