"""Sessions on a GPU (the fake provider on emulated devices): what goes in and what comes out."""

import copy
import threading
from collections.abc import Callable

import emulator
import provider
import pytest
import torch
from exchange import Pending, on
from models import info, model, subtract
from onnx import TensorProto, helper
from provider import CPU, KINDS, NATIVE, PLUGIN, name_of, needs_provider, session
from support import eventually, refused

from ortdl_torch import InferenceSession, OrtError, OrtValue, to_ortvalue

pytestmark = [needs_provider, pytest.mark.usefixtures("two_devices")]
DEVICE = "cuda:1"
ONE = [0.0, 1.0, 2.0, 3.0]
DOUBLED = [0.0, 2.0, 4.0, 6.0]
# Ways to run a session with two inputs for one output.
Run = Callable[[InferenceSession, torch.Tensor, torch.Tensor], torch.Tensor]
RUNS: dict[str, Run] = {
    "call": lambda s, a, b: s(a, b)[0],
    "names": lambda s, a, b: s(right=b, left=a)[0],
    "run": lambda s, a, b: s.run(["sum"], {"left": a, "right": b})[0],
    "op": lambda s, a, b: torch.ops.ortdl.run(s.script_object, [a, b])[0],
    "values": lambda s, a, b: s(to_ortvalue(a), to_ortvalue(b))[0],
}
kinds = pytest.mark.parametrize("kind", KINDS)
runs = pytest.mark.parametrize("how", RUNS)


def counting(device: str = DEVICE) -> torch.Tensor:
    """0, 1, 2, 3 on a device."""
    return torch.tensor(ONE).to(device)


@kinds
@runs
def test_inputs_are_read_in_place_and_outputs_stay_on_the_device(kind: str, how: str) -> None:
    adder, left, right = session(kind), counting(), counting()
    provider.reset()
    emulator.reset()
    result = RUNS[how](adder, left, right)
    done, counters = provider.compute(), provider.counters()
    assert (done.op, done.device, counters.computes) == (b"Add", 1, 1)
    assert [i.data for i in done.inputs] == [left.data_ptr(), right.data_ptr()]
    assert [i.device for i in done.inputs] == [1, 1]
    assert (done.output.data, done.output.device) == (result.data_ptr(), 1)
    assert counters.copies == 0
    assert [call for call in emulator.trace() if "Memcpy" in call.name] == []
    assert (result.device, result.dtype) == (torch.device(DEVICE), torch.float32)
    assert result.tolist() == DOUBLED


@kinds
def test_what_lies_between_two_nodes_stays_on_the_device(kind: str) -> None:
    weight = helper.make_tensor("w", TensorProto.FLOAT, [4, 2], [1.0, 0, 0, 1, 1, 0, 0, 1])
    nodes = [
        helper.make_node("Add", ["x", "x"], ["twice"]),
        helper.make_node("MatMul", ["twice", "w"], ["y"]),
    ]
    ends = [info("x", [None, 4])], [info("y", [None, 2])]
    product = session(kind, model(nodes, *ends, [weight]))
    x = counting().reshape(1, 4)
    provider.reset()
    (y,) = product(x)
    first, second = provider.compute(0), provider.compute(1)
    assert second.inputs[0].data == first.output.data
    assert [i.device for i in second.inputs] == [1, 1]
    assert provider.counters().copies == 0
    assert y.tolist() == [[4.0, 8.0]]


@kinds
def test_the_result_of_one_run_is_the_input_of_the_next(kind: str) -> None:
    adder = session(kind)
    (once,) = adder(counting(), counting())
    provider.reset()
    (twice,) = adder(once, once)
    assert provider.compute().inputs[0].data == once.data_ptr()
    assert (once.tolist(), twice.tolist()) == (DOUBLED, [0.0, 4.0, 8.0, 12.0])


@kinds
def test_an_empty_input_gives_an_empty_output(kind: str) -> None:
    empty = torch.empty(0, device=DEVICE)
    (result,) = session(kind)(empty, empty)
    assert (result.device, result.shape) == (torch.device(DEVICE), (0,))


@kinds
def test_an_output_asked_for_twice_is_two_tensors(kind: str) -> None:
    first, second = session(kind).run(["sum", "sum"], {"left": counting(), "right": counting()})
    assert first.data_ptr() != second.data_ptr()
    assert first.tolist() == second.tolist() == DOUBLED


ELSEWHERE = {"cpu": "cpu", "other": "cuda:0"}


@kinds
@runs
@pytest.mark.parametrize("where", ELSEWHERE)
def test_an_input_elsewhere_is_refused_by_both_devices(kind: str, how: str, where: str) -> None:
    adder, here, there = session(kind), counting(), counting(ELSEWHERE[where])
    provider.reset()
    with refused(ValueError, "'right'", DEVICE, ELSEWHERE[where], "move_inputs=True"):
        RUNS[how](adder, here, there)
    with refused(ValueError, "'left'", DEVICE, ELSEWHERE[where], "move_inputs=True"):
        RUNS[how](adder, there, here)
    assert provider.counters().computes == 0


@kinds
@runs
@pytest.mark.parametrize("where", ELSEWHERE)
def test_an_input_elsewhere_is_moved_when_asked(kind: str, how: str, where: str) -> None:
    adder, here = session(kind, move_inputs=True), counting()
    provider.reset()
    result = RUNS[how](adder, counting(ELSEWHERE[where]), here)
    assert (result.device, result.tolist()) == (torch.device(DEVICE), DOUBLED)
    done = provider.compute()
    assert done.inputs[0].device == 1
    assert done.inputs[1].data == here.data_ptr()


