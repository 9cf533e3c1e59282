"""What the exchange does about devices, as far as a PyTorch without accelerators can show it.

Producers here claim to be on CUDA or ROCm devices with what is memory of the host; tests/cuda has
the same on CUDA devices, emulated or real.
"""

import contextlib
import ctypes
import gc
import pickle
import sys
import threading
import weakref
from collections.abc import Callable, Iterator

import numpy as np
import onnxruntime
import pytest
import torch
from dlpack_structs import (
    CPU,
    STREAM,
    Lent,
    Producer,
    name_of,
    table_of,
    type_with_table,
)
from support import needs_onnxruntime, refused

import ortdl_torch
from ortdl_torch import OrtValue, from_dlpack, from_ortvalue, to_ortvalue

ACCELERATORS = [(2, 0), (2, 3), (10, 0), (10, 1), (13, 0)]
on_each = pytest.mark.parametrize("device", ACCELERATORS, ids=str)
without_cuda = pytest.mark.skipif(
    torch.backends.cuda.is_built(), reason="this PyTorch has CUDA or ROCm: see tests/cuda"
)


def lent_on(device: tuple[int, int]) -> Lent:
    return Lent(np.arange(3.0), device=device)


@without_cuda
@on_each
@pytest.mark.parametrize("copy", [None, False, True])
def test_memory_of_an_accelerator_that_pytorch_lacks_is_refused(
    device: tuple[int, int], copy: bool | None
) -> None:
    lent = lent_on(device)
    capsule = lent.capsule()
    for given in (capsule, Producer(capsule, device)):
        with refused(ValueError, "built without"):
            from_dlpack(given, copy=copy)
    assert (name_of(capsule), lent.released) == (b"dltensor_versioned", 0)
    lent.forget()


@without_cuda
@on_each
def test_its_producer_is_asked_for_no_stream_that_pytorch_cannot_name(
    device: tuple[int, int],
) -> None:
    lent = lent_on(device)
    producer = Producer(lent.capsule(), device)
    with refused(ValueError, "built without"):
        from_dlpack(producer)
    assert ["stream" in asked for asked in producer.asked] == [False]
    lent.forget()


@without_cuda
@on_each
def test_a_table_that_gives_such_memory_gets_it_back(device: tuple[int, int]) -> None:
    lent = lent_on(device)

    def lend(_: object, out: object) -> int:
        out[0] = lent.address
        return 0

    cls, _ = type_with_table(lend)
    with refused(ValueError, "built without"):
        from_dlpack(cls())
    assert lent.released == 1


@on_each
def test_device_that_no_pytorch_has_is_named(device: tuple[int, int]) -> None:
    other = (device[0] + 100, device[1])
    lent = lent_on(other)
    with refused(ValueError, str(other[0])):
        from_dlpack(Producer(lent.capsule(), other))
    assert lent.released == 0
    lent.forget()


@pytest.mark.parametrize("device", [(8, 0), (14, 1), (13, 0), (2, 0)], ids=str)
def test_a_producer_elsewhere_is_asked_to_move_the_elements(device: tuple[int, int]) -> None:
    lent = Lent(np.arange(3.0))
    producer = Producer(lent.capsule(), device)
    value = from_dlpack(producer, device="cpu")
    assert producer.asked[0]["dl_device"] == CPU
    assert value.device == torch.device("cpu")
    assert from_ortvalue(value).tolist() == [0, 1, 2]
    del value
    assert lent.released == 1


@pytest.mark.parametrize("kind", [TypeError, BufferError, ValueError, RuntimeError])
def test_what_it_raises_arrives_where_nobody_else_can_move_them(kind: type[Exception]) -> None:
    raised = kind("no such move")

    def refuse() -> object:
        raise raised

    producer = Producer(refuse, (8, 0))
    with refused(kind, "no such move") as caught:
        del caught
        from_dlpack(producer, device="cpu")
    assert len(producer.asked) == 1


def test_a_producer_elsewhere_is_not_asked_to_move_without_a_copy() -> None:
    producer = Producer(None, (8, 0))
    with refused(ValueError, "copy=None", "cpu"):
        from_dlpack(producer, device="cpu", copy=False)
    assert producer.asked == []


