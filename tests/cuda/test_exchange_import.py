"""Memory of CUDA devices that others made, as values: our current stream waits for the elements.

On the emulator a reader who does not wait sees stale bytes. Seen to fail there without the event
(`done.block(later)` taken out of csrc/ortdl/stream.cpp):

- test_a_table_is_asked_for_its_stream
- test_an_import_and_an_export_are_one_chain
"""

import ctypes
from typing import Any

import emulator
import numpy as np
import onnxruntime
import pytest
import torch
from dlpack_structs import Lent, Producer, table_of
from emulator import needs_emulator
from exchange import Foreign, Pending, on, struct_over, with_table
from support import eventually, refused

import ortdl_torch
from ortdl_torch import OrtValue, from_dlpack, from_ortvalue, to_ortvalue

DEVICE = "cuda:0"


@pytest.fixture
def pending() -> Pending:
    """Elements on their way on a stream of the first device."""
    return Pending(torch.cuda.Stream(DEVICE))


def test_a_producer_is_asked_for_the_current_stream(pending: Pending) -> None:
    reader, producer = torch.cuda.Stream(DEVICE), Foreign(pending)
    with torch.cuda.stream(reader):
        value = from_dlpack(producer)
        tensor = from_ortvalue(value)
    (asked,) = producer.asked
    assert asked["stream"] == reader.cuda_stream
    assert value.data_ptr() == pending.tensor.data_ptr()
    assert value.device == torch.device(DEVICE)
    assert pending.read(tensor, reader)


@needs_emulator
def test_no_host_waits_for_an_import(pending: Pending) -> None:
    reader, producer = torch.cuda.Stream(DEVICE), Foreign(pending)
    emulator.reset()
    with torch.cuda.stream(reader):
        from_dlpack(producer)
    assert emulator.host_waits() == []


def test_the_default_stream_has_its_own_number(pending: Pending) -> None:
    producer = Foreign(pending)
    tensor = from_ortvalue(from_dlpack(producer))
    assert [asked["stream"] for asked in producer.asked] == [1]
    assert pending.read(tensor, torch.cuda.default_stream(DEVICE))


def test_a_producer_is_asked_with_its_device_current(two_devices: None) -> None:
    pending = Pending(torch.cuda.Stream("cuda:1"))
    reader, producer = torch.cuda.Stream("cuda:1"), Foreign(pending)
    with torch.cuda.stream(reader), torch.cuda.device(0):
        value = from_dlpack(producer)
        assert torch.cuda.current_device() == 0
        tensor = from_ortvalue(value)
    # The stream is that of the producer's device, whichever is current.
    assert [asked["stream"] for asked in producer.asked] == [reader.cuda_stream]
    assert producer.devices == [1]
    assert value.device == torch.device("cuda:1")
    assert pending.read(tensor, reader)


def test_an_old_producer_is_still_asked_for_the_stream(pending: Pending) -> None:
    class Old(Foreign):
        def __dlpack__(self, stream: int | None = None, **unknown: Any) -> object:
            if unknown:
                raise TypeError(f"unexpected keywords {sorted(unknown)}")
            return super().__dlpack__(stream=stream)

    reader, producer = torch.cuda.Stream(DEVICE), Old(pending)
    with torch.cuda.stream(reader):
        tensor = from_ortvalue(from_dlpack(producer))
    assert producer.asked == [{"stream": reader.cuda_stream}]
    assert pending.read(tensor, reader)


def test_managed_memory_is_of_its_device(pending: Pending) -> None:
    lent = struct_over(pending.tensor, device=(13, 0))
    producer = Producer(lent.capsule(), (13, 0))
    value = from_dlpack(producer)
    assert (value.device, value.__dlpack_device__()) == (torch.device(DEVICE), (2, 0))
    assert producer.asked[0]["stream"] == 1
    del value
    assert lent.released == 1


def test_pytorchs_own_tensors_are_not_asked(pending: Pending) -> None:
    """Their stream is the current one, so there is nothing to order."""
    if emulator.EMULATED:
        emulator.reset()
    with torch.cuda.stream(pending.stream):
        value = from_dlpack(pending.tensor)
    if emulator.EMULATED:
        assert [c.name for c in emulator.trace() if "Event" in c.name] == []
    assert value.data_ptr() == pending.tensor.data_ptr()


@pytest.mark.parametrize("shared", ["tensor", "foreign"])
def test_an_import_and_an_export_are_one_chain(pending: Pending, shared: str) -> None:
    """A reader of the value waits for the stream that imported it, and so for the producer."""
    middle, reader = torch.cuda.Stream(DEVICE), torch.cuda.Stream(DEVICE)
    if shared == "tensor":
        middle = pending.stream
    with torch.cuda.stream(middle):
        value = from_dlpack(pending.tensor if shared == "tensor" else Foreign(pending))
    with torch.cuda.stream(reader):
        tensor = torch.from_dlpack(value)
    assert tensor.data_ptr() == pending.tensor.data_ptr()
    assert pending.read(tensor, reader)


