"""DLPack's C structs for tests: capsules and function tables whose every field a test can choose.

The layouts are those that dlpack.h 1.3 describes.
"""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

LEGACY, USED_LEGACY = b"dltensor", b"used_dltensor"
VERSIONED, USED_VERSIONED = b"dltensor_versioned", b"used_dltensor_versioned"
EXCHANGE = b"dlpack_exchange_api"
READ_ONLY, COPIED, PADDED = 1, 2, 4
CPU = (1, 0)

# ONNX's number of a type -> DLPack's code and bits, with lanes 1.
TYPES = {
    1: (2, 32),
    2: (1, 8),
    3: (0, 8),
    4: (1, 16),
    5: (0, 16),
    6: (0, 32),
    7: (0, 64),
    9: (6, 8),
    10: (2, 16),
    11: (2, 64),
    12: (1, 32),
    13: (1, 64),
    16: (4, 16),
    17: (10, 8),
    18: (11, 8),
    19: (12, 8),
    20: (13, 8),
    21: (1, 4),
    22: (0, 4),
    23: (17, 4),
    24: (14, 8),
    25: (1, 2),
    26: (0, 2),
}


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("index", ctypes.c_int32)]


class DataType(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    ]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("ndim", ctypes.c_int32),
        ("dtype", DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Version(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32)]


class Managed(ctypes.Structure):
    _fields_ = [
        ("tensor", Tensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


class ManagedVersioned(ctypes.Structure):
    _fields_ = [
        ("version", Version),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


OUT = ctypes.POINTER(ctypes.c_void_p)
SET_ERROR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
ALLOCATE = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.POINTER(Tensor), OUT, ctypes.c_void_p, SET_ERROR)
FROM_OBJECT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, OUT)
TO_OBJECT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, OUT)
BORROW = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Tensor))
STREAM = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int32, OUT)
DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class ExchangeTable(ctypes.Structure):
    _fields_ = [
        ("version", Version),
        ("previous", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("from_object", ctypes.c_void_p),
        ("to_object", ctypes.c_void_p),
        ("borrow", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
    ]


def _python(name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(ctypes.pythonapi, name)
    function.restype, function.argtypes = result, arguments
    return function


new_capsule = _python(
    "PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)
get_pointer = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
name_of = _python("PyCapsule_GetName", ctypes.c_char_p, ctypes.py_object)
rename = _python("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)


def struct_of(capsule: object) -> Managed | ManagedVersioned:
    """The struct in a capsule, whoever made it."""
    name = name_of(capsule)
    kind = ManagedVersioned if b"versioned" in name else Managed
    return kind.from_address(get_pointer(capsule, name))


def table_of(cls: type) -> ExchangeTable:
    """The function table of a type that has one."""
    return ExchangeTable.from_address(get_pointer(cls.__dlpack_c_exchange_api__, EXCHANGE))


# A struct, its arrays and its callbacks live until the deleter has run and returned.
_lent: dict[int, "Lent"] = {}


class Lent:
    """A struct over the bytes of `buffer`, lent to who takes it; counts the calls of its deleter.

    Args:
        buffer: what the struct points to, kept alive until the deleter ran; its own type, shape
            and strides are used where no field says otherwise. None is a null pointer.
        versioned: which of the two structs it is.
        deleter: False makes the struct's deleter null.
        fields: `shape`, `strides` (None: null), `ndim`, `data`, `byte_offset`, `code`, `bits`,
            `lanes`, `device`, `version`, `flags`.
    """

    def __init__(
        self,
        buffer: np.ndarray[Any, Any] | None,
        *,
        versioned: bool = True,
        deleter: bool = True,
        **fields: Any,
    ) -> None:
        self.buffer = buffer
        self.versioned = versioned
        self.released = 0
        self.struct = (ManagedVersioned if versioned else Managed)()
        self._arrays: list[Any] = []
        self._deleter = DELETER(self._delete)
        if deleter:
            self.struct.deleter = ctypes.cast(self._deleter, ctypes.c_void_p)
        self.address = ctypes.addressof(self.struct)
        for done in [address for address, lent in _lent.items() if lent.released]:
            del _lent[done]
        _lent[self.address] = self
        if versioned:
            self.struct.version = Version(*fields.pop("version", (1, 3)))
            self.struct.flags = fields.pop("flags", 0)
        self._fill(**fields)

    def _fill(self, **fields: Any) -> None:
        buffer = np.zeros(0, np.float32) if self.buffer is None else self.buffer
        letter = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}.get(buffer.dtype.kind, 1)
        shape = fields.get("shape", buffer.shape)
        own = None
        if "shape" not in fields and buffer.itemsize:
            own = [stride // buffer.itemsize for stride in buffer.strides]
        strides = fields.get("strides", own)
        tensor = self.struct.tensor
        tensor.data = fields.get("data", None if self.buffer is None else buffer.ctypes.data)
        tensor.device = Device(*fields.get("device", CPU))
        tensor.ndim = fields.get("ndim", 0 if shape is None else len(shape))
        tensor.dtype = DataType(
            fields.get("code", letter),
            fields.get("bits", buffer.itemsize * 8),
            fields.get("lanes", 1),
        )
        tensor.shape = self._array(shape)
        tensor.strides = self._array(strides)
        tensor.byte_offset = fields.get("byte_offset", 0)

    def _array(self, numbers: Sequence[int] | None) -> Any:
        if numbers is None:
            return None
        made = (ctypes.c_int64 * len(numbers))(*numbers)
        self._arrays.append(made)
        return ctypes.cast(made, ctypes.POINTER(ctypes.c_int64))

    def _delete(self, address: int) -> None:
        self.released += 1
        assert address == self.address

    def capsule(self) -> object:
        """A new capsule of the struct, without a destructor."""
        return new_capsule(self.address, VERSIONED if self.versioned else LEGACY, None)

    def forget(self) -> None:
        """Let go of a struct that nobody took."""
        _lent.pop(self.address, None)


class Producer:
    """An object of the protocol that hands out `capsule` and notes how it was asked."""

    def __init__(self, capsule: object, device: object = CPU) -> None:
        self._capsule, self._device = capsule, device
        self.asked: list[dict[str, Any]] = []

    def __dlpack__(self, **options: Any) -> object:
        self.asked.append(options)
        return self._capsule() if callable(self._capsule) else self._capsule

    def __dlpack_device__(self) -> object:
        return self._device


_tables: list[tuple[Any, ...]] = []


def type_with_table(
    from_object: Callable[[Any, Any], int] | int,
    version: tuple[int, int] = (1, 3),
    previous: int | None = None,
    name: bytes = EXCHANGE,
    stream: Callable[[int, int, Any], int] | None = None,
) -> tuple[type, int]:
    """A new type with a function table of its own, and the table's address."""
    table = ExchangeTable()
    table.version = Version(*version)
    table.previous = previous
    function = from_object if isinstance(from_object, int) else FROM_OBJECT(from_object)
    table.from_object = ctypes.cast(function, ctypes.c_void_p)
    work_stream = None if stream is None else STREAM(stream)
    if work_stream is not None:
        table.stream = ctypes.cast(work_stream, ctypes.c_void_p)
    # Consumers may keep the table of a type for as long as the process lives.
    _tables.append((table, function, work_stream))
    address = ctypes.addressof(table)
    made = type("Fake", (), {"__dlpack_c_exchange_api__": new_capsule(address, name, None)})
    return made, address
