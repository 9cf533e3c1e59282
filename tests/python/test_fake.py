"""What is told of a model's outputs without running it, and what opcheck finds."""

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
    with_other_output,
    without_inputs,
)
from onnx import TensorProto, helper
from support import KINDS, Kind, refused
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv, free_unbacked_symbols

from ortdl_torch import InferenceSession, OnnxModule, to_ortvalue

pytestmark = pytest.mark.usefixtures("fresh_compilers")

EVERY_TEST = (
    "test_schema",
    "test_autograd_registration",
    "test_faketensor",
    "test_aot_dispatch_dynamic",
)


def fake_outputs(
    graph: bytes, *inputs: tuple[list[int], torch.dtype], symbols: bool = False
) -> list[torch.Tensor]:
    """What the op gives for tensors that have no elements."""
    session = InferenceSession(graph).script_object
    with FakeTensorMode(shape_env=ShapeEnv() if symbols else None):
        tensors = [torch.empty(shape, dtype=dtype) for shape, dtype in inputs]
        return torch.ops.ortdl.run(session, tensors)


@pytest.mark.parametrize(
    ("graph", "inputs"),
    [
        (subtract(["n", 3]), [(4, 3), (4, 3)]),
        (difference_and_total(), [(4, 3), (4, 3)]),
        (subtract([None]), [(4,), (4,)]),
        (unary("Relu", []), [()]),
        (unary("Relu", [2, 0]), [(2, 0)]),
        (positive(), [(5,)]),
        (without_inputs(), []),
    ],
    ids=["one", "two", "unnamed", "0-d", "empty", "data-dependent", "no input"],
)
@pytest.mark.parametrize("test", EVERY_TEST)
def test_opcheck_of_run(graph: bytes, inputs: list[tuple[int, ...]], test: str) -> None:
    session = InferenceSession(graph).script_object
    tensors = [torch.randn(shape) for shape in inputs]
    assert torch.library.opcheck(
        torch.ops.ortdl.run.default, (session, tensors), test_utils=test
    ) == {test: "SUCCESS"}


@pytest.mark.parametrize("test", ["test_schema", "test_autograd_registration"])
def test_opcheck_of_the_conversions(test: str) -> None:
    x = torch.rand(3)
    for copy in (False, None, True):
        assert torch.library.opcheck(
            torch.ops.ortdl.to_ortvalue.default, (x, copy), test_utils=test
        ) == {test: "SUCCESS"}
    value = to_ortvalue(x).script_object
    assert torch.library.opcheck(
        torch.ops.ortdl.from_ortvalue.default, (value,), test_utils=test
    ) == {test: "SUCCESS"}


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_dtypes(kind: Kind) -> None:
    graph = passthrough(kind.number, ["n", 2])
    (got,) = fake_outputs(graph, ([3, 2], kind.dtype))
    assert (got.dtype, tuple(got.shape)) == (kind.dtype, (3, 2))
    (real,) = InferenceSession(graph)(torch.zeros(3, 2).to(kind.dtype))
    assert (got.shape, got.dtype, got.stride()) == (real.shape, real.dtype, real.stride())


def test_dtype_of_an_output_is_its_own() -> None:
    graph = unary("Cast", ["n"], to=TensorProto.INT64)
    (got,) = fake_outputs(graph, ([3], torch.float32))
    assert (got.dtype, tuple(got.shape)) == (torch.int64, (3,))


def test_names_bind_to_the_callers_sizes() -> None:
    graph = model(
        [helper.make_node("MatMul", ["a", "b"], ["y"])],
        [info("a", ["rows", "inner"]), info("b", ["inner", "columns"])],
        [info("y", ["rows", "columns"])],
    )
    (got,) = fake_outputs(graph, ([2, 3], torch.float32), ([3, 5], torch.float32))
    assert tuple(got.shape) == (2, 5)
    with refused(ValueError, "b", "3", "4"):
        fake_outputs(graph, ([2, 3], torch.float32), ([4, 5], torch.float32))