def with_host_outputs() -> bytes:
    """c = a + b stays on the device; the CPU's provider makes its size and its negation."""
    nodes = [
        helper.make_node("Add", ["a", "b"], ["c"]),
        helper.make_node("Identity", ["c"], ["same"]),
        helper.make_node("Shape", ["c"], ["size"]),
        helper.make_node("Neg", ["c"], ["negative"]),
    ]
    outputs = [info("same"), info("size", [1], TensorProto.INT64), info("negative")]
    return model(nodes, [info("a"), info("b")], outputs)


@kinds
def test_an_output_on_the_cpu_is_ready_when_the_run_ends(kind: str) -> None:
    mixed = session(kind, with_host_outputs())
    pending = Pending(torch.cuda.Stream(DEVICE))
    doubled = [2 * x for x in pending.elements]
    with torch.cuda.stream(pending.stream):
        same, size, negative = mixed(pending.tensor, pending.tensor)
        assert [str(t.device) for t in (same, size, negative)] == [DEVICE, "cpu", "cpu"]
        assert size.tolist() == [len(doubled)]
        assert negative.tolist() == [-x for x in doubled]
        assert mixed.run(["size"], {"a": same, "b": same})[0].tolist() == [len(doubled)]
    assert on(pending.stream, same) == doubled


@pytest.mark.parametrize("kind", ["plugin", "native"])
def test_a_provider_without_any_part_of_the_model_is_an_error(kind: str) -> None:
    with refused(RuntimeError, name_of(kind), "no part of the model", DEVICE):
        session(kind, subtract())


def test_a_provider_that_is_not_offered_is_refused() -> None:
    with refused(ValueError, "'NoSuchExecutionProvider'", PLUGIN, NATIVE, CPU):
        InferenceSession(provider.add(), providers=["NoSuchExecutionProvider"])


@pytest.mark.parametrize("kind", ["plugin", "native"])
def test_a_device_that_the_provider_lacks_is_refused(kind: str) -> None:
    with refused(ValueError, "2", name_of(kind)):
        session(kind, device=2)
    with refused(ValueError, "'device_id'", name_of(kind), "'one'"):
        session(kind, given={"device_id": "one"})


@kinds
def test_the_providers_are_told(kind: str) -> None:
    assert session(kind).get_providers() == [name_of(kind), CPU]


def test_what_is_asked_for_after_the_cpu_is_not_used() -> None:
    provider.library()
    behind = InferenceSession(provider.add(), providers=[CPU, PLUGIN])
    assert behind.get_providers() == [CPU]
    assert behind(torch.ones(2), torch.ones(2))[0].tolist() == [2, 2]


@kinds
def test_outputs_outlive_the_session(kind: str) -> None:
    pending = Pending(torch.cuda.Stream(DEVICE))
    with torch.cuda.stream(pending.stream):
        adder = session(kind)
        (result,) = adder(pending.tensor, pending.tensor)
        value = to_ortvalue(result)
        del adder, result
        assert OrtValue.numpy(value).tolist() == [2 * x for x in pending.elements]


@pytest.mark.parametrize("kind", ["plugin", "native"])
def test_a_copied_session_works_on_the_same_device(kind: str) -> None:
    again = copy.deepcopy(session(kind))
    (result,) = again(counting(), counting())
    assert (result.device, result.tolist()) == (torch.device(DEVICE), DOUBLED)
    assert again.get_providers() == [name_of(kind), CPU]


@kinds
def test_a_run_that_fails_spoils_nothing(kind: str) -> None:
    adder = session(kind)
    with refused(OrtError, "cannot be broadcast"):
        adder(counting(), torch.ones(3).to(DEVICE))
    assert adder(counting(), counting())[0].tolist() == DOUBLED


def test_memory_comes_from_pytorch_and_goes_back() -> None:
    def allocated() -> int:
        return torch.cuda.memory_allocated(DEVICE)

    x = torch.ones(4096).to(DEVICE)
    adder = session("native")
    before = allocated()
    provider.reset()
    (result,) = adder(x, x)
    assert allocated() - before == result.nbytes == 4 * 4096
    counters = provider.counters()
    assert (counters.allocations, counters.external) == (1, 1)
    del result
    assert allocated() == before


@pytest.mark.parametrize("kind", ["plugin", "devices"])
def test_memory_of_other_providers_is_their_own(kind: str) -> None:
    x, adder = torch.ones(4096).to(DEVICE), session(kind)
    before = torch.cuda.memory_allocated(DEVICE)
    provider.reset()
    adder(x, x)
    assert torch.cuda.memory_allocated(DEVICE) == before
    assert provider.counters().external == 0


@kinds
def test_other_threads_run_while_a_run_waits(kind: str) -> None:
    """The run stops in a C function until another thread of Python has seen that it began."""
    mixed, x = session(kind, with_host_outputs()), counting()
    stream = torch.cuda.Stream(DEVICE)
    stream.wait_stream(torch.cuda.current_stream(DEVICE))
    logs: list[str] = []

    def look() -> None:
        assert eventually(lambda: "run starts" in provider.log())
        logs.append(provider.log())
        go_on()

    provider.reset()
    with emulator.stalled(stream) as go_on, torch.cuda.stream(stream):
        thread = threading.Thread(target=look)
        thread.start()
        _, _, negative = mixed(x, x)
        thread.join()
    assert ["run ends" in text for text in logs] == [False]
    assert "run ends" in provider.log()
    assert negative.tolist() == [-e for e in DOUBLED]
