"""Weights of a model from tensors: shared, seen when they change, kept alive, saved."""

import gc
import pickle
import threading
import weakref
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
import torch
from models import FLOAT, info, model, scaled, weights_as_outputs
from onnx import helper, numpy_helper
from stock import same_as_stock
from support import live, refused

from ortdl_torch import InferenceSession, OnnxModule, from_ortvalue, to_ortvalue

Tensors = dict[str, torch.Tensor]
X = torch.arange(8.0).reshape(2, 4) / 8
IMAGE = torch.arange(3.0 * 64).reshape(1, 3, 8, 8) / 64


def rand(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(sum(shape)))


def bytes_of(*shape: int) -> torch.Tensor:
    return (rand(*shape) * 200).to(torch.uint8)


# A graph's nodes, its weights and its input: what ONNX Runtime folds, fuses or packs.
GRAPHS: dict[str, tuple[str, Tensors, torch.Tensor]] = {
    "MatMul": ("y = MatMul(x, w)", {"w": rand(4, 64)}, X),
    "Gemm": ("y = Gemm <transB = 1> (x, w, b)", {"w": rand(64, 4), "b": rand(64)}, X),
    "MatMul and Add": ("t = MatMul(x, w) y = Add(t, b)", {"w": rand(4, 8), "b": rand(8)}, X),
    "scaled MatMul": (
        "t = Mul(x, c) y = MatMul(t, w)",
        {"c": torch.tensor(2.0), "w": rand(4, 8)},
        X,
    ),
    "transposed": ("t = Transpose <perm = [1, 0]> (w) y = MatMul(x, t)", {"w": rand(8, 4)}, X),
    "folded": ("s = Add(a, b) t = Mul(s, a) y = Add(x, t)", {"a": rand(4), "b": rand(4)}, X),
    "zero": ("y = Add(x, w)", {"w": torch.zeros(4)}, X),
    "one": ("y = Mul(x, w)", {"w": torch.tensor(1.0)}, X),
    "Conv": (
        "y = Conv <pads = [1, 1, 1, 1]> (x, w, b)",
        {"w": rand(16, 3, 3, 3), "b": rand(16)},
        IMAGE,
    ),
    "Conv and BatchNormalization": (
        "t = Conv(x, w) y = BatchNormalization(t, s, b, m, v)",
        {"w": rand(8, 3, 3, 3), "s": rand(8), "b": rand(8), "m": rand(8), "v": rand(8) + 1},
        IMAGE,
    ),
    "normalised": (
        """m = ReduceMean <keepdims = 1> (x) d = Sub(x, m) p = Mul(d, d)
        v = ReduceMean <keepdims = 1> (p) e = Add(v, w) r = Sqrt(e) n = Div(d, r)
        o = Mul(n, g) y = Add(o, b)""",
        {"w": torch.tensor(1e-3), "g": rand(4), "b": rand(4)},
        X,
    ),
    "dequantised": (
        "d = DequantizeLinear(w, s, z) y = MatMul(x, d)",
        {"w": bytes_of(4, 8), "s": torch.tensor(0.1), "z": torch.tensor(3, dtype=torch.uint8)},
        X,
    ),
    "integers": (
        "t = MatMulInteger(x, w) y = Cast <to = 1> (t)",
        {"w": bytes_of(4, 64)},
        bytes_of(2, 4),
    ),
    "half": (
        "h = Cast <to = 10> (x) t = MatMul(h, w) y = Cast <to = 1> (t)",
        {"w": rand(4, 64).half()},
        X,
    ),
    "LSTM": (
        "y, h, c = LSTM <hidden_size = 16> (x, w, r)",
        {"w": rand(1, 64, 4), "r": rand(1, 64, 16)},
        rand(5, 2, 4),
    ),
    "in a branch": (
        """z = Constant <value = float {0}> () s = ReduceSum <keepdims = 0> (x) c = Less(z, s)
        y = If(c) <
          then_branch = yes () => (float[2, 64] p) { p = MatMul(x, w) },
          else_branch = no () => (float[2, 64] q) { t = MatMul(x, w) q = Add(t, b) }>""",
        {"w": rand(4, 64), "b": rand(64)},
        X,
    ),
}
TYPES = {torch.float32: "float", torch.uint8: "uint8"}
LEVELS = ["ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_ALL"]


def graph(nodes: str, weights: Tensors, x: torch.Tensor) -> bytes:
    sizes = ", ".join(str(size) for size in x.shape)
    made = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 17]> '
        f"g ({TYPES[x.dtype]}[{sizes}] x) => (float y) {{ {nodes} }}"
    )
    for name, weight in weights.items():
        made.graph.initializer.append(numpy_helper.from_array(weight.numpy(), name))
    return made.SerializeToString()


