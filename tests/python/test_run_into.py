"""Outputs written into given tensors: where, what autograd sees of it, and what is refused."""

import numpy as np
import onnxruntime
import pytest
import torch
from models import (
    difference_and_total,
    info,
    model,
    passthrough,
    positive,
    subtract,
    unary,
    weights_as_outputs,
    with_other_output,
)
from onnx import TensorProto, helper
from stock import stock
from support import needs_onnxruntime, refused

import ortdl_torch
from ortdl_torch import InferenceSession, OrtError, OrtValue

LEFT, RIGHT = torch.rand(4, 3), torch.rand(4, 3)


def test_outputs_are_written_in_place() -> None:
    session = InferenceSession(difference_and_total())
    wanted = [torch.from_numpy(a) for a in stock(difference_and_total(), LEFT, RIGHT)]
    targets = [torch.full((4, 3), -1.0), torch.full((4, 3), -1.0)]
    before = [(t.data_ptr(), t._version) for t in targets]
    assert session.run_into(targets, [LEFT, RIGHT]) is None
    assert all(map(torch.equal, targets, wanted))
    assert [t.data_ptr() for t in targets] == [address for address, _ in before]
    assert all(t._version > version for t, (_, version) in zip(targets, before, strict=True))
    targets[0].resize_(8, 3)  # its storage is an ordinary one


def test_by_name_some_of_them_and_values() -> None:
    session = InferenceSession(difference_and_total())
    total = torch.empty(4, 3)
    session.run_into({"total": total}, {"right": RIGHT, "left": LEFT})
    assert torch.equal(total, LEFT + RIGHT)
    value = ortdl_torch.to_ortvalue(torch.empty(4, 3))
    session.run_into({"difference": value}, (LEFT, ortdl_torch.to_ortvalue(RIGHT)))
    assert torch.equal(ortdl_torch.from_ortvalue(value), LEFT - RIGHT)


def test_views_empty_ones_and_scalars() -> None:
    base = torch.zeros(5, 4)
    InferenceSession(unary("Relu", [2, 4])).run_into([base[1:3]], [torch.ones(2, 4)])
    assert base.sum(1).tolist() == [0, 4, 4, 0, 0]
    relu = InferenceSession(unary("Relu", None))
    for shape in [(), (0, 3)]:
        target = torch.full(shape, 7.0)
        relu.run_into([target], [torch.full(shape, 2.0)])
        assert torch.equal(target, torch.full(shape, 2.0))


@pytest.mark.parametrize("kind", ["initializer", "constant"])
def test_weights_among_the_outputs(kind: str) -> None:
    session = InferenceSession(weights_as_outputs(kind))
    y, w = torch.zeros(2), torch.zeros(2)
    session.run_into([y, w], [torch.ones(2)])
    assert (y.tolist(), w.tolist()) == ([2, 3], [2, 3])
    w.fill_(9)
    session.run_into([y, w], [torch.ones(2)])
    assert w.tolist() == [2, 3]


def test_an_output_that_is_an_input_is_copied() -> None:
    session = InferenceSession(passthrough(TensorProto.FLOAT))
    x, y = torch.arange(4.0), torch.zeros(4)
    session.run_into([y], [x])
    assert y.tolist() == [0, 1, 2, 3]
    y.fill_(5)
    assert x.tolist() == [0, 1, 2, 3]


def test_a_backward_pass_notices() -> None:
    session = InferenceSession(unary("Relu"))
    x, y = torch.ones(3), torch.ones(3)
    weight = torch.ones(3, requires_grad=True)
    loss = (weight * y).sum()
    session.run_into([y], [x])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@needs_onnxruntime("1.27", "name of the output in what it says")
def test_a_backward_pass_notices_a_run_that_failed() -> None:
    session = InferenceSession(unary("Relu"))
    y = torch.ones(3)
    version = y._version
    with refused(OrtError, "'y'", "{3}", "{5}"):
        session.run_into([y], [torch.ones(5)])
    assert y._version > version
    session.run_into([y], [torch.full((3,), 2.0)])
    assert y.tolist() == [2] * 3


