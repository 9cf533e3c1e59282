"""Models and files that lie about their sizes, end early or are damaged, and full disks."""

import collections
import contextlib
import io
import pickle
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
from models import difference_and_total, info, model, scaled, subtract, unary
from onnx import TensorProto, helper
from support import in_new_process, refused

from ortdl_torch import InferenceSession, OnnxModule, OrtError

X = torch.ones(2, 3)
HUGE = [[2**40], [2**40, 2**40], [2**62, 4], [2**63 - 1]]


@pytest.mark.parametrize("shape", HUGE, ids=str)
def test_huge_sizes_that_a_model_declares(shape: list[int]) -> None:
    session = InferenceSession(unary("Relu", shape))
    assert session.get_inputs()[0].shape == shape
    with refused(ValueError, f"must have size {shape[0]}"):
        session(torch.ones([1] * len(shape)))
    into = torch.empty(4)
    with refused(ValueError, "'y'", str(shape[0])):
        session.run_into([into.reshape([4] + [1] * (len(shape) - 1))], [torch.ones(1)])


@pytest.mark.parametrize("size", [-1, -5, -(2**63)])
def test_negative_sizes_are_open_ones(size: int) -> None:
    session = InferenceSession(unary("Relu", [size]))
    assert session.get_inputs()[0].shape == [None]
    assert session(torch.tensor([-1.0, 2.0]))[0].tolist() == [0, 2]


def expanding() -> bytes:
    """y = x in the shape that the second input says."""
    node = helper.make_node("Expand", ["x", "shape"], ["y"])
    inputs = [info("x", [1]), info("shape", ["rank"], TensorProto.INT64)]
    return model([node], inputs, [info("y", None)])


@pytest.mark.parametrize("shape", [*HUGE[1:], [-1], [-5]], ids=str)
def test_outputs_that_no_memory_can_hold(
    shape: list[int], options: onnxruntime.SessionOptions
) -> None:
    options.intra_op_num_threads = 1
    session = InferenceSession(expanding(), options)
    with pytest.raises(OrtError):
        session(torch.ones(1), torch.tensor(shape))
    assert session(torch.ones(1), torch.tensor([2]))[0].tolist() == [1, 1]


@pytest.mark.parametrize("shape", [[0], [0, 2**62], [2**40, 0], [0] * 64, [1] * 64], ids=str)
def test_outputs_of_no_elements_or_many_dimensions(shape: list[int]) -> None:
    (y,) = InferenceSession(expanding())(torch.ones(1), torch.tensor(shape))
    assert list(y.shape) == shape
    assert y.numel() == (1 if 0 not in shape else 0)


@pytest.mark.parametrize("shape", [*HUGE, [-2], [0], [3]], ids=str)
def test_weights_that_are_not_as_large_as_they_say(
    shape: list[int], options: onnxruntime.SessionOptions
) -> None:
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, raw_data=bytes(8))
    weight.dims.extend(shape)
    add = helper.make_node("Add", ["x", "w"], ["y"])
    lying = model([add], [info("x")], [info("y")], [weight])
    with pytest.raises(OrtError):
        InferenceSession(lying, options)
    with refused(ValueError, "'w'", str(shape)):
        InferenceSession(lying, options, initializers={"w": torch.ones(2)})


@pytest.mark.parametrize(
    ("key", "value"), [("offset", "-8"), ("offset", str(2**62)), ("length", "9")]
)
def test_external_data_that_is_not_where_it_is_said_to_be(
    key: str, value: str, tmp_path: Path, options: onnxruntime.SessionOptions
) -> None:
    places = {"location": "w.bin", "offset": "0", "length": "8", key: value}
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2])
    weight.data_location = TensorProto.EXTERNAL
    for name, text in places.items():
        weight.external_data.add(key=name, value=text)
    add = helper.make_node("Add", ["x", "w"], ["y"])
    (tmp_path / "m.onnx").write_bytes(model([add], [info("x")], [info("y")], [weight]))
    (tmp_path / "w.bin").write_bytes(bytes(8))
    for embed in (True, False):
        with pytest.raises(OrtError):
            InferenceSession(tmp_path / "m.onnx", options, embed=embed)


def test_a_model_that_ends_anywhere(options: onnxruntime.SessionOptions) -> None:
    whole = subtract()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    loaded = []
    for length in range(len(whole)):
        with contextlib.suppress(OrtError):
            loaded.append(InferenceSession(whole[:length], options))
    assert len(loaded) < len(whole) / 4
    x = torch.tensor([3.0])
    assert InferenceSession(whole, options)(x, x)[0].tolist() == [0]