def at_level(level: str) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    return options


def unoptimised(source: bytes, x: torch.Tensor) -> np.ndarray[Any, Any]:
    options = at_level("ORT_DISABLE_ALL")
    options.add_session_config_entry("session.disable_prepacking", "1")
    return onnxruntime.InferenceSession(source, options).run(["y"], {"x": x.numpy()})[0]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", GRAPHS)
def test_the_next_run_sees_what_was_written(kind: str, level: str) -> None:
    nodes, weights, x = GRAPHS[kind]
    weights = {name: weight.clone() for name, weight in weights.items()}
    session = InferenceSession(
        graph(nodes, GRAPHS[kind][1], x), at_level(level), initializers=weights
    )
    before = session.run(["y"], {"x": x})[0]
    assert np.array_equal(before.numpy(), unoptimised(graph(nodes, weights, x), x))
    for weight in weights.values():
        weight.add_(1)
    after = session.run(["y"], {"x": x})[0]
    assert np.array_equal(after.numpy(), unoptimised(graph(nodes, weights, x), x))
    assert not torch.equal(before, after)


def test_every_way_to_write_is_seen() -> None:
    weight = torch.nn.Parameter(torch.ones(4))
    with torch.no_grad():
        session = InferenceSession(scaled(), initializers={"w": weight})
        x = torch.ones(4)
        weight.mul_(2)
        assert session(x)[0].tolist() == [2] * 4
        weight.copy_(torch.arange(4.0))
        assert session(x)[0].tolist() == [0, 1, 2, 3]
        weight[1:3] = 9
        assert session(x)[0].tolist() == [0, 9, 9, 3]
    weight.sum().backward()
    torch.optim.SGD([weight], lr=1.0).step()
    assert session(x)[0].tolist() == [-1, 8, 8, 2]
    weight.data.numpy()[0] = 5
    assert session(x)[0].tolist() == [5, 8, 8, 2]


def test_the_memory_is_the_tensors() -> None:
    weight = torch.tensor([4.0, 5.0])
    session = InferenceSession(weights_as_outputs("initializer"), initializers={"w": weight})
    y, w = session(torch.ones(2))
    assert y.tolist() == w.tolist() == [4, 5]
    # An output is never memory that another shares.
    w.zero_()
    assert weight.tolist() == [4, 5]


def test_a_module_is_called_with_the_parameters_of_another() -> None:
    linear = torch.nn.Linear(4, 3)
    source = graph(
        "y = Gemm <transB = 1> (x, weight, bias)",
        {"weight": torch.zeros(3, 4), "bias": torch.zeros(3)},
        X,
    )
    with refused(BufferError, "requires grad", "detach", "weight"):
        OnnxModule(source, initializers=dict(linear.named_parameters()))
    module = OnnxModule(source, initializers=linear.state_dict())
    assert torch.allclose(module(X), linear(X).detach())
    torch.nn.init.ones_(linear.weight)
    assert torch.allclose(module(X), linear(X).detach())


def test_only_some_may_be_given() -> None:
    nodes, weights, x = GRAPHS["Gemm"]
    bias = torch.zeros(64)
    (y,) = InferenceSession(graph(nodes, weights, x), initializers={"b": bias})(x)
    assert np.array_equal(y.numpy(), unoptimised(graph(nodes, {**weights, "b": bias}, x), x))
    assert same_as_stock(
        InferenceSession(graph(nodes, weights, x), initializers={})(x), graph(nodes, weights, x), x
    )


def test_values_are_taken_as_tensors_are() -> None:
    weight = torch.ones(4)
    value = to_ortvalue(weight)
    stock = onnxruntime.OrtValue.ortvalue_from_numpy(np.full(4, 3, np.float32))
    first = InferenceSession(scaled(), initializers={"w": value})
    second = InferenceSession(scaled(), initializers={"w": stock})
    weight.fill_(7)
    assert first(torch.ones(4))[0].tolist() == [7] * 4
    assert second(torch.ones(4))[0].tolist() == [3] * 4


def test_sessions_share_one_set() -> None:
    weight = torch.ones(4)
    sessions = [InferenceSession(scaled(), initializers={"w": weight}) for _ in range(2)]
    weight.fill_(6)
    assert [session(torch.ones(4))[0].tolist() for session in sessions] == [[6] * 4] * 2
    del sessions[0]
    weight.fill_(5)
    assert sessions[0](torch.ones(4))[0].tolist() == [5] * 4


