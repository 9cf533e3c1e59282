"""Runs like the one before write into its outputs' memory, once nobody else holds that."""

from collections.abc import Callable

import numpy as np
import onnxruntime
import pytest
import torch
from models import difference_and_total, info, model, positive, reshaped, subtract, unary
from onnx import TensorProto, helper
from stock import stock
from support import in_threads, live, refused
from torch.multiprocessing.reductions import StorageWeakRef

import ortdl_torch
from ortdl_torch import InferenceSession, OrtError

LEFT, RIGHT = torch.rand(4, 3), torch.rand(4, 3)


def twice() -> bytes:
    """y = x + x."""
    return model(
        [helper.make_node("Add", ["x", "x"], ["y"])], [info("x", ("n",))], [info("y", ("n",))]
    )


def gathered() -> bytes:
    """y = table[i], for i from 0 to 3."""
    table = helper.make_tensor("table", TensorProto.FLOAT, [4], [10, 11, 12, 13])
    return model(
        [helper.make_node("Gather", ["table", "i"], ["y"])],
        [info("i", (1,), TensorProto.INT64)],
        [info("y", (1,))],
        [table],
    )


def test_a_dropped_outputs_memory_is_written_into_again() -> None:
    session = InferenceSession(difference_and_total())
    wanted = [torch.from_numpy(a) for a in stock(difference_and_total(), LEFT, RIGHT)]
    addresses = set()
    for _ in range(5):
        outputs = session(LEFT, RIGHT)
        assert all(map(torch.equal, outputs, wanted))
        addresses.add(tuple(y.data_ptr() for y in outputs))
        del outputs
    assert len(addresses) == 1


def test_a_loop_takes_turns() -> None:
    session = InferenceSession(twice())
    addresses, results = [], []
    (y,) = session(torch.zeros(4))
    for i in range(1, 8):
        (y,) = session(torch.full((4,), float(i)))
        addresses.append(y.data_ptr())
        results.append(y[0].item())
    assert len(set(addresses)) == 2
    assert results == [2, 4, 6, 8, 10, 12, 14]


