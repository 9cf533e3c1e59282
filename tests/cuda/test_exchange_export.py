"""Values on CUDA devices as producers: who reads on another stream waits for the elements.

On the emulator a reader who does not wait sees stale bytes. Seen to fail there without the event
(`done.block(later)` taken out of csrc/ortdl/stream.cpp):

- test_the_stream_that_is_named_waits
- test_a_stream_that_pytorch_did_not_make_waits
- test_pytorch_reads_a_value_on_its_current_stream
- test_a_tensor_of_a_value_is_read_on_the_current_stream
- test_a_capsule_is_for_the_current_stream
- test_a_copy_is_ordered_twice
- test_copy_on_the_cpu_has_the_elements
- test_the_table_exports_to_the_current_stream
- test_threads_export_on_streams_of_their_own
"""

import ctypes
import threading
from collections.abc import Callable

import emulator
import pytest
import torch
from dlpack_structs import (
    COPIED,
    FROM_OBJECT,
    LEGACY,
    STREAM,
    TO_OBJECT,
    ManagedVersioned,
    name_of,
    struct_of,
    table_of,
)
from emulator import needs_emulator
from exchange import Pending, on, taken
from support import live, refused

from ortdl_torch import OrtValue, from_ortvalue, to_dlpack, to_ortvalue

DEVICE = "cuda:0"


def value_of(pending: Pending) -> OrtValue:
    """A value whose elements are made on the stream of `pending`."""
    with torch.cuda.stream(pending.stream):
        return to_ortvalue(pending.tensor)


@pytest.fixture
def pending() -> Pending:
    """Elements on their way on a stream of the first device."""
    return Pending(torch.cuda.Stream(DEVICE))


def events() -> list[tuple[str, int]]:
    """The calls since the last reset that order streams."""
    names = {"cudaEventRecord", "cudaEventRecordWithFlags", "cudaStreamWaitEvent"}
    return [
        (call.name.removesuffix("WithFlags"), call.stream)
        for call in emulator.trace()
        if call.name in names
    ]


DEFAULT = [None, 1]


@pytest.mark.parametrize("number", [*DEFAULT, "handle"])
def test_the_stream_that_is_named_waits(pending: Pending, number: int | str | None) -> None:
    reader = torch.cuda.default_stream(DEVICE)
    if number == "handle":
        reader = torch.cuda.Stream(DEVICE)
        number = reader.cuda_stream
    value = value_of(pending)
    capsule = value.__dlpack__(stream=number)
    assert name_of(capsule) == LEGACY
    tensor = taken(capsule)
    assert tensor.data_ptr() == pending.tensor.data_ptr()
    assert pending.read(tensor, reader)


@needs_emulator
def test_a_stream_that_pytorch_did_not_make_waits(pending: Pending) -> None:
    handle = ctypes.c_void_p()
    assert emulator.LIBRARY.cudaStreamCreateWithFlags(ctypes.byref(handle), 1) == 0
    tensor = taken(value_of(pending).__dlpack__(stream=handle.value))
    assert pending.read(tensor, torch.cuda.ExternalStream(handle.value))


@needs_emulator
def test_one_event_orders_two_streams_and_no_host_waits(pending: Pending) -> None:
    reader = torch.cuda.Stream(DEVICE)
    value = value_of(pending)
    emulator.reset()
    value.__dlpack__(stream=reader.cuda_stream)
    assert events() == [
        ("cudaEventRecord", pending.stream.cuda_stream),
        ("cudaStreamWaitEvent", reader.cuda_stream),
    ]
    assert emulator.host_waits() == []


@needs_emulator
def test_its_own_stream_has_nothing_to_wait_for(pending: Pending) -> None:
    value = value_of(pending)
    emulator.reset()
    capsule = value.__dlpack__(stream=pending.stream.cuda_stream)
    assert events() == []
    assert pending.read(taken(capsule), pending.stream)


@needs_emulator
def test_nothing_waits_where_no_order_is_asked_for(pending: Pending) -> None:
    reader = torch.cuda.Stream(DEVICE)
    value = value_of(pending)
    emulator.reset()
    capsule = value.__dlpack__(stream=-1)
    assert events() == []
    assert not pending.read(taken(capsule), reader)


REFUSED = {
    0: (ValueError, "ambiguous|either"),
    2: (BufferError, "per-thread"),
    3: (ValueError, "stream=3"),
    -2: (ValueError, "stream=-2"),
    2**70: (ValueError, "64 bits"),
}


@pytest.mark.parametrize("number", REFUSED)
def test_a_number_that_names_no_stream_is_refused(pending: Pending, number: int) -> None:
    kind, words = REFUSED[number]
    value = value_of(pending)
    with refused(kind, words):
        value.__dlpack__(stream=number)