def test_grad_mode_and_inference_mode_are_pytorch_s() -> None:
    session = InferenceSession(unary("Relu"))
    leaf = torch.zeros(2, requires_grad=True)
    with refused(BufferError, "y", "grad"):
        session.run_into([leaf], [torch.ones(2)])
    with torch.no_grad():
        session.run_into([leaf], [torch.ones(2)])
    assert leaf.tolist() == [1, 1]
    with torch.inference_mode():
        inference = torch.zeros(2)
        session.run_into([inference], [torch.ones(2)])
    assert inference.tolist() == [1, 1]
    with refused(RuntimeError, "inference"):
        session.run_into([inference], [torch.zeros(2)])
    assert inference.tolist() == [1, 1]


OK = torch.zeros(4, 3)
MEMORY = torch.zeros(30)
READ_ONLY = np.zeros((4, 3), np.float32)
READ_ONLY.flags.writeable = False
REFUSED = {
    "float64": (OK.double(), TypeError, ["difference", "float64|double"]),
    "int": (3, TypeError, ["OrtValue|tensor"]),
    "None": (None, TypeError, ["OrtValue|tensor"]),
    "array": (OK.numpy(), TypeError, ["OrtValue|tensor"]),
    "rank": (torch.zeros(4), ValueError, ["difference", "[4]"]),
    "fixed size": (torch.zeros(4, 2), ValueError, ["difference", "[4, 2]"]),
    "strided": (torch.zeros(3, 4).t(), ValueError, ["contiguous"]),
    "expanded": (torch.zeros(1, 3).expand(4, 3), ValueError, ["contiguous"]),
    "conjugate": (torch.zeros(4, 3).neg()._neg_view(), BufferError, ["negation"]),
    "sparse": (torch.zeros(4, 3).to_sparse(), BufferError, ["sparse"]),
    "meta": (torch.zeros(4, 3, device="meta"), BufferError, ["meta"]),
    "an input": (LEFT, ValueError, ["difference", "input"]),
    "a part of an input": (MEMORY[:12].view(4, 3), ValueError, ["difference", "input"]),
    "read-only": (OrtValue.ortvalue_from_numpy(READ_ONLY), BufferError, ["read-only"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    session = InferenceSession(subtract(["n", 3]))
    target, kind, words = REFUSED[name]
    version = target._version if isinstance(target, torch.Tensor) else None
    with refused(kind, *words):
        session.run_into([target], [LEFT, MEMORY[10:22].view(4, 3)])
    if version is not None:
        assert target._version == version


def test_targets_that_overlap() -> None:
    session = InferenceSession(difference_and_total())
    with refused(ValueError, "difference", "total", "same memory"):
        session.run_into([MEMORY[:12].view(4, 3), MEMORY[9:21].view(4, 3)], [LEFT, RIGHT])
    session.run_into([MEMORY[:12].view(4, 3), MEMORY[12:24].view(4, 3)], [LEFT, RIGHT])


def test_wrong_groups() -> None:
    session = InferenceSession(difference_and_total())
    for outputs in ([OK], [OK] * 3, [], {"nope": OK}):
        with refused(ValueError, "difference", "total"):
            session.run_into(outputs, [LEFT, RIGHT])
    for outputs in (None, 3, "difference", {3: OK}, OK):
        with refused(TypeError):
            session.run_into(outputs, [LEFT, RIGHT])
    with refused(ValueError, "right"):
        session.run_into([OK, OK.clone()], [LEFT])


def test_an_output_that_no_tensor_can_be() -> None:
    session = InferenceSession(with_other_output("sequence"))
    with refused(TypeError, "other", "seq"):
        session.run_into({"other": torch.zeros(2)}, [torch.ones(2)])
    y = torch.zeros(2)
    session.run_into({"y": y}, [torch.ones(2)])
    assert y.tolist() == [1, 1]


def test_run_options_hold() -> None:
    options = onnxruntime.RunOptions()
    options.terminate = True
    with refused(OrtError, "terminate"):
        InferenceSession(positive()).run_into([torch.zeros(1)], [torch.ones(1)], options)


def test_an_output_that_is_declared_twice_is_two_pieces_of_memory() -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    session = InferenceSession(model([node], [info("x", [2])], [info("y", [2]), info("y", [2])]))
    first, second = session(torch.ones(2))
    first.fill_(5)
    assert second.tolist() == [1, 1]
    with refused(ValueError, "'y'", "twice"):
        session.run_into([torch.zeros(2), torch.zeros(2)], [torch.ones(2)])
