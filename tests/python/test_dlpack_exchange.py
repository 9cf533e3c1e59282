"""DLPack's table of C functions on the type, called as C code calls it, and as a consumer of it."""

import ctypes

import numpy as np
import pytest
import torch
from dlpack_structs import (
    ALLOCATE,
    COPIED,
    FROM_OBJECT,
    READ_ONLY,
    SET_ERROR,
    STREAM,
    TO_OBJECT,
    TYPES,
    DataType,
    Device,
    Lent,
    ManagedVersioned,
    Tensor,
    name_of,
    new_capsule,
    table_of,
    type_with_table,
)
from support import eventually, live, refused

from ortdl_torch import OrtValue, from_dlpack, from_ortvalue, to_ortvalue

release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def export(obj: object, cls: type = OrtValue) -> ManagedVersioned:
    """What the type's table makes of `obj`."""
    out = ctypes.c_void_p()
    assert FROM_OBJECT(table_of(cls).from_object)(obj, ctypes.byref(out)) == 0
    return ManagedVersioned.from_address(out.value)


def give_back(managed: ManagedVersioned) -> None:
    release(managed.deleter)(ctypes.addressof(managed))


def take(address: int) -> object:
    """What our table makes of a struct: an object, with the reference that it hands over."""
    out = ctypes.c_void_p()
    assert TO_OBJECT(table_of(OrtValue).to_object)(address, ctypes.byref(out)) == 0
    made = ctypes.cast(out, ctypes.py_object).value
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(made))
    return made


def allocate(shape: tuple[int, ...], **fields: object) -> tuple[int, int | None, list[tuple]]:
    prototype = Tensor()
    prototype.device = Device(*fields.get("device", (1, 0)))
    prototype.ndim = fields.get("ndim", len(shape))
    prototype.dtype = DataType(*fields.get("dtype", (2, 32)), fields.get("lanes", 1))
    sizes = (ctypes.c_int64 * len(shape))(*shape)
    prototype.shape = ctypes.cast(sizes, ctypes.POINTER(ctypes.c_int64))
    # None of these fields count.
    prototype.data, prototype.byte_offset = 1, 2**63
    out, errors = ctypes.c_void_p(), []
    say = SET_ERROR(lambda context, kind, message: errors.append((context, kind, message)))
    status = ALLOCATE(table_of(OrtValue).allocate)(
        ctypes.byref(prototype), ctypes.byref(out), 77, say
    )
    return status, out.value, errors


def test_table_is_on_the_type() -> None:
    value = to_ortvalue(torch.ones(2))
    assert name_of(type(value).__dlpack_c_exchange_api__) == b"dlpack_exchange_api"
    table = table_of(type(value))
    assert (table.version.major, table.version.minor >= 3) == (1, True)
    assert all((table.allocate, table.from_object, table.to_object, table.stream))


def test_export(tensor: torch.Tensor) -> None:
    before = live()
    managed = export(to_ortvalue(tensor))
    assert (managed.version.major, managed.flags) == (1, 0)
    assert managed.tensor.data == tensor.data_ptr()
    assert managed.tensor.shape[:2] == [2, 3]
    assert live()["values"] == before["values"] + 1
    give_back(managed)
    assert live() == before


def test_export_of_a_read_only_value() -> None:
    managed = export(from_dlpack(Lent(np.ones(2), flags=READ_ONLY).capsule()))
    assert managed.flags == READ_ONLY
    give_back(managed)


def test_export_of_something_else_is_an_error() -> None:
    for wrong in (object(), None, 3, torch.ones(2)):
        with refused(TypeError, "OrtValue"):
            export(wrong)


def test_import() -> None:
    a = np.arange(3.0)
    lent = Lent(a)
    value = take(lent.address)
    assert type(value) is OrtValue
    assert (value.data_ptr(), lent.released) == (a.ctypes.data, 0)
    assert from_ortvalue(value).tolist() == [0, 1, 2]
    del value
    assert lent.released == 1


