"""Values as NumPy arrays and back: every type of NumPy and of ml_dtypes, and updates in place."""

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
import torch
from support import KINDS, Kind, bits, in_new_process, patterns, refused

from ortdl_torch import OrtValue, from_dlpack, from_ortvalue, to_ortvalue

NUMPY = {
    1: np.float32,
    2: np.uint8,
    3: np.int8,
    4: np.uint16,
    5: np.int16,
    6: np.int32,
    7: np.int64,
    9: np.bool_,
    10: np.float16,
    11: np.float64,
    12: np.uint32,
    13: np.uint64,
}
ML = {
    16: ml_dtypes.bfloat16,
    17: ml_dtypes.float8_e4m3fn,
    18: ml_dtypes.float8_e4m3fnuz,
    19: ml_dtypes.float8_e5m2,
    20: ml_dtypes.float8_e5m2fnuz,
    24: ml_dtypes.float8_e8m0fnu,
}
# number -> dtype, bits, the elements of the bytes 0x1B and 0xE4
PACKED = {
    21: (ml_dtypes.uint4, 4, [11, 1, 4, 14]),
    22: (ml_dtypes.int4, 4, [-5, 1, 4, -2]),
    23: (ml_dtypes.float4_e2m1fn, 4, [-1.5, 0.5, 2.0, -4.0]),
    25: (ml_dtypes.uint2, 2, [3, 2, 1, 0, 0, 1, 2, 3]),
    26: (ml_dtypes.int2, 2, [-1, -2, 1, 0, 0, 1, -2, -1]),
}
DTYPES = {**NUMPY, **ML}
every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)
every_packed = pytest.mark.parametrize("number", PACKED)


def packed(number: int, shape: list[int] | None = None) -> OrtValue:
    count = 16 // PACKED[number][1]
    memory = torch.tensor([0x1B, 0xE4], dtype=torch.uint8)
    return OrtValue.from_packed(memory, number, shape or [count])


@every_kind
def test_array_shares_memory_and_bits(kind: Kind) -> None:
    x = patterns(kind.dtype)
    value = to_ortvalue(x)
    for made in (value.numpy(), np.asarray(value), np.asarray(value, copy=False)):
        assert made.dtype == np.dtype(DTYPES[kind.number])
        assert (made.shape, made.ctypes.data) == (tuple(x.shape), x.data_ptr())
        assert made.flags.writeable
        assert made.tobytes() == bits(x).numpy().tobytes()
    assert np.array(value).ctypes.data != x.data_ptr()


@every_kind
def test_value_of_an_array_shares_memory_and_bits(kind: Kind) -> None:
    a = bits(patterns(kind.dtype)).clone().numpy().view(DTYPES[kind.number])
    value = OrtValue.ortvalue_from_numpy(a)
    assert (value.element_type(), value.dtype) == (kind.number, kind.dtype)
    assert (value.shape(), value.data_ptr()) == (list(a.shape), a.ctypes.data)
    assert value.numpy().tobytes() == a.tobytes()
    assert from_ortvalue(value).data_ptr() == a.ctypes.data


@every_kind
@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (2, 1, 2)], ids=str)
def test_shapes(kind: Kind, shape: tuple[int, ...]) -> None:
    a = np.zeros(shape, DTYPES[kind.number])
    value = OrtValue.ortvalue_from_numpy(a)
    back = value.numpy()
    assert (value.shape(), back.shape, back.dtype) == (list(shape), shape, a.dtype)


@pytest.mark.parametrize("number", NUMPY)
def test_array_through_the_protocol(number: int) -> None:
    a = np.ones((2, 3), NUMPY[number])
    value = from_dlpack(a, copy=False)
    assert (value.element_type(), value.data_ptr()) == (number, a.ctypes.data)
    assert np.from_dlpack(value).ctypes.data == a.ctypes.data


def test_conversions_of_dtype() -> None:
    x = torch.tensor([1.0, 2.0, 3.0])
    value = to_ortvalue(x)
    for dtype in (np.float64, np.int8, "f2", ml_dtypes.bfloat16):
        made = np.asarray(value, dtype=dtype)
        assert made.dtype == np.dtype(dtype)
        assert made.astype(np.float64).tolist() == [1, 2, 3]
    with refused(ValueError, "copy"):
        np.asarray(value, dtype=np.float64, copy=False)
    assert np.asarray(value, dtype=np.float32).ctypes.data == x.data_ptr()
    assert np.add(value, 1).tolist() == [2, 3, 4]


def test_strided_arrays() -> None:
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    for strided in (a.T, a[:, ::2], a[::-1], a[1:, 1:]):
        with refused(ValueError, "contiguous|stride"):
            OrtValue.ortvalue_from_numpy(strided)
    with refused(ValueError, "contiguous|stride"):
        OrtValue.ortvalue_from_numpy(a.astype(ml_dtypes.bfloat16).T)
    assert OrtValue.ortvalue_from_numpy(a[1:]).data_ptr() == a[1:].ctypes.data


