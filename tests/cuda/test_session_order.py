"""When a session's work is done: after the current stream's, before what follows on it.

The fake provider's kernels wait in its stream: one that runs before its turn reads stale bytes. So
the tests let the provider's stream go first, and then read on a stream that must wait for it. Seen
to fail without the event, each line in turn taken out of csrc/ortdl/device_run.cpp:

- `lane->begin_after(joined)`: test_a_run_begins_after_what_the_current_stream_holds,
  test_a_session_follows_the_current_stream, test_a_value_is_read_after_the_stream_that_made_it,
  test_a_stream_of_the_users_is_worked_on, test_a_run_of_parallel_nodes_is_ordered_too,
  test_two_events_join_the_streams
- `lane->end_before(joined)`: test_what_follows_on_the_current_stream_waits_for_the_run,
  test_the_host_waits_for_nothing, test_two_events_join_the_streams,
  test_an_input_that_is_let_go_of_is_not_overwritten_before_it_was_read
- `feeds.order_before(joined)`: test_a_value_is_read_after_the_stream_that_made_it,
  test_a_values_memory_is_not_reused_while_a_run_needs_it
- `order(reader, stream)` (in csrc/ortdl/lane.cpp):
  test_the_provider_reuses_its_own_memory_after_the_readers
- `record_use(...)`: test_an_outputs_memory_is_not_reused_before_its_reader_is_done
"""

import contextlib
import itertools

import emulator
import onnxruntime
import provider
import pytest
import torch
from exchange import Capture, Pending, on, state
from models import info, model
from onnx import helper
from provider import KINDS, needs_provider, session
from support import refused

from ortdl_torch import InferenceSession, OrtValue, to_ortvalue

pytestmark = [needs_provider, pytest.mark.usefixtures("two_devices")]
DEVICE = "cuda:1"
EVENTS = {"cudaEventRecord", "cudaEventRecordWithFlags", "cudaStreamWaitEvent"}
kinds = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def pending() -> Pending:
    """Elements on their way on a stream of the device."""
    return Pending(torch.cuda.Stream(DEVICE))


def doubled(pending: Pending) -> list[float]:
    """What adding the elements to themselves gives."""
    return [2 * x for x in pending.elements]


def twice(adder: InferenceSession, pending: Pending) -> torch.Tensor:
    """The elements added to themselves, asked for on the stream that makes them."""
    with torch.cuda.stream(pending.stream):
        return adder(pending.tensor, pending.tensor)[0]


def value_of(pending: Pending) -> OrtValue:
    with torch.cuda.stream(pending.stream):
        return to_ortvalue(pending.tensor)


def events() -> list[tuple[str, int]]:
    """The calls since the last reset that order streams."""
    return [
        (call.name.removesuffix("WithFlags"), call.stream)
        for call in emulator.trace()
        if call.name in EVENTS
    ]


@kinds
def test_a_run_begins_after_what_the_current_stream_holds(kind: str, pending: Pending) -> None:
    adder = session(kind)
    provider.reset()
    result = twice(adder, pending)
    provider.advance(provider.compute())
    assert on(pending.stream, result) == doubled(pending)


@kinds
def test_what_follows_on_the_current_stream_waits_for_the_run(kind: str, pending: Pending) -> None:
    adder = session(kind)  # one that goes waits for its work
    result = twice(adder, pending)
    assert on(pending.stream, result) == doubled(pending)


@kinds
def test_the_host_waits_for_nothing(kind: str, pending: Pending) -> None:
    adder = session(kind)
    for _ in range(3):
        provider.reset()
        emulator.reset()
        result = twice(adder, pending)
        assert emulator.host_waits() == []
        assert provider.counters().stream_waits == 0
        # The elements are still on their way: nothing of this ran.
        assert emulator.bytes_now(result) != bytes(torch.tensor(doubled(pending)).numpy())
    assert emulator.pending(pending.stream) > 0
    assert on(pending.stream, result) == doubled(pending)


