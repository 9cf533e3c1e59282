"""The emulator itself: without what is shown here, a test that passes on it would say nothing."""

import ctypes

import emulator
import pytest
import torch
from emulator import LIBRARY, advance, bytes_now, pending

pytestmark = emulator.needs_emulator

FRESH = b"\xa5"
PAYLOAD = bytes(range(64))


@pytest.fixture
def pinned() -> torch.Tensor:
    """The bytes 0 to 63 in pinned memory."""
    return torch.arange(64, dtype=torch.uint8).pin_memory()


@pytest.fixture
def fresh() -> torch.Tensor:
    """64 bytes of the first device that nobody has written yet."""
    # Else the caching allocator gives out what another test wrote.
    torch.cuda.empty_cache()
    return torch.empty(64, dtype=torch.uint8, device="cuda:0")


@pytest.fixture
def there(pinned, fresh) -> torch.Tensor:
    """The bytes 0 to 63 in memory of the first device."""
    tensor = pinned.to("cuda:0")
    torch.cuda.synchronize()
    return tensor


def streams(count: int, device: int = 0) -> list[torch.cuda.Stream]:
    return [torch.cuda.Stream(device) for _ in range(count)]


def copy_on(stream: torch.cuda.Stream, to: torch.Tensor, source: torch.Tensor) -> None:
    with torch.cuda.stream(stream):
        to.copy_(source, non_blocking=True)


def test_a_fresh_device_byte_is_no_lucky_zero(fresh):
    assert bytes_now(fresh) == FRESH * 64


def test_a_reader_that_does_not_wait_sees_stale_bytes(pinned, fresh):
    producer, reader = streams(2)
    copy_on(producer, fresh, pinned)
    with torch.cuda.stream(reader):
        assert bytes(fresh.cpu()) == FRESH * 64
    assert pending(producer) == 1


def test_a_reader_that_waits_for_the_event_sees_the_bytes(pinned, fresh):
    producer, reader = streams(2)
    copy_on(producer, fresh, pinned)
    reader.wait_event(producer.record_event())
    with torch.cuda.stream(reader):
        assert bytes(fresh.cpu()) == PAYLOAD


def test_what_is_queued_behind_an_event_does_not_run_with_it(pinned, fresh):
    producer, reader = streams(2)
    copy_on(producer, fresh, pinned)
    event = producer.record_event()
    copy_on(producer, fresh, torch.zeros_like(pinned).pin_memory())
    reader.wait_event(event)
    with torch.cuda.stream(reader):
        assert bytes(fresh.cpu()) == PAYLOAD
    producer.synchronize()
    assert bytes_now(fresh) == bytes(64)


def test_an_event_recorded_again_stands_for_its_newest_place(pinned, fresh):
    (producer,) = streams(1)
    event = producer.record_event()
    copy_on(producer, fresh, pinned)
    event.record(producer)
    event.synchronize()
    assert bytes_now(fresh) == PAYLOAD


def test_a_query_lets_nothing_run(pinned, fresh):
    (producer,) = streams(1)
    copy_on(producer, fresh, pinned)
    event = producer.record_event()
    assert not event.query()
    assert not producer.query()
    assert bytes_now(fresh) == FRESH * 64
    advance(producer)
    assert event.query()
    assert producer.query()
    assert bytes_now(fresh) == PAYLOAD


def test_pageable_memory_is_read_at_once_and_pinned_memory_is_not(pinned, fresh):
    (producer,) = streams(1)
    pageable = pinned.clone()
    other = torch.empty_like(fresh)
    copy_on(producer, fresh, pageable)
    copy_on(producer, other, pinned)
    pageable.zero_()
    pinned.zero_()
    producer.synchronize()
    assert bytes_now(fresh) == PAYLOAD
    assert bytes_now(other) == bytes(64)


