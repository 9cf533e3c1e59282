"""DLPack capsules in and out: names, destructors, who owns the struct, and the older structs."""

import gc

import numpy as np
import pytest
import torch
from dlpack_structs import (
    COPIED,
    LEGACY,
    READ_ONLY,
    TYPES,
    USED_LEGACY,
    USED_VERSIONED,
    VERSIONED,
    Lent,
    name_of,
    new_capsule,
    rename,
    struct_of,
)
from support import KINDS, Kind, bits, eventually, live, patterns, refused

import ortdl_torch
from ortdl_torch import OrtValue, from_dlpack, from_ortvalue, to_dlpack, to_ortvalue

every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)
both_structs = pytest.mark.parametrize("versioned", [False, True], ids=["legacy", "versioned"])
VERSION = {False: None, True: (1, 0)}
NAME = {False: LEGACY, True: VERSIONED}
USED = {False: USED_LEGACY, True: USED_VERSIONED}
PACKED = [21, 22, 23, 25, 26]


def packed_value(number: int, shape: tuple[int, ...] = (3, 5)) -> OrtValue:
    count = (torch.Size(shape).numel() * TYPES[number][1] + 7) // 8
    return OrtValue.from_packed(torch.arange(count, dtype=torch.uint8), number, shape)


@every_kind
@both_structs
def test_struct_says_what_the_value_is(kind: Kind, versioned: bool) -> None:
    x = patterns(kind.dtype)[:4].reshape(2, 1, 2)
    capsule = to_dlpack(to_ortvalue(x), max_version=VERSION[versioned])
    assert name_of(capsule) == NAME[versioned]
    tensor = struct_of(capsule).tensor
    assert (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes) == (*TYPES[kind.number], 1)
    assert (tensor.device.type, tensor.device.index) == (1, 0)
    assert (tensor.ndim, tensor.shape[:3]) == (3, [2, 1, 2])
    assert tensor.strides[:1] == [2]
    assert tensor.strides[2] == 1
    assert tensor.data + tensor.byte_offset == x.data_ptr()
    if versioned:
        made = struct_of(capsule)
        assert (made.version.major, made.flags) == (1, 0)


@every_kind
@both_structs
def test_round_trip_shares_every_bit(kind: Kind, versioned: bool) -> None:
    x = patterns(kind.dtype)
    want = bits(x).clone()
    capsule = to_dlpack(to_ortvalue(x), max_version=VERSION[versioned])
    value = from_dlpack(capsule, copy=False)
    assert name_of(capsule) == USED[versioned]
    assert (value.element_type(), value.data_ptr()) == (kind.number, x.data_ptr())
    assert torch.equal(bits(from_ortvalue(value)), want)


@every_kind
@both_structs
def test_torch_reads_and_writes_the_same_structs(kind: Kind, versioned: bool) -> None:
    x = patterns(kind.dtype)
    y = torch.utils.dlpack.from_dlpack(to_dlpack(to_ortvalue(x), max_version=VERSION[versioned]))
    assert (y.dtype, y.data_ptr()) == (x.dtype, x.data_ptr())
    value = from_dlpack(x.__dlpack__(max_version=VERSION[versioned]), copy=False)
    assert (value.dtype, value.data_ptr()) == (x.dtype, x.data_ptr())


@pytest.mark.parametrize("number", PACKED)
@both_structs
def test_packed_types_keep_their_logical_shape(number: int, versioned: bool) -> None:
    value = packed_value(number)
    capsule = to_dlpack(value, max_version=VERSION[versioned])
    tensor = struct_of(capsule).tensor
    assert (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes) == (*TYPES[number], 1)
    assert (tensor.ndim, tensor.shape[:2], tensor.strides[:2]) == (2, [3, 5], [5, 1])
    again = from_dlpack(capsule)
    assert (again.element_type(), again.shape()) == (number, [3, 5])
    assert again.data_ptr() == value.data_ptr()
    assert torch.equal(again.packed(), value.packed())


def test_pairs_of_float4_come_from_torch() -> None:
    x = torch.arange(6, dtype=torch.uint8).reshape(2, 3).view(torch.float4_e2m1fn_x2)
    for source in (x, x.__dlpack__(), x.__dlpack__(max_version=(1, 0))):
        value = from_dlpack(source)
        assert (value.element_type(), value.shape()) == (23, [2, 6])
        assert value.data_ptr() == x.data_ptr()


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,), [2] * 6 + [1] * 58], ids=len)
@both_structs
def test_shapes(shape: tuple[int, ...], versioned: bool) -> None:
    x = torch.arange(float(torch.Size(shape).numel())).reshape(shape)
    value = from_dlpack(to_dlpack(to_ortvalue(x), max_version=VERSION[versioned]))
    assert value.shape() == list(shape)
    assert torch.equal(from_ortvalue(value), x)


@both_structs
def test_capsule_that_nobody_took_frees_its_struct(versioned: bool) -> None:
    before = live()
    capsule = to_dlpack(to_ortvalue(torch.ones(4)), max_version=VERSION[versioned])
    assert live()["values"] == before["values"] + 1
    del capsule
    assert live() == before


@both_structs
def test_each_export_has_a_capsule_of_its_own(versioned: bool) -> None:
    value = to_ortvalue(torch.ones(4))
    capsules = [to_dlpack(value, max_version=VERSION[versioned]) for _ in range(3)]
    del value
    first = from_dlpack(capsules.pop(0))
    assert len({id(c) for c in capsules}) == 2
    capsules.pop()
    assert from_ortvalue(from_dlpack(capsules[0])).tolist() == [1] * 4
    assert from_ortvalue(first).tolist() == [1] * 4


