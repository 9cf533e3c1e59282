"""What tests ask of the CUDA emulator itself. On real GPUs there is none: see `needs_emulator`."""

import contextlib
import ctypes
import signal
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
import torch

# Preloaded, the emulator's functions are the process's own.
LIBRARY = ctypes.CDLL(None)
EMULATED = hasattr(LIBRARY, "cuda_emulator_reset")
needs_emulator = pytest.mark.skipif(not EMULATED, reason="real GPUs cannot be asked that")

if EMULATED:
    LIBRARY.cuda_emulator_trace.restype = ctypes.c_size_t
    LIBRARY.cuda_emulator_trace.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    LIBRARY.cuda_emulator_pending.restype = ctypes.c_long
    LIBRARY.cuda_emulator_pending.argtypes = [ctypes.c_void_p]
    LIBRARY.cuda_emulator_run.argtypes = [ctypes.c_void_p]

# Calls after which the host has waited for a device.
HOST_WAITS = {
    "cudaDeviceSynchronize",
    "cudaEventSynchronize",
    "cudaMemcpy",
    "cudaStreamSynchronize",
}
UNKNOWN_ERROR = 999


class Call(NamedTuple):
    """A call of CUDA's API, and the handle of the stream that it was given."""

    name: str
    stream: int


def reset() -> None:
    """Forget the trace and every failure that was asked for."""
    LIBRARY.cuda_emulator_reset()


def fail(name: str, nth: int = 1, error: int = UNKNOWN_ERROR) -> None:
    """Let the `nth` next call of `name` fail with `error`."""
    LIBRARY.cuda_emulator_fail(name.encode(), nth, error)


def trace() -> list[Call]:
    """Every call since the last reset; the fixture `sane` resets before each test."""
    size = LIBRARY.cuda_emulator_trace(None, 0)
    text = ctypes.create_string_buffer(size)
    LIBRARY.cuda_emulator_trace(text, size)
    fields = (line.split() for line in text.value.decode().splitlines())
    return [Call(name, int(stream)) for name, stream in fields]


def host_waits() -> list[str]:
    """The calls since the last reset in which the host waited for a device."""
    return [call.name for call in trace() if call.name in HOST_WAITS]


def pending(stream: torch.cuda.Stream) -> int:
    """How much work is queued on `stream`."""
    with torch.cuda.device(stream.device):
        return int(LIBRARY.cuda_emulator_pending(stream.cuda_stream))


def advance(stream: torch.cuda.Stream) -> None:
    """Let the device do what is queued on `stream`, as it might at any time, waited for or not."""
    with torch.cuda.device(stream.device):
        LIBRARY.cuda_emulator_run(stream.cuda_stream)


def bytes_now(tensor: torch.Tensor) -> bytes:
    """The bytes of a contiguous CUDA tensor as they are at this moment: nothing runs for it."""
    assert tensor.is_contiguous()
    return ctypes.string_at(tensor.data_ptr(), tensor.nbytes)


@contextlib.contextmanager
def stalled(stream: torch.cuda.Stream) -> Iterator[Callable[[], None]]:
    """Whoever waits for `stream` stays in a C function until what this yields is called.

    With the GIL held that would be for ever, so a signal lets a waiting main thread go after ten
    seconds.
    """
    semaphore = ctypes.create_string_buffer(64)
    assert LIBRARY.sem_init(semaphore, 0, 0) == 0
    wait = ctypes.cast(LIBRARY.sem_wait, ctypes.c_void_p)
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    with torch.cuda.device(stream.device):
        handle = ctypes.c_void_p(stream.cuda_stream)
        assert LIBRARY.cudaLaunchHostFunc(handle, wait, semaphore) == 0
    signal.setitimer(signal.ITIMER_REAL, 10)
    try:
        yield lambda: LIBRARY.sem_post(semaphore)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        LIBRARY.sem_post(semaphore)
        stream.synchronize()
        signal.signal(signal.SIGALRM, before)
