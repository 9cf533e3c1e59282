"""A model called with tensors: what goes in, what comes out, and whose options it runs under."""

import copy
import functools
import io
import pickle
from pathlib import Path
from unittest.mock import patch

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from models import (
    info,
    model,
    passthrough,
    subtract,
    unary,
    weights_as_outputs,
    with_other_output,
    without_inputs,
)
from onnx import TensorProto, helper
from support import in_new_process, in_threads

from ortdl_torch import InferenceSession


def double_identity() -> bytes:
    """Two outputs, each of them x."""
    nodes = [helper.make_node("Identity", ["x"], [name]) for name in ("y", "z")]
    return model(nodes, [info("x")], [info("y"), info("z")])


@pytest.mark.parametrize("kind", ["bytes", "str", "path", "bytearray"])
def test_model_as_bytes_or_path(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "relu ü.onnx"
    path.write_bytes(unary("Relu"))
    given = {
        "bytes": unary("Relu"),
        "str": str(path),
        "path": path,
        "bytearray": bytearray(unary("Relu")),
    }
    (y,) = InferenceSession(given[kind])(torch.tensor([-1.0, 2.0]))
    assert y.tolist() == [0, 2]


def test_model_with_external_data_beside_it(tmp_path: Path) -> None:
    weight = helper.make_tensor("w", TensorProto.FLOAT, [1024], np.arange(1024, dtype=np.float32))
    graph = model([helper.make_node("Add", ["x", "w"], ["y"])], [info("x")], [info("y")], [weight])
    path = tmp_path / "m.onnx"
    onnx.save_model(
        onnx.load_from_string(graph),
        path,
        save_as_external_data=True,
        size_threshold=0,
        location="w",
    )
    (y,) = InferenceSession(path)(torch.ones(1024))
    assert torch.equal(y, torch.arange(1.0, 1025.0))


def test_inputs_by_position_by_name_and_mixed() -> None:
    session = InferenceSession(subtract())
    a, b = torch.tensor([5.0, 7.0]), torch.tensor([1.0, 2.0])
    calls = [
        session(a, b),
        session(left=a, right=b),
        session(right=b, left=a),
        session(a, right=b),
    ]
    for got in calls:
        assert type(got) is tuple
        assert [y.tolist() for y in got] == [[4, 5]]
    for names in (None, ["difference"], ["difference"] * 2):
        got = session.run(names, {"right": b, "left": a})
        assert type(got) is list
        assert [y.tolist() for y in got] == [[4, 5]] * len(names or [None])


class Doubling(InferenceSession):
    """Calls its base with twice what it is given."""

    def __call__(self, *tensors: torch.Tensor, **named: torch.Tensor) -> tuple[torch.Tensor, ...]:
        doubled = {name: 2 * tensor for name, tensor in named.items()}
        return super().__call__(*(2 * tensor for tensor in tensors), **doubled)


class Derived(InferenceSession):
    """Changes nothing."""


@pytest.mark.parametrize("cls", [InferenceSession, Derived])
def test_every_form_of_a_call_is_the_same(cls: type[InferenceSession]) -> None:
    session = cls(subtract())
    left, right = torch.tensor([5.0]), torch.tensor([3.0])
    for (difference,) in (
        session(left, right),
        session(left, right=right),
        session(right=right, left=left),
        session(*[left, right]),
        session(*[left], right=right),
        session.__call__(left, right),
        cls.__call__(session, left, right=right),
        functools.partial(session, left)(right),
        next(map(session, [left], [right])),
    ):
        assert difference.tolist() == [2.0]


def test_a_class_may_call_in_its_own_way() -> None:
    session = Doubling(subtract())
    left, right = torch.tensor([5.0]), torch.tensor([3.0])
    for (difference,) in (
        session(left, right),
        session(left, right=right),
        session(right=right, left=left),
    ):
        assert difference.tolist() == [4.0]


def test_a_call_that_is_set_later_holds() -> None:
    session = Derived(subtract())
    left, right = torch.tensor([5.0]), torch.tensor([3.0])

    def swapped(
        self: InferenceSession, left: torch.Tensor, right: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        return InferenceSession.__call__(self, right, left)

    with patch.object(Derived, "__call__", swapped):
        for (difference,) in (
            session(left, right),
            session(left, right=right),
            session(left=left, right=right),
        ):
            assert difference.tolist() == [-2.0]
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'right'"):
            session(left)
    assert session(left, right)[0].tolist() == [2.0]


def test_a_call_that_leads_to_itself_ends() -> None:
    session = Derived(subtract())
    itself = patch.object(Derived, "__call__", functools.partial(session))
    with itself, pytest.raises(RecursionError):
        session(torch.ones(1), torch.ones(1))
    assert session(torch.ones(1), torch.ones(1))[0].tolist() == [0.0]


@pytest.mark.parametrize("declared", ["n", 4])
def test_sizes_of_pairs_are_looked_at_each_time(declared: int | str) -> None:
    session = InferenceSession(passthrough(TensorProto.FLOAT4E2M1, (declared,)))
    two, four = (torch.arange(n, dtype=torch.uint8).view(torch.float4_e2m1fn_x2) for n in (2, 4))
    assert session(two)[0].view(torch.uint8).tolist() == [0, 1]
    if declared == 4:
        with pytest.raises(ValueError, match="must have size 4 in dimension 0"):
            session(four)
    else:
        assert session(four)[0].view(torch.uint8).tolist() == [0, 1, 2, 3]
    assert session(two)[0].view(torch.uint8).tolist() == [0, 1]


def test_named_outputs_come_in_the_order_asked_for() -> None:
    session = InferenceSession(weights_as_outputs("initializer"))
    x = torch.tensor([10.0, 100.0])
    assert [y.tolist() for y in session(x)] == [[20, 300], [2, 3]]
    assert [y.tolist() for y in session.run(["w", "y"], {"x": x})] == [[2, 3], [20, 300]]
    assert [y.tolist() for y in session.run(["w"], {"x": x})] == [[2, 3]]


def test_model_without_inputs() -> None:
    session = InferenceSession(without_inputs())
    assert session.get_inputs() == []
    assert session()[0].tolist() == session.run(None, {})[0].tolist() == [4, 5]


def test_inputs_and_outputs_are_described(options: onnxruntime.SessionOptions) -> None:
    graph = model(
        [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["n"], ["z"])],
        [info("x", ["batch", 3, None]), info("n", [], TensorProto.INT64)],
        [info("y", ["batch", 3, None]), info("z", [], TensorProto.INT64)],
    )
    ours, stock = InferenceSession(graph), onnxruntime.InferenceSession(graph, options)
    told = [(i.name, i.shape, i.type) for i in ours.get_inputs() + ours.get_outputs()]
    assert told == [
        ("x", ["batch", 3, None], "tensor(float)"),
        ("n", [], "tensor(int64)"),
        ("y", ["batch", 3, None], "tensor(float)"),
        ("z", [], "tensor(int64)"),
    ]
    assert told == [(i.name, i.shape, i.type) for i in stock.get_inputs() + stock.get_outputs()]


@pytest.mark.parametrize("shape", [(), (0,), (3,), (0, 3), (2, 1, 3)], ids=str)
def test_shapes_of_every_kind(shape: tuple[int, ...]) -> None:
    x = torch.rand(shape) - 0.5
    (y,) = InferenceSession(unary("Relu", None))(x)
    assert y.shape == x.shape
    assert torch.equal(y, x.relu())


@pytest.mark.parametrize(
    "x",
    [
        torch.randn(3, 4).t(),
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.randn(1, 3).expand(4, 3),
        torch.randn(12)[::3],
        torch.randn(6, 6)[1:4, 2:5],
        torch.randn(16).as_strided((3, 3), (1, 1)),
        torch.randn(9)[3:],
    ],
    ids=["t", "channels_last", "expanded", "every third", "window", "overlapping", "offset"],
)
def test_strided_input_is_read_rightly(x: torch.Tensor) -> None:
    (y,) = InferenceSession(unary("Relu", [None] * x.dim()))(x)
    assert torch.equal(y, x.relu())
    (z,) = InferenceSession(unary("Identity", [None] * x.dim())).run(None, {"x": x})
    assert torch.equal(z, x)


def test_bool_comes_back_as_bool() -> None:
    cast = unary("Cast", to=TensorProto.BOOL)
    (mask,) = InferenceSession(cast)(torch.tensor([0.0, 2.0, -1.0]))
    assert mask.dtype is torch.bool
    assert torch.arange(3)[mask].tolist() == [1, 2]
    (y,) = InferenceSession(unary("Not", [], TensorProto.BOOL))(torch.tensor(True))
    assert (y.dtype, y.shape, y.item()) == (torch.bool, (), False)


PASSING = {
    "Identity": unary("Identity"),
    "Dropout": unary("Dropout"),
    "no node": model([], [info("x")], [info("x")]),
    "twice": model([], [info("x")], [info("x"), info("x")]),
    "two Identity nodes": double_identity(),
}


@pytest.mark.parametrize("name", PASSING)
@pytest.mark.parametrize("named", [False, True], ids=["call", "run"])
def test_outputs_share_memory_with_nothing(name: str, named: bool) -> None:
    session = InferenceSession(PASSING[name])
    x = torch.arange(8.0)
    outs = session.run(None, {"x": x}) if named else list(session(x))
    assert len({y.data_ptr() for y in [x, *outs]}) == 1 + len(outs)
    x.fill_(-1)
    for k, y in enumerate(outs):
        assert y.tolist() == list(range(8))
        y.fill_(k + 10)
    assert [y[0].item() for y in [x, *outs]] == [-1, *(k + 10 for k in range(len(outs)))]


def test_one_output_asked_for_twice_is_two_tensors() -> None:
    y, z = InferenceSession(unary("Relu")).run(["y", "y"], {"x": torch.ones(4)})
    y.fill_(5)
    assert z.tolist() == [1] * 4


def test_one_tensor_for_two_inputs() -> None:
    x = torch.ones(4)
    (y,) = InferenceSession(subtract())(x, x)
    assert y.tolist() == [0] * 4
    assert y.data_ptr() != x.data_ptr()


@pytest.mark.parametrize("kind", ["initializer", "constant"])
def test_weight_as_output_cannot_be_overwritten(kind: str) -> None:
    session = InferenceSession(weights_as_outputs(kind))
    x = torch.ones(2)
    for _ in range(3):
        y, w = session(x)
        assert (y.tolist(), w.tolist()) == ([2, 3], [2, 3])
        w.fill_(100)
        y.fill_(100)
    constant = InferenceSession(without_inputs())
    constant()[0].fill_(100)
    assert constant()[0].tolist() == [4, 5]


def test_earlier_outputs_do_not_change() -> None:
    session = InferenceSession(unary("Relu"))
    outs = [session(torch.full((512,), float(k)))[0] for k in range(40)]
    assert all((o == k).all() for k, o in enumerate(outs))
    assert session(outs[3])[0].tolist() == [3] * 512


@pytest.mark.parametrize("kind", ["sequence", "optional", "map", "string"])
def test_tensor_outputs_beside_other_kinds(kind: str) -> None:
    session = InferenceSession(with_other_output(kind))
    assert session.get_outputs()[1].name == "other"
    (y,) = session.run(["y"], {"x": torch.tensor([-1.0, 2.0])})
    assert y.tolist() == [0, 2]


def test_many_threads_share_a_session() -> None:
    session = InferenceSession(subtract([None, None]))
    wrong: list[object] = []

    def work(k: int) -> None:
        for i in range(100):
            rows = 3 + (k * 7 + i) % 11
            a, b = torch.full((rows, k + 1), float(k)), torch.full((rows, k + 1), float(i))
            try:
                (y,) = session(a, b)
            except Exception as e:
                wrong.append(e)
            else:
                wrong.extend([] if torch.equal(y, a - b) else [(k, i)])

    in_threads(work, range(6))
    assert not wrong


@pytest.mark.parametrize(
    "providers", [None, ["CPUExecutionProvider"], [("CPUExecutionProvider", {})]]
)
def test_provider_in_use_is_told(providers: list | None) -> None:
    session = InferenceSession(unary("Relu"), providers=providers)
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert session(torch.ones(1))[0].item() == 1


def test_provider_options_in_onnxruntime_s_way() -> None:
    session = InferenceSession(unary("Relu"), None, ["CPUExecutionProvider"], [{"use_arena": "0"}])
    assert session.get_providers() == ["CPUExecutionProvider"]


def test_session_outlives_deletion_of_its_options_and_model() -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    source = bytearray(unary("Relu"))
    session = InferenceSession(source, options)
    source[:] = bytes(len(source))
    del options
    assert session(torch.tensor([-3.0]))[0].tolist() == [0]


@pytest.mark.parametrize(
    "again",
    [
        copy.copy,
        copy.deepcopy,
        lambda s: pickle.loads(pickle.dumps(s)),
        "torch.save",
        "script_object",
    ],
    ids=["copy", "deepcopy", "pickle", "torch.save", "script_object"],
)
def test_session_made_again(again: object) -> None:
    session = InferenceSession(subtract())
    if again == "torch.save":
        buffer = io.BytesIO()
        torch.save(session, buffer)
        buffer.seek(0)
        made = torch.load(buffer, weights_only=False)
    else:
        made = (
            InferenceSession(session.script_object) if again == "script_object" else again(session)
        )
    del session
    assert isinstance(made, InferenceSession)
    assert [i.name for i in made.get_inputs()] == ["left", "right"]
    assert made(torch.ones(2), right=torch.ones(2))[0].tolist() == [0, 0]


def test_pickled_session_of_a_file_runs_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "relu.onnx"
    path.write_bytes(unary("Relu"))
    (tmp_path / "session.pickle").write_bytes(pickle.dumps(InferenceSession(path)))
    done = in_new_process(
        "import pickle, torch\n"
        f"s = pickle.loads(open({str(tmp_path / 'session.pickle')!r}, 'rb').read())\n"
        "print(s(torch.tensor([-1.0, 2.0]))[0].tolist())\n"
    )
    assert (done.returncode, done.stdout) == (0, "[0.0, 2.0]\n"), done.stderr