def test_two_events_join_the_streams(pending: Pending) -> None:
    adder = session("native")
    provider.reset()
    emulator.reset()
    result = twice(adder, pending)
    current, lane, found = pending.stream.cuda_stream, provider.compute().stream or 0, events()
    assert on(pending.stream, result) == doubled(pending)
    assert current != lane
    assert found == [
        ("cudaEventRecord", current),
        ("cudaStreamWaitEvent", lane),
        ("cudaEventRecord", lane),
        ("cudaStreamWaitEvent", current),
    ]


@kinds
def test_a_value_is_read_after_the_stream_that_made_it(kind: str, pending: Pending) -> None:
    adder, value = session(kind), value_of(pending)
    reader = torch.cuda.Stream(DEVICE)
    provider.reset()
    with torch.cuda.stream(reader):
        (result,) = adder(value, value)
    provider.advance(provider.compute())
    assert on(reader, result) == doubled(pending)


@kinds
def test_a_session_follows_the_current_stream(kind: str) -> None:
    adder = session(kind)
    streams = [torch.cuda.Stream(DEVICE), torch.cuda.default_stream(DEVICE)]
    for stream in [*streams, torch.cuda.Stream(DEVICE)]:
        pending = Pending(stream)
        provider.reset()
        result = twice(adder, pending)
        with torch.cuda.stream(stream):
            (again,) = adder(result, result)
        provider.advance(provider.compute(1))
        assert on(stream, again) == [4 * x for x in pending.elements]


@kinds
def test_an_input_that_is_let_go_of_is_not_overwritten_before_it_was_read(
    kind: str, pending: Pending
) -> None:
    adder, stream, expected = session(kind), pending.stream, doubled(pending)
    other = torch.zeros(len(expected)).pin_memory()
    result = twice(adder, pending)
    address = pending.tensor.data_ptr()
    del pending.tensor
    with torch.cuda.stream(stream):
        reused = other.to(DEVICE, non_blocking=True)
    assert reused.data_ptr() == address
    emulator.advance(stream)
    assert on(stream, result) == expected


@kinds
def test_a_values_memory_is_not_reused_while_a_run_needs_it(kind: str, pending: Pending) -> None:
    adder, expected = session(kind), doubled(pending)
    reader, address = torch.cuda.Stream(DEVICE), pending.tensor.data_ptr()
    value = value_of(pending)
    with torch.cuda.stream(reader):
        (result,) = adder(value, value)
    del value, pending.tensor
    with torch.cuda.stream(pending.stream):
        others = [torch.zeros(64).pin_memory().to(DEVICE, non_blocking=True) for _ in range(4)]
    assert address not in [other.data_ptr() for other in others]
    emulator.advance(pending.stream)
    assert on(reader, result) == expected


def test_an_outputs_memory_is_not_reused_before_its_reader_is_done(pending: Pending) -> None:
    adder, other = session("native"), Pending(torch.cuda.Stream(DEVICE))
    result = twice(adder, pending)
    with torch.cuda.stream(pending.stream):
        copy = torch.empty_like(result)
        copy.copy_(result)
    del result
    provider.reset()
    second = twice(adder, other)
    provider.advance(provider.compute())
    assert on(pending.stream, copy) == doubled(pending)
    assert on(other.stream, second) == doubled(other)


@pytest.mark.parametrize("kind", ["plugin", "devices"])
def test_the_provider_reuses_its_own_memory_after_the_readers(kind: str, pending: Pending) -> None:
    """PyTorch's allocator knows nothing of it: when it goes, the provider's streams wait."""
    adder = session(kind)
    provider.reset()
    result = twice(adder, pending)
    lane = provider.compute().stream
    emulator.reset()
    del result
    found = events()
    assert found[0] == ("cudaEventRecord", pending.stream.cuda_stream)
    assert ("cudaStreamWaitEvent", lane) in found
    assert emulator.host_waits() == []