@pytest.mark.parametrize("kind", [3, 11])
def test_pinned_memory_is_the_cpus_and_not_moved(kind: int) -> None:
    a = np.arange(3.0)
    lent = Lent(a, device=(kind, 0))
    producer = Producer(lent.capsule(), (kind, 0))
    value = from_dlpack(producer, device="cpu", copy=False)
    assert value.data_ptr() == a.ctypes.data
    assert not producer.asked[0].keys() & {"dl_device", "stream"}
    del value
    assert lent.released == 1


def test_producers_on_the_cpu_are_asked_for_no_stream() -> None:
    asked: list[dict[str, object]] = []

    class Old:
        def __dlpack__(self, **options: object) -> object:
            asked.append(options)
            if options:
                raise TypeError("no such keyword")
            return np.arange(3.0).__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return CPU

    assert from_dlpack(Old()).numpy().tolist() == [0, 1, 2]
    assert [sorted(options) for options in asked] == [["max_version"], []]


@pytest.mark.parametrize(
    "device",
    ["cuda", "cuda:0", "hip:0", torch.device("cuda", 1), (2, 0), (10, 0)],
    ids=str,
)
@without_cuda
def test_no_value_is_made_on_a_device_that_pytorch_lacks(
    device: object, tensor: torch.Tensor
) -> None:
    sources = (
        tensor,
        tensor.numpy(),
        to_ortvalue(tensor),
        ortdl_torch.to_dlpack(to_ortvalue(tensor)),
    )
    for source in sources:
        with refused(ValueError, "built without"):
            from_dlpack(source, device=device)


@pytest.mark.parametrize("device", ["meta", "mps", "xpu:0", (1, 3), (3, 0), (8, 0), (2, 2**40)])
def test_no_value_is_made_where_none_can_be(device: object, tensor: torch.Tensor) -> None:
    with refused(ValueError, "cpu"):
        from_dlpack(tensor, device=device)


# What onnxruntime calls a device, and how DLPack names it.
STOCK = {(2, 0): "cuda", (2, 3): "cuda", (10, 0): "hip", (10, 2): "hip"}


@pytest.mark.parametrize("device", STOCK, ids=str)
@without_cuda
@needs_onnxruntime("1.26", "OrtValue.from_dlpack")
def test_stock_values_of_accelerators_are_told_apart_and_refused(device: tuple[int, int]) -> None:
    lent = Lent(np.arange(3, dtype=np.float32), versioned=False, device=device)
    stock = onnxruntime.OrtValue.from_dlpack(lent.capsule())
    # Its own export cannot tell them apart.
    assert (stock.device_name(), stock.__dlpack_device__()) == (STOCK[device], (2, device[1]))
    for read in (from_ortvalue, OrtValue, from_dlpack, ortdl_torch.to_dlpack):
        with refused(ValueError, f"{STOCK[device]}:{device[1]}", "built without"):
            read(stock)
    del stock
    assert lent.released == 1


@pytest.mark.parametrize("device", [(1, 0), (3, 0), (11, 0)], ids=str)
def test_host_memory_has_no_stream(device: tuple[int, int]) -> None:
    out = ctypes.c_void_p(5)
    assert STREAM(table_of(OrtValue).stream)(*device, ctypes.byref(out)) == 0
    assert out.value is None


@pytest.mark.parametrize("device", [(2, 200), (8, 0), (99, 1), (1, 1)], ids=str)
def test_a_device_that_is_not_there_has_no_stream(device: tuple[int, int]) -> None:
    out = ctypes.c_void_p()
    with refused(ValueError):
        STREAM(table_of(OrtValue).stream)(*device, ctypes.byref(out))


def test_values_from_arrays_and_shapes_take_a_device(array: np.ndarray) -> None:
    value = OrtValue.ortvalue_from_numpy(array, "CPU", 0)
    assert value.data_ptr() == array.ctypes.data
    made = OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32, "cpu", 0)
    assert (made.shape(), made.device_name()) == ([2, 3], "cpu")
    packed = OrtValue.ortvalue_from_shape_and_type([3], 22, device_type="cpu")
    assert (packed.shape(), packed.device) == ([3], torch.device("cpu"))


