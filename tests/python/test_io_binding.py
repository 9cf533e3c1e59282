"""Inputs and outputs that are bound once: what runs read and write, and who keeps what alive."""

import gc
import threading
import time
from collections.abc import Callable

import numpy as np
import onnxruntime
import pytest
import torch
from models import counting_loop, difference_and_total, passthrough, subtract, unary
from nested_models import one_node, optional_type, sequence_type, tensor_type
from onnx import TensorProto
from support import refused

import ortdl_torch
from ortdl_torch import InferenceSession, IOBinding, OrtError


def subtracting(left: torch.Tensor, right: torch.Tensor) -> tuple[InferenceSession, IOBinding]:
    """A session of `subtract` and a binding with both inputs."""
    session = InferenceSession(subtract())
    binding = session.io_binding()
    binding.bind_input("left", left)
    binding.bind_input("right", right)
    return session, binding


def test_bound_once_and_run_many_times() -> None:
    left, right, y = torch.zeros(3), torch.ones(3), torch.zeros(3)
    session, binding = subtracting(left, right)
    binding.bind_output("difference", y)
    for k in range(5):
        left.fill_(k)
        version = y._version
        assert session.run_with_iobinding(binding) is None
        assert y.tolist() == [k - 1] * 3
        assert y._version > version
    (value,) = binding.get_outputs()
    assert value.data_ptr() == y.data_ptr()
    (array,) = binding.copy_outputs_to_cpu()
    left.fill_(9)
    session.run_with_iobinding(binding, None)
    assert array.tolist() == [3] * 3
    assert ortdl_torch.from_ortvalue(value).tolist() == [8] * 3


def test_outputs_left_to_onnxruntime_stay_in_place() -> None:
    left = torch.zeros(3)
    session, binding = subtracting(left, torch.ones(3))
    binding.bind_output("difference")
    with refused(RuntimeError, "first run"):
        binding.get_outputs()
    session.run_with_iobinding(binding)
    (value,) = binding.get_outputs()
    y = ortdl_torch.from_ortvalue(value)
    version = y._version
    left.fill_(4)
    session.run_with_iobinding(binding)
    assert binding.get_outputs()[0].data_ptr() == y.data_ptr()
    assert y.tolist() == [3] * 3
    assert y._version > version
    binding.bind_input("left", torch.zeros(5))
    binding.bind_input("right", torch.ones(5))
    with refused(OrtError, "{3}", "{5}"):
        session.run_with_iobinding(binding)
    binding.bind_output("difference")
    session.run_with_iobinding(binding)
    assert binding.copy_outputs_to_cpu()[0].tolist() == [-1] * 5
    assert y.tolist() == [3] * 3


def test_the_same_as_stock() -> None:
    left, right = np.random.rand(4, 3).astype(np.float32), np.random.rand(4, 3).astype(np.float32)
    results = []
    for session in (
        InferenceSession(difference_and_total()),
        onnxruntime.InferenceSession(difference_and_total()),
    ):
        binding = session.io_binding()
        binding.bind_cpu_input("left", left)
        binding.bind_cpu_input("right", right)
        binding.bind_output("total")
        binding.bind_output("difference")
        binding.synchronize_inputs()
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        results.append([a.tobytes() for a in binding.copy_outputs_to_cpu()])
    assert results[0] == results[1]


def test_values_of_every_kind_and_options() -> None:
    session = InferenceSession(unary("Relu"))
    binding = session.io_binding()
    x = onnxruntime.OrtValue.ortvalue_from_numpy(np.array([-1, 2], np.float32))
    y = ortdl_torch.to_ortvalue(torch.zeros(2))
    binding.bind_ortvalue_input("x", x)
    binding.bind_ortvalue_output("y", y.script_object)
    options = onnxruntime.RunOptions()
    session.run_with_iobinding(binding, run_options=options)
    assert y.numpy().tolist() == [0, 2]
    options.terminate = True
    with refused(OrtError, "terminate"):
        session.run_with_iobinding(binding, options)


def test_an_output_that_is_an_input_is_copied() -> None:
    session = InferenceSession(passthrough(TensorProto.FLOAT))
    x, y = torch.arange(3.0), torch.zeros(3)
    binding = session.io_binding()
    binding.bind_input("x", x)
    for target in (y, None):
        binding.bind_output("x", target)
        for k in range(3):
            x.fill_(k)
            session.run_with_iobinding(binding)
            (value,) = binding.get_outputs()
            assert value.numpy().tolist() == [k] * 3
            assert value.data_ptr() != x.data_ptr()
    assert y.tolist() == [2] * 3


def test_memory_and_session_live_as_long_as_the_binding() -> None:
    session, binding = subtracting(torch.full((1000,), 3.0), torch.ones(1000))
    y = torch.zeros(1000)
    binding.bind_output("difference", y)
    run = session.run_with_iobinding
    address = y.data_ptr()
    y.data = torch.zeros(2)
    del session, y
    gc.collect()
    run(binding)
    (value,) = binding.get_outputs()
    assert value.data_ptr() == address
    assert value.numpy().tolist() == [2] * 1000


@pytest.mark.parametrize("repoint", ["resize_", "storage", "set_", "data"])
def test_repointed_tensors_leave_nothing_dangling(repoint: str) -> None:
    x, y = torch.ones(4096), torch.zeros(4096)
    session, binding = subtracting(x, x)
    binding.bind_output("difference", y)
    for tensor in (x, y):
        if repoint == "resize_":
            with pytest.raises(RuntimeError, match="resizable"):
                tensor.resize_(100_000)
        elif repoint == "storage":
            with pytest.raises(RuntimeError, match="resizable"):
                tensor.untyped_storage().resize_(0)
        elif repoint == "set_":
            tensor.set_(torch.full((2,), 9.0))
        else:
            tensor.data = torch.full((2,), 9.0)
    session.run_with_iobinding(binding)
    assert binding.copy_outputs_to_cpu()[0].tolist() == [0] * 4096