@every_packed
def test_packed_types_are_unpacked(number: int) -> None:
    dtype, width, want = PACKED[number]
    value = packed(number)
    for made in (value.numpy(), np.asarray(value), np.array(value)):
        assert (made.dtype, made.shape) == (np.dtype(dtype), (16 // width,))
        assert [float(element) for element in made] == want
    square = packed(number, [2, 8 // width])
    assert square.numpy().shape == (2, 8 // width)
    odd = OrtValue.from_packed(torch.tensor([0x1B], dtype=torch.uint8), number, [8 // width - 1])
    assert [float(element) for element in odd.numpy()] == want[: 8 // width - 1]


@every_packed
@pytest.mark.parametrize("shape", [[0], [0, 3], [1, 0, 2]], ids=str)
def test_empty_packed(number: int, shape: list[int]) -> None:
    made = OrtValue.from_packed(torch.empty(0, dtype=torch.uint8), number, shape).numpy()
    assert (made.shape, made.dtype) == (tuple(shape), np.dtype(PACKED[number][0]))


@every_packed
def test_packed_0_d(number: int) -> None:
    memory = torch.tensor([0x1B], dtype=torch.uint8)
    made = OrtValue.from_packed(memory, number, []).numpy()
    assert (made.shape, float(made)) == ((), PACKED[number][2][0])


@every_packed
def test_every_pattern_of_a_packed_type(number: int) -> None:
    dtype, width, _ = PACKED[number]
    memory = torch.arange(256, dtype=torch.int16).to(torch.uint8)
    made = OrtValue.from_packed(memory, number, [256 * 8 // width]).numpy()
    fields = np.arange(256)[:, None] >> np.arange(0, 8, width) & (2**width - 1)
    raw = made.view(np.uint8) & (2**width - 1)
    assert np.array_equal(raw, fields.reshape(-1).astype(np.uint8))
    assert made.dtype == np.dtype(dtype)


WITHOUT = """
import sys
sys.modules["ml_dtypes"] = None
import numpy as np, torch
from ortdl_torch import OrtValue, to_ortvalue
assert to_ortvalue(torch.ones(2)).numpy().tolist() == [1, 1]
value = OrtValue.ortvalue_from_numpy(np.ones(2, np.float16))
value.update_inplace(np.zeros(2, np.float16))
int4 = OrtValue.from_packed(torch.zeros(1, dtype=torch.uint8), 22, [2])
dtypes = torch.bfloat16, torch.float8_e5m2, torch.float8_e8m0fnu
for value in [int4, *(to_ortvalue(torch.ones(2).to(dtype)) for dtype in dtypes)]:
    for read in (lambda: value.numpy(), lambda: np.asarray(value)):
        try:
            read()
        except TypeError as error:
            assert "ml_dtypes" in str(error) and "install" in str(error), error
            assert value.data_type()[7:-1] in str(error), error
        else:
            raise AssertionError(value)
    assert value.packed().dtype is torch.uint8
"""


def test_without_ml_dtypes_the_error_says_so() -> None:
    ended = in_new_process(WITHOUT)
    assert (ended.returncode, ended.stderr) == (0, "")


@every_kind
def test_update_from_tensor_array_and_value(kind: Kind) -> None:
    want = patterns(kind.dtype)[:4].reshape(2, 2)
    array = bits(want).clone().numpy().view(DTYPES[kind.number]).reshape(2, 2)
    sources = [want, array, to_ortvalue(want), from_dlpack(to_ortvalue(want))]
    if kind.number in NUMPY:
        sources.append(onnxruntime.OrtValue.ortvalue_from_numpy(array))
    for source in sources:
        x = torch.zeros(2, 2).to(kind.dtype)
        value = to_ortvalue(x)
        value.update_inplace(source)
        assert torch.equal(bits(x), bits(want))
        assert value.data_ptr() == x.data_ptr()


def test_update_from_strided_sources() -> None:
    x = torch.zeros(3, 2)
    value = to_ortvalue(x)
    for source in (torch.arange(6.0).reshape(2, 3).t(), np.arange(6, dtype=np.float32)[::-1]):
        value.update_inplace(source.reshape(3, 2))
        assert x.flatten().tolist() == source.reshape(3, 2).flatten().tolist()


@every_packed
def test_update_of_a_packed_value(number: int) -> None:
    value = packed(number)
    source = packed(number)
    value.packed().zero_()
    value.update_inplace(source)
    assert value.packed().tolist() == [0x1B, 0xE4]


def test_update_from_itself() -> None:
    x = torch.arange(4.0)
    value = to_ortvalue(x)
    for source in (value, x, value.numpy()):
        value.update_inplace(source)
    assert x.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("source", ["tensor", "array", "value"])
def test_update_that_does_not_fit(source: str) -> None:
    x = torch.zeros(2, 3)
    value = to_ortvalue(x)
    convert = {"tensor": lambda t: t, "array": lambda t: t.numpy(), "value": to_ortvalue}[source]
    for shape in ([3, 2], [6], [1, 2, 3], [], [0], [2, 1]):
        with refused(ValueError, "shape"):
            value.update_inplace(convert(torch.ones(shape)))
    for dtype in (torch.float64, torch.int32, torch.bool, torch.float16):
        with refused(TypeError):
            value.update_inplace(convert(torch.ones(2, 3, dtype=dtype)))
    assert not x.any()


@pytest.mark.parametrize("wrong", [None, 3, 1.5, "x", [1.0], b"1234", object(), np.float32(1)])
def test_update_from_something_else(wrong: object) -> None:
    with refused(TypeError):
        to_ortvalue(torch.zeros(2)).update_inplace(wrong)


@pytest.mark.parametrize("wrong", [None, 3, [1.0], "x", torch.ones(2), b"x"])
def test_value_of_no_array_is_refused(wrong: object) -> None:
    with refused(TypeError, "ndarray|array"):
        OrtValue.ortvalue_from_numpy(wrong)


@every_packed
def test_unpacking_is_a_copy_and_says_so(number: int) -> None:
    with refused(ValueError, "copy"):
        np.asarray(packed(number), copy=False)
