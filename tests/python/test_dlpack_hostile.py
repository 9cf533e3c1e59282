"""Structs that make no sense: one clear error each, and the capsule is as good as before."""

import numpy as np
import pytest
from dlpack_structs import COPIED, PADDED, TYPES, VERSIONED, Lent, name_of
from support import eventually, refused

from ortdl_torch import from_dlpack, from_ortvalue

LEAST, MOST = -(2**63), 2**63 - 1


def named(kind: type[Exception], **cases: dict) -> dict[str, tuple[type[Exception], dict]]:
    return {name.replace("_", " "): (kind, fields) for name, fields in cases.items()}


def each(kind: type[Exception], field: str, *values: object) -> dict:
    return {f"{field} {value}": (kind, {field: value}) for value in values}


CASES = {
    **each(ValueError, "ndim", -1, -(2**31), 65, 2**31 - 1),
    **each(
        ValueError,
        "shape",
        (-1,),
        (3, -1),
        (LEAST,),
        (-1, 0),
        (0, -1),
        (2**62, 4),
        (2**40, 2**40),
        (MOST,),
        (MOST, MOST),
        (2**32,) * 2,
        (2**16,) * 4,
        (3,) * 60,
    ),
    **each(
        ValueError,
        "strides",
        (LEAST, 1),
        (MOST, 1),
        (2**62, 1),
        (-(2**62), 1),
        (4, LEAST),
        (2**61, 2**61),
        (MOST, MOST),
        (-MOST, -MOST),
    ),
    **each(ValueError, "byte_offset", 2**64 - 1, 2**63, 2**64 - 4096),
    **each(ValueError, "data", None),
    **named(
        ValueError,
        no_shape={"shape": None, "ndim": 2},
        no_shape_of_a_vector={"shape": None, "ndim": 1, "strides": None},
        neither_shape_nor_strides={"shape": None, "ndim": 64, "strides": None},
        pair_of_float4_without_dimensions={"shape": (), "code": 17, "bits": 4, "lanes": 2},
        strided_int4={"shape": (2, 2), "strides": (1, 2), "code": 0, "bits": 4},
        strided_uint2={"shape": (2, 2), "strides": (4, 1), "code": 1, "bits": 2},
        reversed_int4={"shape": (4,), "strides": (-1,), "code": 0, "bits": 4},
    ),
    **{
        f"device {kind}": (ValueError, {"device": (kind, 0)})
        for kind in (0, 2, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16, 17, 18, 99, -1, 2**31 - 1)
    },
    **each(TypeError, "code", 3, 5, 6, 7, 8, 9, 10, 14, 15, 16, 17, 18, 99, 255),
    **each(TypeError, "bits", 0, 1, 2, 3, 4, 6, 7, 8, 9, 24, 31, 33, 80, 128, 255),
    **each(TypeError, "lanes", 0, 2, 4, 8, 255, 65535),
    **{
        f"code {code} with {bits} bits": (TypeError, {"code": code, "bits": bits})
        for code, bits in [
            (0, 1),
            (0, 3),
            (0, 128),
            (1, 6),
            (4, 32),
            (5, 64),
            (5, 128),
            (6, 1),
            (6, 32),
            (10, 16),
            (17, 8),
            (15, 6),
            (16, 6),
            (7, 8),
        ]
    },
    **named(
        TypeError,
        lanes_of_int4={"code": 0, "bits": 4, "lanes": 2},
        four_float4={"code": 17, "bits": 4, "lanes": 4},
        eight_lanes_of_int8={"code": 0, "bits": 8, "lanes": 8},
    ),
}
FLAGS = {
    **each(BufferError, "flags", 8, 16, 2**32, 2**63, 2**64 - 1, 8 | COPIED),
    **named(
        BufferError,
        padded_int4={"flags": PADDED, "code": 0, "bits": 4},
        padded_float4={"flags": PADDED, "code": 17, "bits": 4},
        padded_uint2={"flags": PADDED | COPIED, "code": 1, "bits": 2},
    ),
}


def check_refusal(lent: Lent, kind: type[Exception], copy: bool | None) -> None:
    capsule = lent.capsule()
    name = name_of(capsule)
    for _ in range(2):
        with refused(kind):
            from_dlpack(capsule, copy=copy)
        assert (lent.released, name_of(capsule)) == (0, name)
    lent._fill()
    if lent.versioned:
        lent.struct.flags = 0
    value = from_dlpack(capsule)
    assert value.numpy().tolist() == lent.buffer.tolist()
    del value
    assert eventually(lambda: lent.released == 1)