@pytest.mark.parametrize("copy", [None, False, True])
def test_a_table_is_asked_for_its_stream(pending: Pending, copy: bool | None) -> None:
    reader, seen = torch.cuda.Stream(DEVICE), []
    lent = struct_over(pending.tensor)
    if emulator.EMULATED:
        emulator.reset()
    with torch.cuda.stream(reader):
        value = from_dlpack(with_table(lent, pending.stream, seen), copy=copy)
        tensor = from_ortvalue(value)
    if emulator.EMULATED:
        # The producer of what was copied gets its memory back at once.
        assert emulator.host_waits() == (["cudaStreamSynchronize"] if copy else [])
    assert seen == [(2, 0, 0)]
    assert (value.data_ptr() == pending.tensor.data_ptr()) is (copy is not True)
    assert pending.read(tensor, reader)
    del value, tensor
    assert eventually(lambda: lent.released == 1)


@pytest.mark.parametrize("handle", [0, 1])
def test_a_table_may_name_the_default_stream(handle: int) -> None:
    default = torch.cuda.default_stream(DEVICE)
    pending, reader = Pending(default), torch.cuda.Stream(DEVICE)
    with torch.cuda.stream(reader):
        value = from_dlpack(with_table(struct_over(pending.tensor), handle))
        tensor = from_ortvalue(value)
    assert pending.read(tensor, reader)


def test_a_table_is_asked_with_its_device_current(two_devices: None) -> None:
    pending, seen = Pending(torch.cuda.Stream("cuda:1")), []
    value = from_dlpack(with_table(struct_over(pending.tensor), pending.stream, seen))
    assert seen == [(2, 1, 1)]
    assert value.device == torch.device("cuda:1")
    assert torch.cuda.current_device() == 0


def test_a_table_that_names_no_stream_cannot_be_waited_for(pending: Pending) -> None:
    for stream, word in ((None, "stream"), (3, "3")):
        lent = struct_over(pending.tensor)
        with refused(BufferError, word):
            from_dlpack(with_table(lent, stream))
        assert lent.released == 1


def test_the_error_of_a_tables_stream_arrives(pending: Pending) -> None:
    lent = struct_over(pending.tensor)
    given = with_table(lent, 0)
    broken = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.c_void_p)(
        lambda kind, index, out: -1
    )
    table_of(type(given)).stream = ctypes.cast(broken, ctypes.c_void_p)
    with refused(BufferError, "no reason"):
        from_dlpack(given)
    assert lent.released == 1


@needs_emulator
@pytest.mark.parametrize("call", ["cudaEventRecordWithFlags", "cudaStreamWaitEvent"])
def test_an_event_that_fails_gives_the_struct_back(pending: Pending, call: str) -> None:
    reader = torch.cuda.Stream(DEVICE)
    lent = struct_over(pending.tensor)
    names = {c.name for c in emulator.trace()}
    if call not in names | {"cudaStreamWaitEvent"}:
        call = "cudaEventRecord"
    emulator.fail(call)
    with torch.cuda.stream(reader), pytest.raises(RuntimeError):
        from_dlpack(with_table(lent, pending.stream))
    emulator.reset()
    assert lent.released == 1


def test_strided_memory_is_gathered_on_its_device() -> None:
    """On the emulator kernels compute nothing, so only where the copy lies is looked at."""
    tensor = torch.ones(4, 6, device=DEVICE).t()
    with refused(ValueError, "contiguous"):
        from_dlpack(tensor, copy=False)
    for given in (tensor, Producer(struct_over(tensor).capsule(), (2, 0))):
        value = from_dlpack(given)
        assert (value.shape(), value.device) == ([6, 4], torch.device(DEVICE))
        assert value.data_ptr() != tensor.data_ptr()


@pytest.mark.parametrize("device", [(2, 2**31 - 1), (2, 100), (2, -1), (10, 0)], ids=str)
def test_a_device_that_is_not_there_is_refused(device: tuple[int, int]) -> None:
    lent = Lent(np.ones(2), device=device)
    for given in (lent.capsule(), Producer(lent.capsule(), device)):
        with refused(ValueError):
            from_dlpack(given)
    assert lent.released == 0
    lent.forget()


def test_stock_values_are_of_the_device_that_they_say(two_devices: None) -> None:
    for index in range(2):
        pending = Pending(torch.cuda.Stream(f"cuda:{index}"))
        with torch.cuda.stream(pending.stream):
            stock = to_ortvalue(pending.tensor).to_onnxruntime()
            assert (stock.device_name(), stock.__dlpack_device__()) == ("cuda", (2, index))
            value = OrtValue(stock)
        assert (value.device, value.data_ptr()) == (
            torch.device("cuda", index),
            pending.tensor.data_ptr(),
        )
        with torch.cuda.stream(pending.stream):
            tensor = from_ortvalue(stock)
        assert pending.read(tensor, pending.stream)


