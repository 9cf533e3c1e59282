"""Copies that are made here are real, whatever PyTorch makes of the caller's own ops meanwhile."""

import pickle
from collections.abc import Callable
from contextlib import AbstractContextManager

import ml_dtypes
import numpy as np
import pytest
import torch
from models import passthrough, unary
from nested_models import one_node, sequence_type, tensor_type
from onnx import TensorProto
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from ortdl_torch import InferenceSession, OnnxModule, OrtValue, from_dlpack, from_ortvalue
from ortdl_torch import to_ortvalue as make

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
STRIDED = torch.arange(6.0)[::2]


class Empties(TorchDispatchMode):
    """Gives an empty tensor for whatever is asked."""

    def __torch_dispatch__(self, *asked: object, **more: object) -> torch.Tensor:
        return torch.empty(0)


modes = pytest.mark.parametrize(
    "mode",
    [lambda: FakeTensorMode(allow_non_fake_inputs=True), FakeTensorMode, Empties],
    ids=["fake, real inputs allowed", "fake", "empties"],
)
Mode = Callable[[], AbstractContextManager[object]]


@modes
def test_values_are_of_real_copies(mode: Mode) -> None:
    x, array = torch.arange(1000.0), np.arange(6, dtype=np.float32).reshape(2, 3)
    half = np.arange(6, dtype=ml_dtypes.bfloat16)[::2]
    with mode():
        made = [
            make(x, copy=True),
            make(STRIDED, copy=None),
            from_dlpack(array.T),
            from_dlpack(x, copy=True),
        ]
        back = from_ortvalue(made[0], copy=True)
        arrays = [value.numpy() for value in made]
        odd = OrtValue.ortvalue_from_numpy(half.copy()).numpy()
    assert type(back) is torch.Tensor
    assert torch.equal(back, x)
    expected = [x.numpy(), np.array([0, 2, 4]), array.T, x.numpy()]
    for value, got, wanted in zip(made, arrays, expected, strict=True):
        assert value.data_ptr() != 0
        assert got.tolist() == value.numpy().tolist() == wanted.tolist()
    assert odd.astype(np.float32).tolist() == [0.0, 2.0, 4.0]


@modes
def test_writes_are_real(mode: Mode) -> None:
    value, array = make(torch.zeros(3)), np.arange(6, dtype=np.float32)[::2]
    with mode():
        value.update_inplace(array)
    assert value.numpy().tolist() == [0.0, 2.0, 4.0]


@modes
def test_a_session_reads_real_copies(mode: Mode) -> None:
    model = unary("Neg")
    sequence = one_node(
        "SequenceAt",
        {"x": sequence_type(), "i": tensor_type(TensorProto.INT64, [])},
        {"y": tensor_type()},
    )
    before, same, at = (
        InferenceSession(model),
        InferenceSession(passthrough(TensorProto.FLOAT)),
        torch.tensor(1),
    )
    inside = torch.arange(4.0)
    with mode():
        session = InferenceSession(model)
        results = [
            *before(STRIDED),
            *session(STRIDED),
            *pickle.loads(pickle.dumps(before))(STRIDED),
            *pickle.loads(pickle.dumps(before, 2))(STRIDED),
            *InferenceSession(sequence)([inside, STRIDED], at),
        ]
        kept = same(inside)[0]
    assert {type(result) for result in results} == {torch.Tensor}
    assert [result.tolist() for result in results] == [[0, -2, -4]] * 4 + [[0, 2, 4]]
    assert kept.tolist() == [0.0, 1.0, 2.0, 3.0]


class Constant(torch.nn.Module):
    """Adds what a session makes of a tensor that is no part of the program."""

    def __init__(self) -> None:
        super().__init__()
        self.session = InferenceSession(unary("Neg"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.session(STRIDED)[0]


@pytest.mark.usefixtures("nothing_exported")
def test_a_traced_program_has_a_sessions_result_as_a_constant() -> None:
    traced = make_fx(Constant(), tracing_mode="fake", _allow_non_fake_inputs=True)(torch.ones(3))
    exported = torch.export.export(Constant(), (torch.ones(3),)).module()
    for program in (traced, exported):
        assert program(torch.ones(3)).tolist() == [1.0, -1.0, -3.0]


@pytest.mark.parametrize("within", ["jvp", "vmap", "functionalize"])
def test_copies_within_a_transform_are_real(within: str) -> None:
    made: list[OrtValue] = []

    def body(x: torch.Tensor) -> torch.Tensor:
        made.append(make(STRIDED, copy=True))
        return x

    x = torch.ones(3)
    if within == "jvp":
        torch.func.jvp(body, (x,), (x,))
    else:
        getattr(torch.func, within)(body)(x)
    assert [value.numpy().tolist() for value in made] == [[0.0, 2.0, 4.0]]


@pytest.mark.usefixtures("fresh_compilers", "nothing_exported")
@pytest.mark.parametrize("how", ["eager", "aot_eager", "inductor", "export"])
def test_autocast_and_pending_negations_pass_a_traced_run(how: str) -> None:
    module = OnnxModule(unary("Neg"))

    class Around(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu"):
                return module(torch._neg_view(x))

    x = torch.arange(3.0)
    if how == "export":
        run = torch.export.export(Around(), (x,)).module()
    else:
        run = torch.compile(Around(), backend=how, fullgraph=True)
    result = run(x)
    assert (result.dtype, result.tolist()) == (torch.float32, [0.0, 1.0, 2.0])