def test_the_session_keeps_the_memory() -> None:
    before = live()
    weight = torch.full((4,), 2.0)
    gone = weakref.ref(weight)
    session = InferenceSession(scaled(), initializers={"w": weight})
    del weight
    gc.collect()
    assert gone() is None
    assert live()["owners"] == before["owners"] + 1
    rest = [torch.full((4,), -1.0) for _ in range(64)]
    assert session(torch.ones(4))[0].tolist() == [2] * 4
    del session, rest
    assert live() == before


def test_a_tensor_that_goes_elsewhere_leaves_its_memory() -> None:
    weight = torch.full((4,), 2.0)
    session = InferenceSession(scaled(), initializers={"w": weight})
    with pytest.raises(RuntimeError, match="resiz"):
        weight.resize_(4096)
    with pytest.raises(RuntimeError, match="resiz"):
        weight.untyped_storage().resize_(0)
    weight.data = torch.zeros(4)
    assert session(torch.ones(4))[0].tolist() == [2] * 4
    other = torch.full((4,), 3.0)
    session = InferenceSession(scaled(), initializers={"w": other})
    other.set_(torch.zeros(4))
    assert session(torch.ones(4))[0].tolist() == [3] * 4


def test_external_data_may_be_replaced(tmp_path: Any) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(
        onnx.load_from_string(scaled()),
        path,
        save_as_external_data=True,
        location="w.bin",
        size_threshold=0,
    )
    weight = torch.full((4,), 2.0)
    session = InferenceSession(path, initializers={"w": weight})
    weight.mul_(2)
    assert session(torch.ones(4))[0].tolist() == [4] * 4
    assert pickle.loads(pickle.dumps(session))(torch.ones(4))[0].tolist() == [4] * 4


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.usefixtures("fresh_compilers")
def test_compiled_code_sees_what_was_written() -> None:
    weight = torch.ones(4)
    compiled = torch.compile(OnnxModule(scaled(), initializers={"w": weight}), fullgraph=True)
    x = torch.ones(4)
    assert compiled(x).tolist() == [1] * 4
    weight.fill_(3)
    assert compiled(x).tolist() == [3] * 4


def test_a_part_of_a_storage_is_enough() -> None:
    weights = torch.arange(12.0)
    session = InferenceSession(scaled(), initializers={"w": weights[5:9]})
    assert session(torch.ones(4))[0].tolist() == [5, 6, 7, 8]
    weights.add_(1)
    assert session(torch.ones(4))[0].tolist() == [6, 7, 8, 9]


def test_tensors_without_elements_are_taken() -> None:
    source = graph("y = Concat <axis = 0> (x, w)", {"w": torch.zeros(0, 4)}, X)
    session = InferenceSession(source, initializers={"w": torch.ones(0, 4)})
    assert torch.equal(session(X)[0], X)


def test_inference_tensors_are_taken() -> None:
    with torch.inference_mode():
        weight = torch.full((4,), 2.0)
        session = InferenceSession(scaled(), initializers={"w": weight})
        weight.fill_(3)
        assert session(torch.ones(4))[0].tolist() == [3] * 4


def test_a_weight_that_could_be_an_input_as_well() -> None:
    weight = helper.make_tensor("w", FLOAT, [4], [1.0, 2.0, 3.0, 4.0])
    node = helper.make_node("Mul", ["x", "w"], ["y"])
    source = model([node], [info("x", [4]), info("w", [4])], [info("y", [4])], [weight])
    given = torch.full((4,), 2.0)
    session = InferenceSession(source, initializers={"w": given})
    given.fill_(7)
    assert [node.name for node in session.get_inputs()] == ["x"]
    assert session(torch.ones(4))[0].tolist() == [7] * 4


def test_runs_go_on_while_others_write() -> None:
    weight = torch.ones(4)
    session = InferenceSession(scaled(), initializers={"w": weight})
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            weight.fill_(2).fill_(1)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = {value for _ in range(300) for value in session(torch.ones(4))[0].tolist()}
    finally:
        stop.set()
        writer.join()
    assert seen <= {1.0, 2.0}
    assert session(torch.ones(4))[0].tolist() == [1] * 4


def test_values_made_of_them_stay_writable() -> None:
    weight = torch.ones(4)
    session = InferenceSession(scaled(), initializers={"w": weight})
    from_ortvalue(to_ortvalue(weight)).fill_(8)
    assert session(torch.ones(4))[0].tolist() == [8] * 4