def test_sizes_that_only_running_tells_are_symbols_one_for_each_name() -> None:
    graph = model(
        [
            helper.make_node("Compress", ["x", "above"], ["y"]),
            helper.make_node("Neg", ["y"], ["z"]),
        ],
        [info("x", ["n"]), info("above", ["n"], TensorProto.BOOL)],
        [info("y", ["k"]), info("z", ["k"])],
    )
    y, z = fake_outputs(graph, ([4], torch.float32), ([4], torch.bool), symbols=True)
    assert len(free_unbacked_symbols(y)) == 1
    assert free_unbacked_symbols(y) == free_unbacked_symbols(z)


WRONG = {
    "count": ([([2, 3], torch.float32)], ValueError, ["2", "1", "left", "right"]),
    "rank": ([([2, 3], torch.float32), ([3], torch.float32)], ValueError, ["right", "2"]),
    "fixed": ([([2, 3], torch.float32), ([2, 4], torch.float32)], ValueError, ["right", "3", "4"]),
    "named": ([([2, 3], torch.float32), ([5, 3], torch.float32)], ValueError, ["right", "2", "5"]),
    "dtype": ([([2, 3], torch.float32), ([2, 3], torch.int32)], TypeError, ["right", "int32"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_inputs_are_refused_without_running(name: str) -> None:
    inputs, kind, words = WRONG[name]
    with refused(kind, *words):
        fake_outputs(subtract(["n", 3]), *inputs)
    # And with elements, by the same op.
    session = InferenceSession(subtract(["n", 3])).script_object
    with pytest.raises((kind, RuntimeError)):
        torch.ops.ortdl.run(session, [torch.ones(shape).to(dtype) for shape, dtype in inputs])


def test_grad_is_refused_without_running() -> None:
    session = InferenceSession(subtract(["n"])).script_object
    with FakeTensorMode():
        x = torch.empty(3, requires_grad=True)
        with refused(BufferError, "grad", "no_grad|detach"):
            torch.ops.ortdl.run(session, [x, x])
        with torch.no_grad():
            (got,) = torch.ops.ortdl.run(session, [x, x])
    assert tuple(got.shape) == (3,)


@pytest.mark.parametrize("kind", ["string", "sequence", "optional"])
def test_outputs_that_are_no_tensors_are_refused_by_name(kind: str) -> None:
    with refused(TypeError, "other"):
        fake_outputs(with_other_output(kind), ([3], torch.float32), symbols=True)


def test_meta_tensors() -> None:
    session = InferenceSession(subtract(["n", 3])).script_object
    x = torch.empty(4, 3, device="meta")
    (got,) = torch.ops.ortdl.run(session, [x, x])
    assert (got.device.type, tuple(got.shape)) == ("meta", (4, 3))


def test_a_module_takes_fake_tensors() -> None:
    module = OnnxModule(difference_and_total())
    with FakeTensorMode() as mode:
        x = torch.empty(4, 3)
        inside = module(x, right=x)
    outside = module(x, x)  # a fake tensor is one also where no mode is on
    for got in (inside, outside):
        assert got._fields == ("difference", "total")
        assert got.total.fake_mode is mode
        assert tuple(got.total.shape) == (4, 3)


@pytest.mark.parametrize("pre_dispatch", [False, True])
@pytest.mark.parametrize("tracing_mode", ["real", "fake", "symbolic"])
def test_make_fx_records_one_call(tracing_mode: str, pre_dispatch: bool) -> None:
    module = OnnxModule(subtract(["n", 3]))
    traced = make_fx(
        lambda a, b: module(a, b), tracing_mode=tracing_mode, pre_dispatch=pre_dispatch
    )(torch.rand(4, 3), torch.rand(4, 3))
    targets = [node.target for node in traced.graph.nodes if node.op == "call_function"]
    assert targets.count(torch.ops.ortdl.run.default) == 1
    x, y = torch.rand(4, 3), torch.rand(4, 3)
    assert torch.equal(traced(x, y), x - y)


@pytest.mark.parametrize("copy", [False, None, True])
def test_conversions_say_that_they_cannot_be_traced(copy: bool | None) -> None:
    x = torch.rand(3)
    with FakeTensorMode() as mode, pytest.raises(Exception, match=r"to_ortvalue.*copy") as caught:
        torch.ops.ortdl.to_ortvalue(mode.from_tensor(x), copy)
    assert "OnnxModule" in str(caught.value)
