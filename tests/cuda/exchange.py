"""What the tests of the exchange share: elements that are on their way, and producers of them."""

import ctypes
import itertools
from typing import Any

import emulator
import torch
from dlpack_structs import Lent, type_with_table

COUNT = 64
# No two tensors of a test run hold the same elements, so stale ones never look right.
_numbers = itertools.count(1)


def state() -> tuple[int, list[int]]:
    """The current device, and the handle of each device's current stream."""
    handles = [torch.cuda.current_stream(i).cuda_stream for i in range(torch.cuda.device_count())]
    return torch.cuda.current_device(), handles


class Pending:
    """A tensor whose elements arrive on `stream` later: a copy from pinned memory is queued.

    Args:
        stream: where the elements are made, on any device.
    """

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self.stream = stream
        first = next(_numbers) * COUNT
        self.elements = [float(first + i) for i in range(COUNT)]
        self._source = torch.tensor(self.elements).pin_memory()
        with torch.cuda.stream(stream):
            self.tensor = torch.empty(COUNT, device=stream.device)
            self.tensor.copy_(self._source, non_blocking=True)

    def read(self, tensor: torch.Tensor, stream: torch.cuda.Stream) -> bool:
        """Whether a reader on `stream`, who waits for nothing else, sees the elements."""
        return on(stream, tensor) == self.elements


def on(stream: torch.cuda.Stream, tensor: torch.Tensor) -> list[float]:
    """The elements as work on `stream` finds them."""
    with torch.cuda.stream(stream):
        return tensor.cpu().tolist()


def taken(capsule: object) -> torch.Tensor:
    """A tensor of a capsule; PyTorch orders nothing for one."""
    return torch.utils.dlpack.from_dlpack(capsule)


class Capture:
    """Captures what the block does on `stream`, and shows that nothing spoiled the graph.

    Args:
        device: whose stream it captures.
    """

    def __init__(self, device: str = "cuda:0") -> None:
        self.stream = torch.cuda.Stream(device)
        self.graph = torch.cuda.CUDAGraph()
        self._context = torch.cuda.graph(self.graph, stream=self.stream)
        self._source = torch.arange(64.0).to(device)
        self._copy = torch.zeros(64).to(device)
        torch.cuda.synchronize()

    def __enter__(self) -> "Capture":
        self._context.__enter__()
        self._copy.copy_(self._source)
        if emulator.EMULATED:
            emulator.reset()
        return self

    def __exit__(self, *raised: Any) -> None:
        if emulator.EMULATED:
            assert emulator.host_waits() == []
        self._context.__exit__(*raised)
        if raised[0] is None:
            assert self._copy.tolist() == [0.0] * 64
            self.graph.replay()
            assert self._copy.tolist() == list(range(64))


class Foreign:
    """An object of the protocol over pending elements that orders its own stream as it is asked to.

    Attributes:
        asked: the keywords of each call.
        devices: the device that was current in each call.
    """

    def __init__(self, pending: Pending) -> None:
        self.pending = pending
        self.asked: list[dict[str, Any]] = []
        self.devices: list[int] = []

    def __dlpack__(self, **options: Any) -> object:
        self.asked.append(options)
        self.devices.append(torch.cuda.current_device())
        with torch.cuda.stream(self.pending.stream):
            return self.pending.tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.pending.stream.device_index


def struct_over(tensor: torch.Tensor, **fields: Any) -> Lent:
    """A float32 struct over a CUDA tensor's memory, which the caller keeps."""
    fields = {"device": (2, tensor.get_device()), "data": tensor.data_ptr(), **fields}
    return Lent(None, shape=tuple(tensor.shape), strides=tensor.stride(), code=2, bits=32, **fields)


def with_table(
    lent: Lent, stream: torch.cuda.Stream | int | None, seen: list[Any] | None = None
) -> object:
    """An object whose type's table lends `lent` and names `stream`; None is no such function."""

    def lend(_: object, out: Any) -> int:
        out[0] = lent.address
        return 0

    def work_stream(kind: int, index: int, out: Any) -> int:
        if seen is not None:
            seen.append((kind, index, torch.cuda.current_device()))
        handle = stream if isinstance(stream, int) else stream.cuda_stream
        out[0] = ctypes.c_void_p(handle)
        return 0

    cls, _ = type_with_table(lend, stream=None if stream is None else work_stream)
    return cls()