def damaged(whole: bytes, how_many: int) -> Iterator[bytes]:
    """`whole` with a few other bytes, or its beginning only; the same ones every time."""
    chosen = random.Random(len(whole))
    for _ in range(how_many):
        spoilt = bytearray(whole)
        if chosen.random() < 0.2:
            del spoilt[chosen.randrange(len(spoilt)) :]
        else:
            for _ in range(chosen.choice([1, 1, 4])):
                spoilt[chosen.randrange(len(spoilt))] = chosen.choice([0, 127, 128, 255])
        yield bytes(spoilt)


def use(load: Callable[[bytes], Any], files: Iterator[bytes]) -> collections.Counter[str]:
    """How often what was loaded gave tensors, and which errors there were."""
    seen: collections.Counter[str] = collections.Counter()
    for file in files:
        try:
            loaded = load(file)
            outputs = loaded(X, X)
        except Exception as error:
            seen[type(error).__name__] += 1
        else:
            assert all(isinstance(output, torch.Tensor) for output in outputs)
            seen["ran"] += 1
    return seen


def test_a_damaged_model(options: onnxruntime.SessionOptions) -> None:
    def load(file: bytes) -> InferenceSession:
        return InferenceSession(file, options)

    seen = use(load, damaged(difference_and_total(), 200))
    assert seen["OrtError"] > 100
    assert seen["ran"] > 0
    assert set(seen) <= {"OrtError", "ValueError", "TypeError", "ran"}


def test_what_the_runtime_says_of_a_name_that_is_no_text(
    options: onnxruntime.SessionOptions,
) -> None:
    unknown = unary("Relu").replace(b"Relu", b"Re\xff\xfe")
    with refused(OrtError, r"Re\xff\xfe"):
        InferenceSession(unknown, options)


@pytest.mark.parametrize("given", [None, {"w": torch.ones(4)}], ids=["plain", "initializers"])
@pytest.mark.parametrize("protocol", [2, 5])
def test_a_damaged_pickle(
    protocol: int, given: dict[str, torch.Tensor] | None, options: onnxruntime.SessionOptions
) -> None:
    graph = scaled() if given else difference_and_total()
    whole = pickle.dumps(InferenceSession(graph, options, initializers=given), protocol)
    seen = use(pickle.loads, damaged(whole, 150))
    assert seen.total() == 150
    assert seen["UnpicklingError"] > 0
    assert seen["ran"] < 75
    assert isinstance(pickle.loads(whole), InferenceSession)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_a_damaged_torchscript_file(options: onnxruntime.SessionOptions) -> None:
    file = io.BytesIO()
    session = InferenceSession(difference_and_total(), options)
    torch.jit.save(torch.jit.script(OnnxModule(session)), file)
    seen = use(lambda spoilt: torch.jit.load(io.BytesIO(spoilt)), damaged(file.getvalue(), 15))
    assert seen["RuntimeError"] > 5
    assert seen["ran"] > 0


def use_damaged_programs() -> None:
    """Print what became of some exported programs, of which PyTorch logs and keeps a lot."""
    file = io.BytesIO()
    torch.export.save(torch.export.export(OnnxModule(difference_and_total()), (X, X)), file)
    seen = use(
        lambda spoilt: torch.export.load(io.BytesIO(spoilt)).module(), damaged(file.getvalue(), 10)
    )
    print(seen.total(), seen["RuntimeError"] > 0, seen["ran"] > 0)


def test_a_damaged_exported_program() -> None:
    done = in_new_process(
        "from test_faults import *\nuse_damaged_programs()", Path(__file__).parent
    )
    assert (done.returncode, done.stdout) == (0, "10 True True\n"), done.stderr


def test_loading_weights_only_loads_no_session(tmp_path: Path) -> None:
    torch.save(InferenceSession(scaled()), tmp_path / "session.pt")
    with refused(pickle.UnpicklingError, "ortdl_torch.session._from_state"):
        torch.load(tmp_path / "session.pt")


def test_a_full_disk() -> None:
    session = InferenceSession(scaled())
    with open("/dev/full", "wb", buffering=0) as file, refused(OSError, "No space left"):
        pickle.dump(session, file)
    with pytest.raises(RuntimeError):
        torch.save(session, "/dev/full")
    assert session(torch.ones(4))[0].tolist() == [1, 2, 3, 4]
    again = pickle.loads(pickle.dumps(session))
    assert again(torch.ones(4))[0].tolist() == [1, 2, 3, 4]


def test_a_full_disk_for_the_optimized_model(options: onnxruntime.SessionOptions) -> None:
    options.optimized_model_filepath = "/dev/full"
    with pytest.raises(OrtError):
        InferenceSession(scaled(), options)
