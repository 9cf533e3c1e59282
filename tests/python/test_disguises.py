"""Objects of onnxruntime's and PyTorch's classes that are not what their class says."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from models import unary
from onnxruntime import RunOptions, SessionOptions
from onnxruntime.capi import onnxruntime_pybind11_state as native
from support import refused

import ortdl_torch
from ortdl_torch import InferenceSession, OnnxModule, OrtValue, from_ortvalue, to_ortvalue


class MyRunOptions(RunOptions):
    """A subclass in Python."""


class MySessionOptions(SessionOptions):
    """A subclass in Python."""


class Both(SessionOptions, RunOptions):
    """Options with two classes of C++ under them."""

    def __init__(self) -> None:
        SessionOptions.__init__(self)
        RunOptions.__init__(self)


@contextmanager
def disguised(made: Any, cls: type) -> Iterator[Any]:
    """The object with another class, as long as the body runs: freeing it as that would crash."""
    real = type(made)
    made.__class__ = cls
    try:
        yield made
    finally:
        made.__class__ = real


def run_with(options: Any) -> None:
    InferenceSession(unary("Relu")).run(None, {"x": torch.ones(1)}, options)


def run_into_with(options: Any) -> None:
    InferenceSession(unary("Relu")).run_into([torch.ones(1)], [torch.ones(1)], options)


def run_bound_with(options: Any) -> None:
    session = InferenceSession(unary("Relu"))
    binding = session.io_binding()
    binding.bind_input("x", torch.ones(1))
    binding.bind_output("y", torch.ones(1))
    session.run_with_iobinding(binding, options)


RUNS = [run_with, run_into_with, run_bound_with]


@pytest.mark.parametrize("real", [SessionOptions, onnxruntime.LoraAdapter, native.OrtValueVector])
@pytest.mark.parametrize("run", RUNS)
def test_other_objects_as_run_options(run: Callable[[Any], None], real: type) -> None:
    with (
        disguised(real(), RunOptions) as options,
        refused(TypeError, "RunOptions()", "another class"),
    ):
        run(options)


@pytest.mark.parametrize("cls", [RunOptions, MyRunOptions])
@pytest.mark.parametrize("run", RUNS)
def test_run_options_that_were_never_made(run: Callable[[Any], None], cls: type) -> None:
    with refused(TypeError, "RunOptions()", "never initialised"):
        run(cls.__new__(cls))


def test_run_options_of_a_subclass_work() -> None:
    for cls in (RunOptions, MyRunOptions):
        kept = [cls() for _ in range(200)]
        for options in kept:
            run_with(options)
            run_into_with(options)


MAKERS = [InferenceSession, OnnxModule]


@pytest.mark.parametrize("make", MAKERS)
def test_what_is_no_session_options(make: Callable[..., Any]) -> None:
    class Pretender:
        __class__ = SessionOptions

    for cls in (SessionOptions, MySessionOptions):
        with refused(TypeError, "SessionOptions()", "never initialised"):
            make(unary("Relu"), cls.__new__(cls))
    for made in (RunOptions(), onnxruntime.LoraAdapter()):
        with disguised(made, SessionOptions) as options, refused(TypeError, "another class"):
            make(unary("Relu"), options)
    with refused(TypeError, "another class of C++"):
        make(unary("Relu"), Both())
    for other in (Pretender(), RunOptions(), 3, SessionOptions):
        with refused(TypeError, "sess_options must be", type(other).__name__):
            make(unary("Relu"), other)


def test_session_options_of_a_subclass_work() -> None:
    kept = [MySessionOptions() for _ in range(50)]
    for options in kept:
        assert InferenceSession(unary("Neg"), options)(torch.ones(1))[0].tolist() == [-1]


def wrapped(value: object) -> onnxruntime.OrtValue:
    """onnxruntime's own class round what it should hold a value of C++ in."""
    stock = onnxruntime.OrtValue.__new__(onnxruntime.OrtValue)
    stock._ortvalue = value
    return stock


TAKERS = [
    from_ortvalue,
    OrtValue,
    ortdl_torch.to_dlpack,
    lambda value: ortdl_torch.from_ortvalues([value]),
    lambda value: to_ortvalue(torch.ones(2)).update_inplace(value),
    lambda value: InferenceSession(unary("Relu"))(value),
    lambda value: InferenceSession(unary("Relu")).run_into([torch.ones(2)], [value]),
    lambda value: InferenceSession(unary("Relu")).run_into([value], [torch.ones(2)]),
    lambda value: InferenceSession(unary("Relu")).io_binding().bind_input("x", value),
]


@pytest.mark.parametrize("take", TAKERS)
def test_stock_values_that_are_none(take: Callable[[Any], object]) -> None:
    for value in (native.OrtValue.__new__(native.OrtValue), None, 3, wrapped(None)):
        with refused(TypeError, "holds no value"):
            take(wrapped(value))
    with refused(TypeError, "holds no value"):
        take(onnxruntime.OrtValue.__new__(onnxruntime.OrtValue))


@pytest.mark.parametrize("take", TAKERS)
def test_other_objects_as_stock_values(take: Callable[[Any], object]) -> None:
    session = onnxruntime.InferenceSession(unary("Relu"))
    for made in (
        RunOptions(),
        SessionOptions(),
        native.OrtValueVector(),
        native.AdapterFormat(),
        session.get_inputs()[0],
        session.get_modelmeta(),
    ):
        with disguised(made, native.OrtValue) as value, refused(TypeError, "holds no value"):
            take(wrapped(value))


def test_stock_values_that_own_nothing_are_taken() -> None:
    session = onnxruntime.InferenceSession(unary("Relu"))
    x = onnxruntime.OrtValue.ortvalue_from_numpy(np.ones(2, np.float32))
    (y,) = session.run_with_ort_values(None, {"x": x})
    assert from_ortvalue(y).tolist() == [1, 1]


@pytest.mark.parametrize("take", TAKERS)
def test_an_object_that_says_it_is_of_torchscript(take: Callable[[Any], object]) -> None:
    class Pretender:
        __class__ = torch.ScriptObject

    with refused(TypeError, "Pretender"):
        take(Pretender())


def test_an_object_that_says_it_is_a_session() -> None:
    class Pretender:
        __class__ = torch.ScriptObject

    with refused(TypeError, "Pretender"):
        InferenceSession(Pretender())