@both_structs
def test_second_use_is_refused(versioned: bool) -> None:
    lent = Lent(np.arange(4.0), versioned=versioned)
    capsule = lent.capsule()
    value = from_dlpack(capsule)
    with refused(ValueError, "used"):
        from_dlpack(capsule)
    assert lent.released == 0
    del value
    assert lent.released == 1
    with refused(ValueError, "used"):
        from_dlpack(capsule)


def test_capsule_that_another_consumer_took_is_refused() -> None:
    capsule = to_dlpack(to_ortvalue(torch.ones(4)))
    y = torch.utils.dlpack.from_dlpack(capsule)
    with refused(ValueError, "used"):
        from_dlpack(capsule)
    assert y.tolist() == [1] * 4


@pytest.mark.parametrize("name", [b"other", b"", b"DLTENSOR", b"dltensor_", None])
def test_capsule_of_another_kind_is_refused_and_kept(name: bytes | None) -> None:
    lent = Lent(np.arange(4.0))
    capsule = new_capsule(lent.address, name, None)
    with refused(TypeError, "capsule"):
        from_dlpack(capsule)
    assert name_of(capsule) == name
    assert lent.released == 0
    rename(capsule, VERSIONED)
    value = from_dlpack(capsule)
    assert from_ortvalue(value).tolist() == [0, 1, 2, 3]
    del value
    assert lent.released == 1


@both_structs
@pytest.mark.parametrize("copy", [False, None, True])
def test_deleter_runs_once(versioned: bool, copy: bool | None) -> None:
    a = np.arange(12.0).reshape(3, 4)
    lent = Lent(a, versioned=versioned)
    value = from_dlpack(lent.capsule(), copy=copy)
    assert lent.released == (copy is True)
    assert (value.data_ptr() == a.ctypes.data) is (copy is not True)
    y = from_ortvalue(value)
    del value
    assert y.tolist() == a.tolist()
    assert lent.released == (copy is True)
    del y
    gc.collect()
    assert eventually(lambda: lent.released == 1)


@both_structs
def test_null_deleter(versioned: bool) -> None:
    lent = Lent(np.arange(4.0), versioned=versioned, deleter=False)
    value = from_dlpack(lent.capsule())
    assert from_ortvalue(value).tolist() == [0, 1, 2, 3]
    del value
    assert from_dlpack(Lent(np.ones(2), deleter=False).capsule(), copy=True).shape() == [2]
    lent.forget()


def test_newer_major_version_is_given_back_unread() -> None:
    lent = Lent(np.ones(2), version=(2, 0), ndim=-5, code=99, flags=2**63, data=1)
    capsule = lent.capsule()
    with refused(BufferError, "2.0"):
        from_dlpack(capsule)
    assert (lent.released, name_of(capsule)) == (1, USED_VERSIONED)
    with refused(ValueError, "used"):
        from_dlpack(capsule)
    assert lent.released == 1
    nobody = Lent(np.ones(2), version=(7, 1), deleter=False)
    with refused(BufferError, "7.1"):
        from_dlpack(nobody.capsule())
    nobody.forget()


def test_newer_minor_version_is_read() -> None:
    lent = Lent(np.arange(3.0), version=(1, 99))
    assert from_ortvalue(from_dlpack(lent.capsule())).tolist() == [0, 1, 2]


def test_copy_of_a_producer_is_not_copied_again() -> None:
    a = np.arange(3.0)
    value = from_dlpack(Lent(a, flags=COPIED).capsule(), copy=True)
    assert value.data_ptr() == a.ctypes.data
    assert not value.read_only
    assert from_dlpack(Lent(a, flags=READ_ONLY).capsule()).read_only


def test_batch_releases_what_it_made() -> None:
    before = live()
    tensors = [torch.ones(3), torch.ones(3), torch.ones(4, 4).t(), torch.ones(3)]
    with refused(ValueError, "contiguous|stride"):
        ortdl_torch.to_ortvalues(tensors)
    assert live() == before
    values = [to_ortvalue(torch.ones(2)), packed_value(22), to_ortvalue(torch.ones(2))]
    with refused(TypeError, "int4"):
        ortdl_torch.from_ortvalues(values)
    assert from_ortvalue(values[2]).tolist() == [1, 1]


@pytest.mark.parametrize("wrong", [None, 3, "x", b"dltensor", [1.0], object(), {}, 1.5])
def test_what_is_no_producer_is_refused(wrong: object) -> None:
    with refused(TypeError, "__dlpack__"):
        from_dlpack(wrong)
    with refused(TypeError):
        OrtValue.from_dlpack(wrong)
    with refused(TypeError):
        to_dlpack(wrong)


def test_arguments_are_checked() -> None:
    capsule = to_dlpack(to_ortvalue(torch.ones(2)))
    for wrong in (0, 1, "yes", np.True_):
        with refused(TypeError, "copy"):
            from_dlpack(capsule, copy=wrong)
    for call in (
        lambda: from_dlpack(),
        lambda: from_dlpack(capsule, capsule),
        lambda: from_dlpack(capsule, other=1),
        lambda: to_dlpack(),
        lambda: to_dlpack(to_ortvalue(torch.ones(2)), stream=1),
        lambda: to_dlpack(to_ortvalue(torch.ones(2)), other=1),
    ):
        with refused(TypeError):
            call()
    assert name_of(capsule) == LEGACY