OK = torch.zeros(3)
REFUSED: dict[str, tuple[Callable[[IOBinding], None], type[Exception], list[str]]] = {
    "no such input": (lambda b: b.bind_input("nope", OK), ValueError, ["nope", "left"]),
    "no such output": (lambda b: b.bind_output("nope", OK), ValueError, ["nope", "difference"]),
    "dtype": (lambda b: b.bind_input("left", OK.double()), TypeError, ["left", "double|float64"]),
    "rank": (lambda b: b.bind_input("left", OK.view(1, 3)), ValueError, ["left"]),
    "strided": (lambda b: b.bind_input("left", torch.zeros(6)[::2]), ValueError, ["contiguous"]),
    "grad": (
        lambda b: b.bind_input("left", torch.zeros(3, requires_grad=True)),
        BufferError,
        ["grad"],
    ),
    "a number": (lambda b: b.bind_input("left", 3), TypeError, ["int"]),
    "a name": (lambda b: b.bind_input(3, OK), TypeError, ["string"]),
    "an address": (
        lambda b: b.bind_input("left", "cpu", 0, np.float32, [3], OK.data_ptr()),
        TypeError,
        ["bind_input"],
    ),
    "dtype of an output": (lambda b: b.bind_output("difference", OK.long()), TypeError, ["int64"]),
    "the memory of an input": (
        lambda b: (b.bind_input("left", OK), b.bind_output("difference", OK)),
        ValueError,
        ["difference", "input"],
    ),
    "an input in an output": (
        lambda b: (b.bind_output("difference", OK), b.bind_input("left", OK)),
        ValueError,
        ["difference", "input"],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_when_bound(name: str) -> None:
    session, binding = subtracting(torch.full((3,), 5.0), torch.ones(3))
    action, kind, words = REFUSED[name]
    binding.bind_output("difference")
    with refused(kind, *words):
        action(binding)
    if "memory" not in name and "in an output" not in name:
        session.run_with_iobinding(binding)
        assert binding.copy_outputs_to_cpu()[0].tolist() == [4] * 3


def test_refused_when_run() -> None:
    session, binding = subtracting(OK, OK)
    with refused(ValueError, "no output", "difference"):
        session.run_with_iobinding(binding)
    binding.bind_output("difference")
    binding.clear_binding_inputs()
    with refused(ValueError, "left"):
        session.run_with_iobinding(binding)
    binding.clear_binding_outputs()
    assert binding.get_outputs() == []
    with refused(ValueError, "another session"):
        InferenceSession(subtract()).run_with_iobinding(binding)
    for wrong in (None, 3, session):
        with refused(TypeError, "io_binding"):
            session.run_with_iobinding(wrong)
    for wrong in (None, 3, binding):
        with refused(TypeError):
            IOBinding(wrong)


def test_a_second_thread_is_refused() -> None:
    session = InferenceSession(counting_loop())
    binding = session.io_binding()
    binding.bind_input("start", torch.zeros(1))
    binding.bind_input("turns", torch.tensor(2**62))
    binding.bind_output("total")
    options = onnxruntime.RunOptions()

    def work() -> None:
        with pytest.raises(OrtError, match="terminate"):
            session.run_with_iobinding(binding, options)

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.2)
    for use in (
        lambda: session.run_with_iobinding(binding),
        lambda: binding.bind_input("start", torch.zeros(1)),
        lambda: binding.bind_output("total"),
        binding.get_outputs,
        binding.clear_binding_inputs,
    ):
        with refused(RuntimeError, "another thread"):
            use()
    options.terminate = True
    thread.join()
    binding.bind_input("turns", torch.tensor(3))
    session.run_with_iobinding(binding)
    assert binding.copy_outputs_to_cpu()[0].tolist() == [3]


def test_a_value_with_nothing_in_it_is_not_bound() -> None:
    optional = optional_type(tensor_type())
    empty = one_node("Optional", {}, {"p": optional}, type=tensor_type())
    session = InferenceSession(empty)
    binding = session.io_binding()
    binding.bind_output("p")
    session.run_with_iobinding(binding)
    (nothing,) = binding.get_outputs()
    asks = one_node("OptionalHasElement", {"o": optional}, {"h": tensor_type(TensorProto.BOOL, [])})
    other = InferenceSession(asks).io_binding()
    with refused(ValueError, "'o'", "None"):
        other.bind_input("o", nothing)


def test_a_sequence_is_new_in_each_run() -> None:
    x = torch.arange(4.0)
    graph = one_node("SplitToSequence", {"x": tensor_type(shape=[4])}, {"y": sequence_type()})
    session = InferenceSession(graph)
    binding = session.io_binding()
    binding.bind_input("x", x)
    binding.bind_output("y")
    length = one_node("SequenceLength", {"s": sequence_type()}, {"n": tensor_type(7, [])})
    measure = InferenceSession(length)
    for _ in range(3):
        session.run_with_iobinding(binding)
        assert measure(binding.get_outputs()[0])[0].item() == 4


def test_an_output_that_shares_memory_with_a_sequence_is_right() -> None:
    graph = one_node(
        "ConcatFromSequence", {"s": sequence_type()}, {"y": tensor_type(shape=[None])}, axis=0
    )
    session = InferenceSession(graph)
    y = torch.arange(8.0)
    session.run_into([y], [[y[4:], y[:4]]])
    assert y.tolist() == [4, 5, 6, 7, 0, 1, 2, 3]