@pytest.mark.parametrize("copy", [None, False, True])
@pytest.mark.parametrize("case", CASES)
def test_field_is_refused_and_the_capsule_stays_usable(case: str, copy: bool | None) -> None:
    kind, fields = CASES[case]
    for versioned in (True, False):
        lent = Lent(np.arange(12, dtype=np.float32).reshape(3, 4), versioned=versioned, **fields)
        check_refusal(lent, kind, copy)


@pytest.mark.parametrize("copy", [None, False, True])
@pytest.mark.parametrize("case", FLAGS)
def test_flags_are_refused_and_the_capsule_stays_usable(case: str, copy: bool | None) -> None:
    kind, fields = FLAGS[case]
    check_refusal(Lent(np.arange(12, dtype=np.float32), **fields), kind, copy)


@pytest.mark.parametrize("kind", [1, 3, 11])
def test_memory_of_the_host_is_taken(kind: int) -> None:
    a = np.arange(4.0)
    value = from_dlpack(Lent(a, device=(kind, 0)).capsule(), copy=False)
    assert value.data_ptr() == a.ctypes.data
    assert value.__dlpack_device__() == (1, 0)


@pytest.mark.parametrize("offset", [1, 2, 3, 5, 7])
def test_misaligned_memory_is_copied_or_refused(offset: int) -> None:
    memory = np.arange(64, dtype=np.uint8)
    want = memory[offset : offset + 16].copy().view(np.float32).tolist()
    fields = {"shape": (4,), "code": 2, "bits": 32, "byte_offset": offset}
    lent = Lent(memory, **fields)
    with refused(ValueError, "aligned"):
        from_dlpack(lent.capsule(), copy=False)
    value = from_dlpack(lent.capsule())
    assert lent.released == 1
    assert from_ortvalue(value).tolist() == want
    assert value.data_ptr() != memory.ctypes.data + offset
    strided = {**fields, "shape": (2, 2), "strides": (3, -1), "byte_offset": offset + 4}
    got = from_dlpack(Lent(memory, **strided).capsule()).numpy()
    flat = memory[offset : offset + 20].copy().view(np.float32)
    assert got.tobytes() == flat[[1, 0, 4, 3]].tobytes()


@pytest.mark.parametrize("number", TYPES)
def test_empty_tensors_may_point_anywhere(number: int) -> None:
    code, bits = TYPES[number]
    for data in (None, 1, 2**64 - 8):
        for shape in ((0,), (3, 0, 2), (0, 1)):
            strides = (7,) * len(shape)
            fields = {"data": data, "shape": shape, "strides": strides, "code": code, "bits": bits}
            lent = Lent(np.zeros(1, np.uint8), **fields)
            value = from_dlpack(lent.capsule(), copy=False)
            assert (value.element_type(), value.shape()) == (number, list(shape))
            assert value.tensor_size_in_bytes() == 0
            del value
            assert lent.released == 1


def test_most_dimensions() -> None:
    lent = Lent(np.arange(2.0), shape=(1,) * 63 + (2,), strides=None)
    assert from_dlpack(lent.capsule(), copy=False).shape() == [1] * 63 + [2]


@pytest.mark.parametrize("copy", [None, True])
@pytest.mark.parametrize("ndim", [60, 63])
def test_most_dimensions_with_strides(ndim: int, copy: bool | None) -> None:
    a = np.arange(4.0)
    lent = Lent(a, shape=(1,) * (ndim - 2) + (2, 2), strides=(1,) * (ndim - 1) + (2,))
    value = from_dlpack(lent.capsule(), copy=copy)
    assert from_ortvalue(value).flatten().tolist() == [0, 2, 1, 3]
    assert lent.released == 1


@pytest.mark.parametrize("copy", [None, True])
def test_copy_that_no_memory_can_hold_gives_the_struct_back(copy: bool | None) -> None:
    lent = Lent(np.arange(4.0), shape=(2**50,), strides=(0,))
    capsule = lent.capsule()
    with pytest.raises((MemoryError, RuntimeError, ValueError)):
        from_dlpack(capsule, copy=copy)
    usable = name_of(capsule) == VERSIONED
    assert lent.released == (not usable)
    lent.forget()


@pytest.mark.parametrize("device", [(1, 1), (1, -1), (1, 2**31 - 1), (3, -7)])
def test_index_that_no_host_device_has(device: tuple[int, int]) -> None:
    check_refusal(Lent(np.arange(4.0), device=device), ValueError, None)


@pytest.mark.parametrize("copy", [None, True])
def test_64_strided_dimensions(copy: bool | None) -> None:
    lent = Lent(np.arange(4.0), shape=(1,) * 62 + (2, 2), strides=(1,) * 63 + (2,))
    value = from_dlpack(lent.capsule(), copy=copy)
    assert from_ortvalue(value).flatten().tolist() == [0, 2, 1, 3]