HOLDERS: dict[str, Callable[[torch.Tensor], object]] = {
    "tensor": lambda y: y,
    "view": lambda y: y[2:],
    "storage": lambda y: y.untyped_storage(),
    "array": lambda y: y.numpy(),
    "OrtValue": ortdl_torch.to_ortvalue,
    "capsule": lambda y: y.__dlpack__(),
    "imported": torch.from_dlpack,
    "detached": lambda y: y.detach(),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_held_outputs_memory_is_left_alone(holder: str) -> None:
    session = InferenceSession(twice())
    session(torch.ones(4))
    held = []
    for i in range(6):
        (y,) = session(torch.full((4,), float(i)))
        held.append((HOLDERS[holder](y), y.data_ptr()))
        del y
    assert len({address for _, address in held}) == 6
    if holder == "tensor":
        assert [y[0].item() for y, _ in held] == [0, 2, 4, 6, 8, 10]  # type: ignore[index]
    if holder == "array":
        assert [y[3] for y, _ in held] == [0, 2, 4, 6, 8, 10]  # type: ignore[index]


def test_a_dropped_outputs_storage_goes_with_it() -> None:
    session = InferenceSession(twice())
    for _ in range(3):
        (y,) = session(torch.zeros(4))
        weak = StorageWeakRef(y.untyped_storage())
        del y
        assert weak.expired()


def test_a_storage_that_got_other_memory_is_left_alone() -> None:
    session = InferenceSession(twice())
    for i in range(5):
        (y,) = session(torch.full((4,), float(i)))
        own = y.data_ptr()
        assert y.share_memory_().data_ptr() != own
        assert y.tolist() == [2.0 * i] * 4
        del y


def test_one_output_that_is_held_keeps_them_all() -> None:
    session = InferenceSession(difference_and_total())
    for _ in range(3):
        kept, _ = session(LEFT, RIGHT)
        assert session(RIGHT, LEFT)[0].data_ptr() != kept.data_ptr()
        assert torch.equal(kept, LEFT - RIGHT)


def test_autograd_takes_it_for_new() -> None:
    session = InferenceSession(twice())
    x = torch.ones(3)
    for _ in range(4):
        (y,) = session(x)
        assert y._version == 0
        y.add_(1)
        w = torch.ones(3, requires_grad=True)
        (y * w).sum().backward()
        assert torch.equal(w.grad, torch.full((3,), 3.0))  # type: ignore[arg-type]
        del y
    with torch.inference_mode():
        (y,) = session(x)
        assert y.is_inference()
        del y
    (y,) = session(x)
    assert not y.is_inference()
    assert torch.equal(y, torch.full((3,), 2.0))


def test_every_change_of_the_inputs_is_seen() -> None:
    session = InferenceSession(subtract(("n",)))
    left, right = torch.tensor([5.0, 7.0]), torch.tensor([1.0, 2.0])
    for step in range(4):
        assert session(left, right)[0].tolist() == [4 + step, 5 + step]
        left += 1
    for step in range(4):
        assert session(left, torch.full((2,), float(step)))[0].tolist() == [9 - step, 11 - step]
    assert session(right, left)[0].tolist() == [-8, -9]
    assert session(left, ortdl_torch.to_ortvalue(right))[0].tolist() == [8, 9]
    assert session(left, right)[0].tolist() == [8, 9]
    strided = torch.arange(4.0)[::2]
    for _ in range(3):
        assert session(strided, right)[0].tolist() == [-1, 0]
        assert session(left, right)[0].tolist() == [8, 9]


def test_sizes_may_change_from_run_to_run() -> None:
    session = InferenceSession(twice())
    for n in [1, 3, 3, 0, 0, 2, 2, 5, 1, 1]:
        x = torch.rand(n)
        (y,) = session(x)
        assert torch.equal(y, 2 * x)
    open_rank = InferenceSession(unary("Neg", None))
    for shape in [(2,), (2,), (1, 2), (), (), (2, 1)]:
        x = torch.rand(shape)
        assert torch.equal(open_rank(x)[0], -x)
    with refused(ValueError, "'x' must have 1 dimension"):
        session(torch.rand(1, 1))
    assert session(torch.ones(1))[0].tolist() == [2]


def test_some_of_the_outputs_in_between() -> None:
    session = InferenceSession(difference_and_total())
    for size in [4, 4, 2, 2, 4]:
        left, right = torch.rand(size, 3), torch.rand(size, 3)
        assert torch.equal(session(left, right)[1], left + right)
        (total,) = session.run(["total"], {"left": right, "right": right})
        assert torch.equal(total, right + right)
        assert torch.equal(session(left, right)[0], left - right)


@pytest.mark.parametrize("declared", [("k",), (2,), ("n",)])
def test_sizes_that_depend_on_the_elements(declared: tuple[int | str]) -> None:
    session = InferenceSession(positive(declared))
    for values in [[1.0, 1, -1], [1, -1, 2], [-1, -1, 3], [1, 2, 3], [-1, -1, -1], [1, 1, -1]]:
        x = torch.tensor(values, dtype=torch.float32)
        assert session(x)[0].tolist() == [v for v in values if v > 0]


def test_a_model_that_lies_runs_as_in_stock_onnxruntime() -> None:
    graph = positive(("n",))
    session = InferenceSession(graph)
    for values in [[1, 2], [1, -2], [3, 4], [-1, -1], [-1, 5]] * 2:
        x = torch.tensor(values, dtype=torch.float32)
        assert session(x)[0].numpy().tolist() == stock(graph, x)[0].tolist()


@pytest.mark.parametrize("declared", [("n",), ("n", 3), (4,), (2, "n")])
def test_ranks_and_sizes_that_are_not_as_declared(declared: tuple[int | str, ...]) -> None:
    graph = reshaped(declared)
    session = InferenceSession(graph)
    for shape in [(2, 2), (2, 2), (2, 2), (4,), (4,), (1, 4)]:
        x, sizes = torch.rand(4), torch.tensor(shape)
        assert torch.equal(session(x, sizes)[0], x.reshape(shape))


def test_a_failed_run_says_why_and_leaves_nothing_behind() -> None:
    session = InferenceSession(gathered())
    index = torch.tensor([2])
    for bad in [7, -9]:
        assert session(index)[0].tolist() == [12]
        index.fill_(bad)
        with pytest.raises(OrtError, match="out of data bounds"):
            session(index)
        index.fill_(2)
    assert session(index)[0].tolist() == [12]
    with refused(TypeError, "'i' must have dtype torch.int64"):
        session(torch.tensor([2.0]))
    assert session(torch.tensor([3]))[0].tolist() == [13]


def test_a_terminated_run_is_not_begun_again() -> None:
    session = InferenceSession(twice())
    x = torch.ones(2)
    stop = onnxruntime.RunOptions()
    stop.terminate = True
    for _ in range(3):
        assert session.run(None, {"x": x})[0].tolist() == [2, 2]
        with pytest.raises(OrtError, match="terminate flag"):
            session.run(None, {"x": x}, stop)
    assert session(x)[0].tolist() == [2, 2]


@pytest.mark.parametrize(("elements", "kept"), [(1 << 14, 1), ((1 << 14) + 1, 0)])
def test_large_outputs_are_not_kept(elements: int, kept: int) -> None:
    session = InferenceSession(twice())
    x = torch.ones(elements)
    before = live()["values"]
    for _ in range(3):
        assert torch.equal(session(x)[0], torch.full((elements,), 2.0))
        assert live()["values"] - before == kept
    del session
    assert live()["values"] == before


def test_outputs_outlive_their_session() -> None:
    session = InferenceSession(twice())
    session(torch.ones(2))
    (y,) = session(torch.full((2,), 4.0))
    del session
    torch.rand(1000).sum()
    assert y.tolist() == [8, 8]


def test_threads_never_share_memory() -> None:
    session = InferenceSession(twice())
    wrong: list[object] = []

    def work(number: int) -> None:
        x = torch.full((8,), float(number))
        for _ in range(500):
            (y,) = session(x)
            if not bool((y == 2 * number).all()):
                wrong.append(y)

    in_threads(work, range(20))
    assert wrong == []


def test_arrays_written_between_runs_stay() -> None:
    session = InferenceSession(twice())
    arrays = [session(torch.full((2,), float(i)))[0].numpy() for i in range(4)]
    assert np.array(arrays).tolist() == [[0, 0], [2, 2], [4, 4], [6, 6]]