def test_a_stock_hip_value_is_not_taken_for_cudas() -> None:
    lent = Lent(np.ones(2, np.float32), versioned=False, device=(10, 0))
    stock = onnxruntime.OrtValue.from_dlpack(lent.capsule())
    # DLPack's answer alone would be wrong.
    assert stock.__dlpack_device__() == (2, 0)
    for read in (OrtValue, from_ortvalue, from_dlpack, ortdl_torch.to_dlpack):
        with refused(ValueError, "hip:0", "built without"):
            read(stock)


# ---- to another device


def sources(elements: list[float]) -> dict[str, object]:
    tensor = torch.tensor(elements)
    lent = Lent(tensor.numpy())
    return {
        "tensor": tensor,
        "array": tensor.numpy(),
        "value": to_ortvalue(tensor),
        "capsule": ortdl_torch.to_dlpack(to_ortvalue(tensor)),
        "producer": Producer(lent.capsule()),
    }


ELEMENTS = [float(i) for i in range(64)]


@pytest.mark.parametrize("name", sources([0.0]))
@pytest.mark.parametrize("device", ["cuda:0", (2, 0), torch.device("cuda", 0), "cuda"], ids=str)
def test_from_the_cpu_to_a_device(name: str, device: object) -> None:
    source = sources(ELEMENTS)[name]
    with refused(ValueError, "copy=None"):
        from_dlpack(source, device=device, copy=False)
    value = from_dlpack(source, device=device)
    assert value.device == torch.device(DEVICE)
    assert from_ortvalue(value).tolist() == ELEMENTS


def test_a_device_without_an_index_is_the_current_one(two_devices: None) -> None:
    with torch.cuda.device(1):
        value = from_dlpack(torch.ones(2), device="cuda")
    assert value.device == torch.device("cuda:1")


def lend(kind: str, pending: Pending) -> object:
    """The memory of `pending` in one of the forms that from_dlpack takes."""
    if kind == "tensor":
        return pending.tensor
    if kind == "foreign":
        return Foreign(pending)
    value = to_ortvalue(pending.tensor)
    return value if kind == "value" else ortdl_torch.to_dlpack(value)


@pytest.mark.parametrize("kind", ["tensor", "value", "foreign"])
def test_from_a_device_to_another(two_devices: None, kind: str) -> None:
    pending = Pending(torch.cuda.current_stream("cuda:0"))
    given = lend(kind, pending)
    with refused(ValueError, "copy=None", "cuda:1"):
        from_dlpack(given, device="cuda:1", copy=False)
    value = from_dlpack(given, device="cuda:1")
    assert value.device == torch.device("cuda:1")
    assert from_ortvalue(value).tolist() == pending.elements
    same = from_dlpack(given, device="cuda:0")
    assert same.data_ptr() == pending.tensor.data_ptr()


@pytest.mark.parametrize("kind", ["tensor", "value", "capsule", "foreign"])
def test_from_a_device_to_the_cpu(pending: Pending, kind: str) -> None:
    with torch.cuda.stream(pending.stream):
        given = lend(kind, pending)
        with refused(ValueError, "copy=None", "cpu"):
            from_dlpack(given, device="cpu", copy=False)
        value = from_dlpack(given, device="cpu")
    assert value.device == torch.device("cpu")
    assert value.numpy().tolist() == pending.elements


@pytest.mark.parametrize("error", [TypeError, BufferError])
def test_what_a_producer_cannot_move_is_moved_here(
    pending: Pending, error: type[Exception]
) -> None:
    class Immovable(Foreign):
        def __dlpack__(self, **options: Any) -> object:
            if "dl_device" in options:
                self.asked.append(options)
                raise error("no such move")
            return super().__dlpack__(**options)

    producer, reader = Immovable(pending), torch.cuda.Stream(DEVICE)
    with torch.cuda.stream(reader):
        value = from_dlpack(producer, device="cpu")
    assert [asked.get("dl_device") for asked in producer.asked] == [(1, 0), None]
    # The standard wants no stream where elements are to be on the CPU.
    assert [asked.get("stream") for asked in producer.asked] == [None, reader.cuda_stream]
    assert value.numpy().tolist() == pending.elements


def test_a_capsule_on_the_device_after_all_is_moved_here(pending: Pending) -> None:
    class Deaf(Foreign):
        def __dlpack__(self, **options: Any) -> object:
            options.pop("dl_device", None)
            return super().__dlpack__(**options)

    value = from_dlpack(Deaf(pending), device="cpu")
    assert value.device == torch.device("cpu")
    assert value.numpy().tolist() == pending.elements


@pytest.mark.parametrize("reader", ["default", "own"])
def test_what_moved_is_ordered_on_its_new_device(reader: str) -> None:
    stream = torch.cuda.Stream(DEVICE)
    with torch.cuda.stream(stream):
        value = from_dlpack(np.array(ELEMENTS), device=DEVICE)
    on_stream = torch.cuda.default_stream(DEVICE) if reader == "default" else stream
    with torch.cuda.stream(on_stream):
        tensor = from_ortvalue(value)
    assert on(on_stream, tensor) == ELEMENTS