@kinds
def test_a_run_of_parallel_nodes_is_ordered_too(kind: str, pending: Pending) -> None:
    """ONNX Runtime ignores a run's stream then: the host waits unless the session has a stream."""
    made = provider.options()
    made.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    adder = session(kind, sess_options=made)
    provider.reset()
    result = twice(adder, pending)
    assert (provider.counters().stream_waits > 0) == (kind != "native")
    assert on(pending.stream, result) == doubled(pending)


@pytest.mark.parametrize("kind", ["plugin", "native"])
def test_a_stream_of_the_users_is_worked_on(kind: str, pending: Pending) -> None:
    own = torch.cuda.Stream(DEVICE)
    adder = session(kind, given={"user_compute_stream": own.cuda_stream})
    provider.reset()
    result = twice(adder, pending)
    assert provider.compute().stream == own.cuda_stream
    emulator.advance(own)
    assert on(pending.stream, result) == doubled(pending)


@kinds
def test_a_run_cannot_be_captured(kind: str) -> None:
    adder, x = session(kind), torch.ones(4).to(DEVICE)
    provider.reset()
    with (
        Capture(DEVICE),
        refused(RuntimeError, "being captured", "before or after"),
    ):
        adder(x, x)
    assert provider.counters().computes == 0
    assert adder(x, x)[0].tolist() == [2.0] * 4


@kinds
def test_a_run_beside_a_capture_takes_no_part_in_it(kind: str, pending: Pending) -> None:
    adder, captured = session(kind), torch.cuda.Stream(DEVICE)
    x, to = torch.ones(4).to(DEVICE), torch.zeros(4).to(DEVICE)
    with torch.cuda.stream(captured):
        adder(x, x)  # the stream is known as a reader
    result = twice(adder, pending)
    torch.cuda.synchronize(DEVICE)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=captured, capture_error_mode="relaxed"):
        to.copy_(x)
        result = twice(adder, pending)
    assert on(pending.stream, result) == doubled(pending)
    graph.replay()
    assert to.tolist() == [1.0] * 4


OURS = ["cudaEventCreateWithFlags", "cudaEventRecord", "cudaStreamWaitEvent"]
THE_PROVIDERS = ["cudaLaunchHostFunc", "cudaMalloc"]


@kinds
@pytest.mark.parametrize("name", OURS + THE_PROVIDERS)
def test_a_call_that_fails_leaves_nothing_half_ordered(kind: str, name: str) -> None:
    adder, before, stream = session(kind), state(), torch.cuda.Stream(DEVICE)
    outcomes: list[bool] = []
    for nth in range(1, 100):
        torch.cuda.empty_cache()
        pending = Pending(stream)
        emulator.reset()
        emulator.fail(name, nth)
        result = None
        with contextlib.suppress(RuntimeError):
            result = twice(adder, pending)
        failed = [call.name for call in emulator.trace()].count(name) >= nth
        emulator.reset()
        # The fake provider leaves CUDA's last error for PyTorch to find.
        assert emulator.LIBRARY.cudaGetLastError() == 0 or name in THE_PROVIDERS
        assert state() == before
        if result is not None:
            assert on(stream, result) == doubled(pending)
        outcomes.append(result is not None)
        if not failed:
            break
    assert outcomes[-1]
    assert not outcomes[0]


def test_a_chain_of_nodes_needs_no_more_order(pending: Pending) -> None:
    names = ["x", "a", "b", "y"]
    nodes = [helper.make_node("Add", [p, p], [q]) for p, q in itertools.pairwise(names)]
    chain = session("native", model(nodes, [info("x")], [info("y")]))
    emulator.reset()
    with torch.cuda.stream(pending.stream):
        (result,) = chain(pending.tensor)
    assert len(events()) == 4
    assert on(pending.stream, result) == [8 * x for x in pending.elements]