@pytest.mark.parametrize("device", [("gpu", 0), ("cpu", 1), ("cuda", -1), ("", 0), ("cuda", 200)])
def test_values_from_arrays_and_shapes_name_a_device_that_is_none(
    device: tuple[str, int], array: np.ndarray
) -> None:
    with refused(ValueError):
        OrtValue.ortvalue_from_numpy(array, *device)
    with refused(ValueError):
        OrtValue.ortvalue_from_shape_and_type([2], np.float32, *device)


def test_array_that_cannot_be_shared_is_told_how_it_could() -> None:
    with refused(ValueError, "contiguous", "ascontiguousarray"):
        OrtValue.ortvalue_from_numpy(np.arange(6.0)[::2])
    misaligned = np.zeros(17, np.uint8)[1:].view(np.float64)
    with refused(ValueError, "aligned", "copy()"):
        OrtValue.ortvalue_from_numpy(misaligned)


def test_packed_bytes_that_cannot_be_shared_are_told_how_they_could() -> None:
    memory = torch.zeros(8, dtype=torch.uint8)[::2]
    with pytest.raises(ValueError, match="contiguous") as caught:
        OrtValue.from_packed(memory, 22, [8])
    assert "copy=" not in str(caught.value)


@pytest.mark.parametrize("copy", [None, True])
def test_export_to_the_cpu_from_the_cpu_moves_nothing(copy: bool | None) -> None:
    value = to_ortvalue(torch.arange(3.0))
    again = from_dlpack(value.__dlpack__(dl_device=CPU, copy=copy, max_version=(1, 0)))
    assert (again.data_ptr() == value.data_ptr()) is (copy is None)


def test_values_can_be_referenced_weakly() -> None:
    value = to_ortvalue(torch.ones(2))
    gone: list[object] = []
    reference = weakref.ref(value, gone.append)
    assert reference() is value
    table = weakref.WeakKeyDictionary({value: 1})
    del value
    gc.collect()
    assert (reference(), gone, len(table)) == (None, [reference], 0)


def test_values_say_that_they_cannot_be_pickled() -> None:
    with refused(TypeError, "pickle"):
        pickle.dumps(to_ortvalue(torch.ones(2)))


@contextlib.contextmanager
def marks_without_the_gil() -> Iterator[list[int]]:
    """A list that grows while, and only while, this thread lets go of the GIL by itself."""
    marks: list[int] = []
    stop = threading.Event()

    def mark() -> None:
        while not stop.is_set():
            marks.append(1)
            stop.wait(1e-5)

    interval = sys.getswitchinterval()
    thread = threading.Thread(target=mark)
    thread.start()
    sys.setswitchinterval(1000)
    try:
        yield marks
    finally:
        stop.set()
        sys.setswitchinterval(interval)
        thread.join()


BIG = 1 << 22
COPIES: dict[str, Callable[[], Callable[[], object]]] = {
    "import": lambda: (lambda a: lambda: from_dlpack(a, copy=True))(np.ones(BIG)),
    "import of strided memory": lambda: (lambda a: lambda: from_dlpack(a))(np.ones(2 * BIG)[::2]),
    "import of a value": lambda: (lambda v: lambda: from_dlpack(v, copy=True))(
        to_ortvalue(torch.ones(BIG))
    ),
    "import of a tensor": lambda: (lambda t: lambda: from_dlpack(t, copy=True))(torch.ones(BIG)),
    "export": lambda: (lambda v: lambda: v.__dlpack__(copy=True))(to_ortvalue(torch.ones(BIG))),
    "update": lambda: (lambda v, t: lambda: v.update_inplace(t))(
        to_ortvalue(torch.ones(BIG)), torch.zeros(BIG)
    ),
    "update from a value": lambda: (lambda v, t: lambda: v.update_inplace(t))(
        to_ortvalue(torch.ones(BIG)), to_ortvalue(torch.zeros(BIG))
    ),
}


@pytest.mark.parametrize("name", COPIES)
def test_other_threads_run_while_elements_are_copied(name: str) -> None:
    copy = COPIES[name]()
    with marks_without_the_gil() as marks:
        for _ in range(500):
            before = len(marks)
            made = copy()
            after = len(marks)
            del made
            if after > before:
                return
    pytest.fail("no other thread ran in 500 copies")