def test_a_copy_between_devices_runs_in_order(two_devices, pinned, fresh):
    (producer,), (reader,) = streams(1), streams(1, device=1)
    copy_on(producer, fresh, pinned)
    reader.wait_stream(producer)
    there = torch.empty(64, dtype=torch.uint8, device="cuda:1")
    copy_on(reader, there, fresh)
    assert bytes_now(there) != PAYLOAD
    reader.synchronize()
    assert bytes_now(there) == PAYLOAD


def test_memory_that_another_stream_uses_is_not_reused_before_that_is_done(pinned, fresh):
    (reader,) = streams(1)
    copy_on(reader, torch.empty_like(pinned).pin_memory(), fresh)
    fresh.record_stream(reader)
    address = fresh.data_ptr()
    del fresh
    # pytest holds the fixture's value, so a tensor of the test's own takes its place.
    mine = torch.empty(4096, dtype=torch.uint8, device="cuda:0")
    assert mine.data_ptr() != address


def test_more_memory_than_a_device_has_is_out_of_memory():
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(5 << 30, dtype=torch.uint8, device="cuda:0")


def test_the_nth_call_fails_once():
    (stream,) = streams(1)
    emulator.fail("cudaEventRecord", nth=2, error=719)
    stream.record_event()
    with pytest.raises(torch.AcceleratorError, match="unspecified launch failure"):
        stream.record_event()
    stream.record_event()


def test_the_trace_names_calls_and_streams():
    producer, reader = streams(2)
    emulator.reset()
    reader.wait_event(producer.record_event())
    calls = [call for call in emulator.trace() if call.name.endswith(("Record", "WaitEvent"))]
    assert calls == [
        ("cudaEventRecord", producer.cuda_stream),
        ("cudaStreamWaitEvent", reader.cuda_stream),
    ]
    assert emulator.host_waits() == []
    producer.synchronize()
    assert emulator.host_waits() == ["cudaStreamSynchronize"]


def test_a_host_function_runs_in_its_turn_and_may_call_back(pinned, fresh):
    (stream,) = streams(1)
    seen = []
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: seen.append(bytes_now(fresh)))
    copy_on(stream, fresh, pinned)
    assert LIBRARY.cudaLaunchHostFunc(ctypes.c_void_p(stream.cuda_stream), function, None) == 0
    assert seen == []
    stream.synchronize()
    assert seen == [PAYLOAD]


def test_a_stream_that_was_not_made_by_pytorch_is_known_by_its_handle():
    (own,) = streams(1)
    handle = ctypes.c_void_p()
    assert LIBRARY.cudaStreamCreateWithFlags(ctypes.byref(handle), 1) == 0
    foreign = torch.cuda.ExternalStream(handle.value)
    assert foreign.stream_id == handle.value
    assert foreign.cuda_stream == handle.value
    # So the two kinds of ids never meet.
    assert foreign.stream_id % 2 == 0
    assert own.stream_id % 2 == 1
    assert LIBRARY.cudaStreamDestroy(handle) == 0


def test_the_default_stream_and_blocking_streams_wait_for_each_other(there, fresh):
    handle = ctypes.c_void_p()
    assert LIBRARY.cudaStreamCreateWithFlags(ctypes.byref(handle), 0) == 0
    copy_on(torch.cuda.ExternalStream(handle.value), fresh, there)
    assert bytes_now(fresh) == FRESH * 64
    # This copy is queued on the default stream.
    assert bytes(fresh.cpu()) == PAYLOAD
    assert LIBRARY.cudaStreamDestroy(handle) == 0


def test_a_thread_of_its_own_default_stream_is_another_than_the_legacy_one(there, fresh):
    copy_on(torch.cuda.ExternalStream(2), fresh, there)
    assert LIBRARY.cudaStreamSynchronize(ctypes.c_void_p(1)) == 0
    assert bytes_now(fresh) == FRESH * 64
    assert LIBRARY.cudaStreamSynchronize(ctypes.c_void_p(2)) == 0
    assert bytes_now(fresh) == PAYLOAD
