"""The libraries that exchange memory with us, each behind the same few functions.

They are imported by `load`, as late as can be: some are large, and start threads.
"""

import ctypes
import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import torch

from ortdl_torch import OrtValue, to_ortvalue


@dataclass(frozen=True)
class Kind:
    """An element type: NumPy's or ml_dtypes' name, DLPack's code and bits, ONNX's number."""

    name: str
    code: int
    bits: int
    number: int

    @property
    def numpy(self) -> np.dtype:
        return np.dtype(getattr(ml_dtypes, self.name, self.name))

    @property
    def torch(self) -> torch.dtype:
        return getattr(torch, self.name)

    def bytes(self, shape: tuple[int, ...]) -> int:
        return (int(np.prod(shape, dtype=int)) * self.bits + 7) // 8

    def __str__(self) -> str:
        return self.name


KINDS = [
    Kind("bool", 6, 8, 9),
    Kind("uint8", 1, 8, 2),
    Kind("uint16", 1, 16, 4),
    Kind("uint32", 1, 32, 12),
    Kind("uint64", 1, 64, 13),
    Kind("int8", 0, 8, 3),
    Kind("int16", 0, 16, 5),
    Kind("int32", 0, 32, 6),
    Kind("int64", 0, 64, 7),
    Kind("float16", 2, 16, 10),
    Kind("float32", 2, 32, 1),
    Kind("float64", 2, 64, 11),
    Kind("bfloat16", 4, 16, 16),
    Kind("float8_e4m3fn", 10, 8, 17),
    Kind("float8_e4m3fnuz", 11, 8, 18),
    Kind("float8_e5m2", 12, 8, 19),
    Kind("float8_e5m2fnuz", 13, 8, 20),
    Kind("float8_e8m0fnu", 14, 8, 24),
    Kind("int4", 0, 4, 22),
    Kind("uint4", 1, 4, 21),
    Kind("int2", 0, 2, 26),
    Kind("uint2", 1, 2, 25),
    Kind("float4_e2m1fn", 17, 4, 23),
]
PLAIN = [kind for kind in KINDS if hasattr(np, kind.name)]
WHOLE = [kind for kind in KINDS if kind.bits >= 8]
FLOAT32 = next(kind for kind in KINDS if kind.name == "float32")


class Memory:
    """Bytes with a pattern in them, 64-aligned as JAX wants it, whose end can be seen.

    Arrays and values are made over `bytes`; `alive()` is true while any of them is.
    """

    def __init__(self, kind: Kind, shape: tuple[int, ...], offset: int = 0) -> None:
        size = kind.bytes(shape)
        root = np.arange(offset + size + 64, dtype=np.uint8)
        start = -root.ctypes.data % 64
        self.kind, self.shape, self.offset = kind, shape, offset
        self.bytes = root[start : start + offset + size]
        if kind.name == "bool":
            self.bytes %= 2
        self.pointer = self.bytes.ctypes.data + offset
        self.nbytes = size
        last = int(np.prod(shape, dtype=int)) * kind.bits % 8
        # Which bits of the last byte are elements.
        self._mask = np.full(size, 255, np.uint8)
        self._mask[-1:] = 255 if last == 0 else 2**last - 1
        self._content = self.bytes[offset:] & self._mask
        self._root = weakref.ref(root)

    def alive(self) -> bool:
        return self._root() is not None

    def release(self) -> None:
        """Leave the bytes to what was made of them."""
        del self.bytes

    def same(self, found: np.ndarray) -> bool:
        """True if the bytes `found` have the same elements."""
        return np.array_equal(found & self._mask, self._content)

    @property
    def array(self) -> np.ndarray:
        return self.bytes[self.offset :].view(self.kind.numpy).reshape(self.shape)

    @property
    def tensor(self) -> torch.Tensor:
        return torch.from_numpy(self.bytes)[self.offset :].view(self.kind.torch).reshape(self.shape)

    @property
    def value(self) -> OrtValue:
        if self.kind.bits >= 8:
            return to_ortvalue(self.tensor)
        memory = torch.from_numpy(self.bytes)[self.offset :]
        return OrtValue.from_packed(memory, self.kind.number, self.shape)


