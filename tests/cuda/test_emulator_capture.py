"""Capture in the emulator: what CUDA refuses is refused, with CUDA's errors."""

import ctypes
import threading
from collections.abc import Iterator

import emulator
import pytest
import torch
from emulator import LIBRARY, bytes_now

pytestmark = emulator.needs_emulator

SUCCESS = 0
NOT_READY = 600
UNSUPPORTED, INVALIDATED, MERGE, UNMATCHED, UNJOINED, ISOLATION, IMPLICIT, CAPTURED_EVENT = range(
    900, 908
)
WRONG_THREAD = 908
GLOBAL, THREAD_LOCAL, RELAXED = range(3)
ACTIVE, INVALID = 1, 2
NON_BLOCKING = 1


def cuda(name: str, *arguments: object) -> int:
    """What CUDA's function `name` returns."""
    return getattr(LIBRARY, name)(*arguments)


class Machine:
    """Streams and events of the test's own, and the calls on them: each returns CUDA's error."""

    def __init__(self) -> None:
        self.made: list[tuple[str, ctypes.c_void_p]] = []
        self.captured: list[ctypes.c_void_p] = []

    def stream(self, flags: int = NON_BLOCKING) -> ctypes.c_void_p:
        stream = ctypes.c_void_p()
        assert cuda("cudaStreamCreateWithFlags", ctypes.byref(stream), flags) == SUCCESS
        self.made.append(("cudaStreamDestroy", stream))
        return stream

    def event(self) -> ctypes.c_void_p:
        event = ctypes.c_void_p()
        assert cuda("cudaEventCreate", ctypes.byref(event)) == SUCCESS
        self.made.append(("cudaEventDestroy", event))
        return event

    def capturing(self, mode: int = GLOBAL) -> ctypes.c_void_p:
        stream = self.stream()
        self.begin(stream, mode)
        return stream

    def begin(self, stream: ctypes.c_void_p, mode: int = GLOBAL) -> None:
        assert cuda("cudaStreamBeginCapture", stream, mode) == SUCCESS
        self.captured.append(stream)

    def record(self, stream: ctypes.c_void_p) -> ctypes.c_void_p:
        event = self.event()
        assert cuda("cudaEventRecord", event, stream) == SUCCESS
        return event

    def close(self) -> None:
        # What a failed test did not end would be in the way of every other test.
        for stream in self.captured:
            end(stream)
        # PyTorch would take what the test was refused for an error of its own next call.
        cuda("cudaGetLastError")
        for destroy, handle in self.made:
            assert cuda(destroy, handle) == SUCCESS


@pytest.fixture
def machine() -> Iterator[Machine]:
    made = Machine()
    yield made
    made.close()


def wait(stream: ctypes.c_void_p, event: ctypes.c_void_p) -> int:
    return cuda("cudaStreamWaitEvent", stream, event, 0)


def status(stream: ctypes.c_void_p) -> int:
    answer = ctypes.c_int(-1)
    assert cuda("cudaStreamIsCapturing", stream, ctypes.byref(answer)) == SUCCESS
    return answer.value


def end(stream: ctypes.c_void_p) -> int:
    graph = ctypes.c_void_p()
    error = cuda("cudaStreamEndCapture", stream, ctypes.byref(graph))
    if error == SUCCESS:
        assert cuda("cudaGraphDestroy", graph) == SUCCESS
    return error


def copy(stream: ctypes.c_void_p, to: torch.Tensor, source: torch.Tensor) -> int:
    addresses = (ctypes.c_void_p(t.data_ptr()) for t in (to, source))
    return cuda("cudaMemcpyAsync", *addresses, ctypes.c_size_t(to.nbytes), 4, stream)


def test_pytorch_captures_and_replays_copies():
    source, to = torch.arange(8.0).cuda(), torch.zeros(8).cuda()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        to.copy_(source)
    assert to.tolist() == [0.0] * 8
    graph.replay()
    assert to.tolist() == list(range(8))
    source.copy_(torch.ones(8))
    graph.replay()
    assert to.tolist() == [1.0] * 8


def test_a_wait_for_an_event_of_the_capture_joins_it(machine):
    origin, other = machine.capturing(), machine.stream()
    assert wait(other, machine.record(origin)) == SUCCESS
    assert status(other) == ACTIVE
    assert wait(origin, machine.record(other)) == SUCCESS
    assert end(origin) == SUCCESS
    assert status(other) == 0


def test_work_of_a_fork_that_was_not_joined_is_an_error(machine):
    one, two = (torch.zeros(8).cuda() for _ in range(2))
    origin, other = machine.capturing(), machine.stream()
    assert wait(other, machine.record(origin)) == SUCCESS
    assert copy(other, one, two) == SUCCESS
    assert end(origin) == UNJOINED


def test_a_wait_for_an_event_from_outside_is_an_error_and_ends_the_captures_validity(machine):
    outside, origin = machine.stream(), machine.stream()
    event = machine.record(outside)
    machine.begin(origin)
    assert wait(origin, event) == ISOLATION
    assert status(origin) == INVALID
    assert end(origin) == INVALIDATED


@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL, RELAXED])
@pytest.mark.parametrize("call", ["cudaStreamSynchronize", "cudaStreamQuery"])
def test_a_captured_stream_can_neither_be_waited_for_nor_asked(machine, call, mode):
    origin = machine.capturing(mode)
    assert cuda(call, origin) == UNSUPPORTED
    assert end(origin) == INVALIDATED