@pytest.mark.parametrize("stream", [True, False, 1.0, "1", torch.cuda.Stream, (1,)], ids=repr)
def test_what_is_no_number_is_refused(pending: Pending, stream: object) -> None:
    value = value_of(pending)
    with refused(TypeError, "stream"):
        value.__dlpack__(stream=stream)


@needs_emulator
@pytest.mark.parametrize(
    "options",
    [
        {"stream": 0},
        {"max_version": 1},
        {"dl_device": (8, 0)},
        {"dl_device": (1, 0), "copy": False},
        {"copy": 1},
    ],
    ids=str,
)
def test_an_export_that_is_refused_orders_nothing(
    pending: Pending, options: dict[str, object]
) -> None:
    value = value_of(pending)
    emulator.reset()
    with pytest.raises((TypeError, ValueError, BufferError)):
        value.__dlpack__(**{"stream": torch.cuda.Stream(DEVICE).cuda_stream, **options})
    assert events() == []


@needs_emulator
@pytest.mark.parametrize("call", ["cudaEventRecord", "cudaEventRecordWithFlags"])
@pytest.mark.parametrize("also", ["cudaStreamWaitEvent", None])
def test_an_export_whose_event_fails_leaves_nothing(
    pending: Pending, call: str, also: str | None
) -> None:
    reader = torch.cuda.Stream(DEVICE)
    value = value_of(pending)
    alive = live()
    emulator.fail(also or call)
    try:
        value.__dlpack__(stream=reader.cuda_stream)
        failed = False
    except RuntimeError:
        failed = True
    # PyTorch records by one of two functions.
    assert failed or call == "cudaEventRecordWithFlags" or also is None
    emulator.reset()
    assert live() == alive
    assert pending.read(taken(value.__dlpack__(stream=reader.cuda_stream)), reader)


def test_pytorch_reads_a_value_on_its_current_stream(pending: Pending) -> None:
    reader = torch.cuda.Stream(DEVICE)
    value = value_of(pending)
    with torch.cuda.stream(reader):
        tensor = torch.from_dlpack(value)
    assert (tensor.device, tensor.data_ptr()) == (torch.device(DEVICE), pending.tensor.data_ptr())
    assert pending.read(tensor, reader)


@pytest.mark.parametrize("copy", [False, None])
def test_a_tensor_of_a_value_is_read_on_the_current_stream(
    pending: Pending, copy: bool | None
) -> None:
    reader = torch.cuda.Stream(DEVICE)
    value = value_of(pending)
    with torch.cuda.stream(reader):
        tensor = from_ortvalue(value, copy=copy)
    assert tensor.data_ptr() == pending.tensor.data_ptr()
    assert pending.read(tensor, reader)


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_capsule_is_for_the_current_stream(
    pending: Pending, version: tuple[int, int] | None
) -> None:
    reader = torch.cuda.Stream(DEVICE)
    value = value_of(pending)
    with torch.cuda.stream(reader):
        capsule = to_dlpack(value, max_version=version)
    assert pending.read(taken(capsule), reader)


def test_a_copy_is_ordered_twice(pending: Pending) -> None:
    """The copy waits for the elements, and the reader for the copy."""
    copier, reader = torch.cuda.Stream(DEVICE), torch.cuda.Stream(DEVICE)
    value = value_of(pending)
    if emulator.EMULATED:
        emulator.reset()
    with torch.cuda.stream(copier):
        capsule = value.__dlpack__(stream=reader.cuda_stream, copy=True, max_version=(1, 0))
    assert struct_of(capsule).flags == COPIED
    if emulator.EMULATED:
        assert emulator.host_waits() == []
    tensor = taken(capsule)
    assert tensor.data_ptr() != pending.tensor.data_ptr()
    assert pending.read(tensor, reader)


@pytest.mark.parametrize("stream", [None, 1, -1])
@pytest.mark.parametrize("copy", [None, True])
def test_copy_on_the_cpu_has_the_elements(
    pending: Pending, stream: int | None, copy: bool | None
) -> None:
    value = value_of(pending)
    capsule = value.__dlpack__(stream=stream, dl_device=(1, 0), copy=copy, max_version=(1, 0))
    struct = struct_of(capsule)
    assert (struct.tensor.device.type, struct.flags) == (1, COPIED)
    assert taken(capsule).tolist() == pending.elements


def test_the_cpu_without_a_copy_is_refused(pending: Pending) -> None:
    with refused(BufferError, "copy"):
        value_of(pending).__dlpack__(dl_device=(1, 0), copy=False)