class Peer(ABC):
    """A library: `make` is its export, `take` its import; neither copies."""

    gives: Sequence[Kind] = KINDS
    takes: Sequence[Kind] = KINDS
    views = True  # it has arrays that begin inside of their memory

    def load(self) -> None:
        """Import the library."""
        return

    @abstractmethod
    def make(self, memory: Memory) -> Any:
        """An array of the library's over `memory`."""

    @abstractmethod
    def take(self, producer: Any) -> Any:
        """The library's array over the memory of any producer."""

    @abstractmethod
    def describe(self, array: Any) -> tuple[int, tuple[int, ...], str]:
        """Where the array's first element is, its shape, and the name of its element type."""

    def has(self, array: Any, memory: Memory) -> bool:
        """True if the array has the elements of `memory`."""
        found = ctypes.string_at(self.describe(array)[0], memory.nbytes)
        return memory.same(np.frombuffer(found, np.uint8))


class NumPy(Peer):
    gives = takes = PLAIN

    def make(self, memory: Memory) -> Any:
        return memory.array

    def take(self, producer: Any) -> Any:
        return np.from_dlpack(producer, copy=False)

    def describe(self, array: Any) -> tuple[int, tuple[int, ...], str]:
        return array.ctypes.data, array.shape, array.dtype.name


class Torch(Peer):
    gives = takes = WHOLE

    def make(self, memory: Memory) -> Any:
        return memory.tensor

    def take(self, producer: Any) -> Any:
        return torch.from_dlpack(producer, copy=False)

    def describe(self, array: Any) -> tuple[int, tuple[int, ...], str]:
        return array.data_ptr(), tuple(array.shape), str(array.dtype).removeprefix("torch.")


class Jax(Peer):
    # It gives float4, but takes none: its CPU arrays want another layout than it gives.
    gives = (*WHOLE, KINDS[-1])
    takes = WHOLE
    views = False

    def load(self) -> None:
        import jax

        jax.config.update("jax_enable_x64", True)
        self.jax = jax

    def make(self, memory: Memory) -> Any:
        if memory.kind.bits >= 8:
            return self.jax.device_put(memory.array)
        fields = np.stack([memory.bytes & 15, memory.bytes >> 4], -1).reshape(-1)
        count = int(np.prod(memory.shape, dtype=int))
        return self.jax.numpy.asarray(fields[:count].view(memory.kind.numpy).reshape(memory.shape))

    def take(self, producer: Any) -> Any:
        return self.jax.dlpack.from_dlpack(producer, copy=False)

    def describe(self, array: Any) -> tuple[int, tuple[int, ...], str]:
        return array.unsafe_buffer_pointer(), array.shape, array.dtype.name


class ArrayApiStrict(Peer):
    gives = takes = tuple(kind for kind in PLAIN if kind.name != "float16")

    def load(self) -> None:
        import array_api_strict

        self.xp = array_api_strict

    def make(self, memory: Memory) -> Any:
        return self.xp.from_dlpack(memory.array, copy=False)

    def take(self, producer: Any) -> Any:
        return self.xp.from_dlpack(producer, copy=False)

    def describe(self, array: Any) -> tuple[int, tuple[int, ...], str]:
        return np.from_dlpack(array).ctypes.data, array.shape, str(array.dtype).rsplit(".", 1)[-1]


class Nanobind(Peer):
    def load(self) -> None:
        import nanobind_build

        self.module = nanobind_build.load()

    def make(self, memory: Memory) -> Any:
        kind = memory.kind
        return self.module.make(memory.bytes, kind.code, kind.bits, memory.shape, memory.offset)

    def take(self, producer: Any) -> Any:
        return self.module.Taken(producer)

    def describe(self, array: Any) -> tuple[int, tuple[int, ...], str]:
        taken = array if hasattr(array, "pointer") else self.take(array)
        names = {(kind.code, kind.bits): kind.name for kind in KINDS}
        return taken.pointer, tuple(taken.shape), names[tuple(taken.dtype)]


class TvmFfi(Peer):
    def load(self) -> None:
        import tvm_ffi

        self.tvm_ffi = tvm_ffi

    def make(self, memory: Memory) -> Any:
        # It makes no arrays of its own from Python.
        return self.tvm_ffi.from_dlpack(named("nanobind").make(memory))

    def take(self, producer: Any) -> Any:
        return self.tvm_ffi.from_dlpack(producer)

    def describe(self, array: Any) -> tuple[int, tuple[int, ...], str]:
        return array.data_ptr(), tuple(array.shape), str(array.dtype)


PEERS: dict[str, type[Peer]] = {
    "numpy": NumPy,
    "torch": Torch,
    "jax": Jax,
    "array_api_strict": ArrayApiStrict,
    "nanobind": Nanobind,
    "tvm_ffi": TvmFfi,
}


@cache
def named(name: str) -> Peer:
    """The peer of that name."""
    return PEERS[name]()