def test_a_device_with_a_captured_stream_cannot_be_waited_for(machine):
    origin = machine.capturing(RELAXED)
    assert cuda("cudaDeviceSynchronize") == UNSUPPORTED
    assert end(origin) == INVALIDATED


@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL])
@pytest.mark.parametrize("call", ["cudaEventQuery", "cudaEventSynchronize"])
def test_events_from_outside_cannot_be_asked_in_a_capture_that_forbids_it(machine, call, mode):
    event = machine.record(machine.stream())
    origin = machine.capturing(mode)
    assert cuda(call, event) == UNSUPPORTED
    assert end(origin) == INVALIDATED


def test_events_from_outside_can_be_asked_in_a_relaxed_capture(machine):
    event = machine.record(machine.stream())
    origin = machine.capturing(RELAXED)
    assert cuda("cudaEventQuery", event) == SUCCESS
    assert end(origin) == SUCCESS


def test_memory_is_not_allocated_in_a_capture_unless_the_thread_relaxes_that(machine):
    origin, memory, mode = machine.capturing(), ctypes.c_void_p(), ctypes.c_int(RELAXED)
    assert cuda("cudaThreadExchangeStreamCaptureMode", ctypes.byref(mode)) == SUCCESS
    assert mode.value == GLOBAL
    assert cuda("cudaMalloc", ctypes.byref(memory), ctypes.c_size_t(64)) == SUCCESS
    assert cuda("cudaFree", memory) == SUCCESS
    assert cuda("cudaThreadExchangeStreamCaptureMode", ctypes.byref(mode)) == SUCCESS
    assert cuda("cudaMalloc", ctypes.byref(memory), ctypes.c_size_t(64)) == UNSUPPORTED
    assert end(origin) == INVALIDATED


@pytest.mark.parametrize(("mode", "error"), [(GLOBAL, UNSUPPORTED), (THREAD_LOCAL, NOT_READY)])
def test_a_global_capture_binds_other_threads_and_a_thread_local_one_does_not(machine, mode, error):
    busy, origin = machine.stream(), machine.stream()
    one, two = (torch.zeros(8).cuda() for _ in range(2))
    assert copy(busy, one, two) == SUCCESS
    machine.begin(origin, mode)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(cuda("cudaStreamQuery", busy)))
    thread.start()
    thread.join()
    assert seen == [error]
    assert end(origin) == (INVALIDATED if mode == GLOBAL else SUCCESS)


def test_an_event_of_a_capture_cannot_be_asked_in_any_mode(machine):
    origin = machine.capturing(RELAXED)
    event = machine.record(origin)
    assert cuda("cudaEventQuery", event) == CAPTURED_EVENT
    assert cuda("cudaEventSynchronize", event) == CAPTURED_EVENT
    assert end(origin) == SUCCESS
    assert cuda("cudaEventQuery", event) == CAPTURED_EVENT


def test_two_captures_cannot_be_merged(machine):
    first, second = machine.capturing(), machine.capturing()
    assert wait(second, machine.record(first)) == MERGE
    assert [end(first), end(second)] == [INVALIDATED, INVALIDATED]


def test_the_default_stream_can_neither_be_captured_nor_join(machine):
    assert cuda("cudaStreamBeginCapture", None, GLOBAL) == UNSUPPORTED
    origin = machine.capturing()
    assert wait(ctypes.c_void_p(None), machine.record(origin)) == IMPLICIT
    assert end(origin) == INVALIDATED


def test_a_capture_ends_on_its_own_stream_and_in_its_own_thread(machine):
    origin, other = machine.capturing(), machine.stream()
    assert wait(other, machine.record(origin)) == SUCCESS
    assert end(other) == UNMATCHED
    assert end(origin) == INVALIDATED
    origin, seen = machine.capturing(), []
    thread = threading.Thread(target=lambda: seen.append(end(origin)))
    thread.start()
    thread.join()
    assert seen == [WRONG_THREAD]
    assert end(origin) == INVALIDATED


def test_captured_work_does_not_run_and_a_graph_runs_the_newest_first(machine):
    """Two copies to one place whose order nobody asked for: the first one to be recorded wins."""
    origin, other = machine.stream(), machine.stream()
    one, two, to = (torch.full((8,), n).cuda() for n in (1.0, 2.0, 0.0))
    torch.cuda.synchronize()
    machine.begin(origin)
    assert wait(other, machine.record(origin)) == SUCCESS
    assert copy(origin, to, one) == SUCCESS
    assert copy(other, to, two) == SUCCESS
    assert wait(origin, machine.record(other)) == SUCCESS
    graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda("cudaStreamEndCapture", origin, ctypes.byref(graph)) == SUCCESS
    flags = ctypes.c_ulonglong(0)
    assert cuda("cudaGraphInstantiate", ctypes.byref(executable), graph, flags) == SUCCESS
    assert bytes_now(to) == bytes(32)
    assert cuda("cudaGraphLaunch", executable, origin) == SUCCESS
    assert cuda("cudaStreamSynchronize", origin) == SUCCESS
    assert to.tolist() == [1.0] * 8
    assert cuda("cudaGraphExecDestroy", executable) == SUCCESS
    assert cuda("cudaGraphDestroy", graph) == SUCCESS