@pytest.mark.parametrize("device", [(2, 1), (2, -1), (10, 0), (3, 0), (1, 1)], ids=str)
def test_other_devices_are_refused(pending: Pending, device: tuple[int, int]) -> None:
    with refused(BufferError, "(2, 0)", str(device)):
        value_of(pending).__dlpack__(dl_device=device)


def test_what_a_value_says_of_its_device(two_devices: None) -> None:
    for index in range(2):
        value = to_ortvalue(torch.ones(2, device=f"cuda:{index}"))
        assert value.__dlpack_device__() == (2, index)
        assert (value.device, value.device_name()) == (torch.device("cuda", index), "cuda")
        assert f"device='cuda:{index}'" in repr(value)
        capsule = value.__dlpack__(dl_device=(2, index))
        assert struct_of(capsule).tensor.device.index == index


def test_export_while_another_device_is_current(two_devices: None) -> None:
    pending = Pending(torch.cuda.Stream("cuda:1"))
    reader = torch.cuda.Stream("cuda:1")
    value = value_of(pending)
    assert torch.cuda.current_device() == 0
    capsule = value.__dlpack__(stream=reader.cuda_stream)
    assert torch.cuda.current_device() == 0
    with torch.cuda.device(1):
        tensor = taken(capsule)
    assert pending.read(tensor, reader)


def export_by_table(value: OrtValue) -> ManagedVersioned:
    out = ctypes.c_void_p()
    assert FROM_OBJECT(table_of(OrtValue).from_object)(value, ctypes.byref(out)) == 0
    return ManagedVersioned.from_address(out.value)


def by_torch(managed: ManagedVersioned) -> torch.Tensor:
    """A tensor that PyTorch's own table makes of a struct: without any order."""
    out = ctypes.c_void_p()
    to_object = TO_OBJECT(table_of(torch.Tensor).to_object)
    assert to_object(ctypes.addressof(managed), ctypes.byref(out)) == 0
    made = ctypes.cast(out, ctypes.py_object).value
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(made))
    return made


def work_stream(index: int) -> int | None:
    out = ctypes.c_void_p(5)
    assert STREAM(table_of(OrtValue).stream)(2, index, ctypes.byref(out)) == 0
    return out.value


def test_the_table_exports_to_the_current_stream(pending: Pending) -> None:
    """A consumer orders itself after the stream that the table names, not after the value's."""
    reader = torch.cuda.Stream(DEVICE)
    value = value_of(pending)
    with torch.cuda.stream(reader):
        managed = export_by_table(value)
        assert work_stream(0) == reader.cuda_stream
        tensor = by_torch(managed)
    assert pending.read(tensor, reader)


def test_the_table_names_the_current_stream_of_each_device(two_devices: None) -> None:
    assert [work_stream(0), work_stream(1)] == [None, None]
    stream = torch.cuda.Stream("cuda:1")
    with torch.cuda.stream(stream):
        assert work_stream(1) == stream.cuda_stream
        assert work_stream(0) is None


def test_threads_export_on_streams_of_their_own() -> None:
    found: list[bool] = []

    def exchange() -> None:
        for _ in range(20):
            pending = Pending(torch.cuda.Stream(DEVICE))
            reader = torch.cuda.Stream(DEVICE)
            tensor = taken(value_of(pending).__dlpack__(stream=reader.cuda_stream))
            found.append(pending.read(tensor, reader))

    threads = [threading.Thread(target=exchange) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 80


READERS: dict[str, Callable[[OrtValue, torch.cuda.Stream], torch.Tensor]] = {
    "protocol": lambda value, reader: taken(value.__dlpack__(stream=reader.cuda_stream)),
    "tensor": lambda value, reader: from_ortvalue(value),
}


@needs_emulator
@pytest.mark.parametrize("name", READERS)
def test_memory_is_not_reused_while_a_reader_needs_it(name: str) -> None:
    """The allocator was told of the reader, so what is freed early is given out late."""
    owner, reader = torch.cuda.Stream(DEVICE), torch.cuda.Stream(DEVICE)
    pending = Pending(owner)
    elements, address = pending.elements, pending.tensor.data_ptr()
    value = value_of(pending)
    with torch.cuda.stream(reader):
        tensor = READERS[name](value, reader)
        copy = torch.empty_like(tensor)
        copy.copy_(tensor)
    del pending, value, tensor
    with torch.cuda.stream(owner):
        others = [torch.zeros(64).pin_memory().to(DEVICE, non_blocking=True) for _ in range(4)]
    assert address not in [other.data_ptr() for other in others]
    owner.synchronize()
    assert on(reader, copy) == elements