REFUSED = {
    "complex": (TypeError, {"code": 5, "bits": 64}),
    "device": (ValueError, {"device": (2, 0)}),
    "no shape": (ValueError, {"shape": None, "ndim": 2}),
    "newer": (BufferError, {"version": (2, 0)}),
    "flags": (BufferError, {"flags": 64}),
    "strided": (ValueError, {"shape": (2, 2), "strides": (1, 2)}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_import_that_fails_gives_the_stolen_struct_back(case: str) -> None:
    kind, fields = REFUSED[case]
    lent = Lent(np.arange(4.0), **fields)
    with refused(kind):
        take(lent.address)
    assert lent.released == 1


@pytest.mark.parametrize("number", TYPES)
@pytest.mark.parametrize("shape", [(), (3,), (0, 2), (2, 3)], ids=str)
def test_allocator(number: int, shape: tuple[int, ...]) -> None:
    status, address, errors = allocate(shape, dtype=TYPES[number])
    assert (status, errors) == (0, [])
    value = take(address)
    assert (value.element_type(), value.shape()) == (number, list(shape))
    value.packed().fill_(1)


@pytest.mark.parametrize(
    ("kind", "shape", "fields"),
    [
        (b"TypeError", (2,), {"dtype": (5, 64)}),
        (b"TypeError", (2,), {"dtype": (2, 33)}),
        (b"TypeError", (2,), {"lanes": 4}),
        (b"ValueError", (2,), {"device": (2, 0)}),
        (b"ValueError", (-2,), {}),
        (b"ValueError", (2**40, 2**40), {}),
        (b"ValueError", (2,), {"ndim": -1}),
        (b"ValueError", (2,), {"ndim": 2**30}),
    ],
)
def test_allocator_that_fails_says_so_once(
    kind: bytes, shape: tuple[int, ...], fields: dict[str, object]
) -> None:
    status, address, errors = allocate(shape, **fields)
    assert (status, address, len(errors)) == (-1, None, 1)
    assert errors[0][:2] == (77, kind)
    assert errors[0][2]


def test_cpu_has_no_stream() -> None:
    out = ctypes.c_void_p(5)
    assert STREAM(table_of(OrtValue).stream)(1, 0, ctypes.byref(out)) == 0
    assert out.value is None


class TensorSubclass(torch.Tensor):
    pass


def test_torch_by_its_table(tensor: torch.Tensor) -> None:
    given = tensor.as_subclass(TensorSubclass)
    value = from_dlpack(given, copy=False)
    assert value.data_ptr() == tensor.data_ptr()
    managed = export(given, TensorSubclass)
    again = take(ctypes.addressof(managed))
    assert again.data_ptr() == tensor.data_ptr()
    managed = export(value)
    out = ctypes.c_void_p()
    to_object = TO_OBJECT(table_of(torch.Tensor).to_object)
    assert to_object(ctypes.addressof(managed), ctypes.byref(out)) == 0
    made = ctypes.cast(out, ctypes.py_object).value
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(made))
    assert torch.equal(made, tensor)
    assert made.data_ptr() == tensor.data_ptr()


def lending(lent: Lent) -> object:
    """A function of a table that lends `lent` to whoever asks."""

    def from_object(_: object, out: object) -> int:
        out[0] = lent.address
        return 0

    return from_object


@pytest.mark.parametrize("copy", [None, False, True])
def test_producer_with_a_table(copy: bool | None) -> None:
    a = np.arange(3.0)
    lent = Lent(a)
    cls, _ = type_with_table(lending(lent))
    value = from_dlpack(cls(), copy=copy)
    assert (value.data_ptr() == a.ctypes.data) is (copy is not True)
    assert lent.released == (copy is True)
    assert from_ortvalue(value).tolist() == [0, 1, 2]
    del value
    assert lent.released == 1


def test_copy_of_a_producer_with_a_table() -> None:
    a = np.arange(3.0)
    cls, _ = type_with_table(lending(Lent(a, flags=COPIED)))
    assert from_dlpack(cls(), copy=True).data_ptr() == a.ctypes.data


def test_table_of_an_older_major_version_behind_a_newer_one() -> None:
    lent = Lent(np.arange(3.0))
    _, older = type_with_table(lending(lent))
    cls, _ = type_with_table(lambda obj, out: 1 / 0, version=(2, 0), previous=older)
    assert from_ortvalue(from_dlpack(cls())).tolist() == [0, 1, 2]


def test_table_that_cannot_be_used_leaves_the_protocol() -> None:
    for fields in ({"version": (2, 0)}, {"name": b"other"}):
        lent = Lent(np.arange(3.0))
        cls, _ = type_with_table(lambda obj, out: 1 / 0, **fields)
        cls.__dlpack__ = lambda self, lent=lent, **options: lent.capsule()
        cls.__dlpack_device__ = lambda self: (1, 0)
        assert from_dlpack(cls()).numpy().tolist() == [0, 1, 2]
        assert eventually(lambda lent=lent: lent.released == 1)


def test_error_of_a_table_arrives() -> None:
    cls = type("Fake", (), {"__dlpack_c_exchange_api__": OrtValue.__dlpack_c_exchange_api__})
    with refused(TypeError, "Fake"):
        from_dlpack(cls())


@pytest.mark.parametrize("case", [case for case in REFUSED if case != "newer"])
def test_hostile_struct_of_a_table_is_given_back(case: str) -> None:
    kind, fields = REFUSED[case]
    lent = Lent(np.arange(4.0), **fields)
    cls, _ = type_with_table(lending(lent))
    with refused(kind):
        from_dlpack(cls(), copy=False)
    assert lent.released == 1


def test_table_that_says_nothing() -> None:
    silent, _ = type_with_table(lambda obj, out: -1)
    with pytest.raises((SystemError, BufferError, RuntimeError)):
        from_dlpack(silent())


def test_table_only_on_the_instance_does_not_count() -> None:
    class Plain:
        pass

    made = Plain()
    made.__dlpack_c_exchange_api__ = new_capsule(1, b"dlpack_exchange_api", None)
    with refused(TypeError, "__dlpack__"):
        from_dlpack(made)


def test_newer_struct_of_a_table_is_given_back() -> None:
    lent = Lent(np.arange(4.0), version=(2, 0))
    cls, _ = type_with_table(lending(lent))
    with refused(BufferError, "2.0"):
        from_dlpack(cls())
    assert lent.released == 1


def test_allocator_out_of_memory_says_so() -> None:
    assert allocate((2**50,))[2][0][1] == b"MemoryError"
