"""Memory that must not be written to: what becomes of it, and the ways out."""

import numpy as np
import onnxruntime
import pytest
import torch
from dlpack_structs import CPU, READ_ONLY, Lent, Producer, struct_of
from models import unary
from support import needs_onnxruntime, refused

import ortdl_torch
from ortdl_torch import InferenceSession, OrtValue, from_dlpack, from_ortvalue, to_dlpack


def frozen(dtype: type = np.float32) -> np.ndarray:
    a = np.arange(6, dtype=dtype).reshape(2, 3)
    a.setflags(write=False)
    return a


MAKE = {
    "array": lambda a: from_dlpack(a),
    "array, copy=False": lambda a: from_dlpack(a, copy=False),
    "ortvalue_from_numpy": lambda a: OrtValue.ortvalue_from_numpy(a),
    "capsule": lambda a: from_dlpack(a.__dlpack__(max_version=(1, 0))),
    "struct": lambda a: from_dlpack(Lent(a, flags=READ_ONLY).capsule()),
    "producer": lambda a: from_dlpack(Producer(Lent(a, flags=READ_ONLY).capsule())),
    "value": lambda a: from_dlpack(from_dlpack(a)),
}
every_way = pytest.mark.parametrize("way", MAKE)


@every_way
def test_flag_is_kept(way: str) -> None:
    a = frozen()
    value = MAKE[way](a)
    assert value.read_only is True
    assert value.data_ptr() == a.ctypes.data
    assert OrtValue(value.script_object).read_only is True


@every_way
def test_writable_ways_out_are_refused(way: str) -> None:
    a = frozen()
    value = MAKE[way](a)
    for call in (
        lambda: from_ortvalue(value),
        lambda: from_ortvalue(value, copy=False),
        lambda: from_ortvalue(value.script_object),
        lambda: ortdl_torch.from_ortvalues([value]),
        lambda: torch.ops.ortdl.from_ortvalue(value.script_object),
        lambda: value.packed(),
        lambda: value.update_inplace(np.ones((2, 3), np.float32)),
        lambda: to_dlpack(value),
        lambda: to_dlpack(value, max_version=(0, 8)),
        lambda: value.__dlpack__(),
        lambda: value.__dlpack__(copy=False),
        lambda: value.to_onnxruntime(),
    ):
        with refused(BufferError, "read-only"):
            call()
    assert a.tolist() == [[0, 1, 2], [3, 4, 5]]


@every_way
def test_versioned_export_says_so(way: str) -> None:
    a = frozen()
    value = MAKE[way](a)
    for copy in (None, False):
        capsule = value.__dlpack__(max_version=(1, 0), copy=copy)
        assert (struct_of(capsule).flags, struct_of(capsule).tensor.data) == (1, a.ctypes.data)
    back = np.from_dlpack(value)
    assert (back.ctypes.data, back.flags.writeable) == (a.ctypes.data, False)


@every_way
def test_copy_is_the_way_out(way: str) -> None:
    a = frozen()
    value = MAKE[way](a)
    for copy in (None, True):
        y = from_ortvalue(value, copy=copy)
        assert y.data_ptr() != a.ctypes.data
        assert torch.equal(y.add_(1), torch.arange(1.0, 7).reshape(2, 3))
    y = from_ortvalue(from_dlpack(value.__dlpack__(copy=True)))
    y.zero_()
    copied = from_dlpack(a, copy=True)
    assert not copied.read_only
    copied.update_inplace(np.ones((2, 3), np.float32))
    assert from_ortvalue(copied).tolist() == [[1] * 3] * 2
    struct = struct_of(capsule := value.__dlpack__(max_version=(1, 0), copy=True))
    assert struct.flags == 2
    assert capsule is not None
    assert a.tolist() == [[0, 1, 2], [3, 4, 5]]


@every_way
def test_numpy_of_it_is_read_only(way: str) -> None:
    a = frozen()
    value = MAKE[way](a)
    for made in (value.numpy(), np.asarray(value), np.asarray(value, copy=False)):
        assert (made.ctypes.data, made.flags.writeable) == (a.ctypes.data, False)
        with refused(ValueError, "read-only|writeable"):
            made[0, 0] = 9
    assert np.array(value).flags.writeable


def test_values_read_from_it() -> None:
    a = frozen()
    value = from_dlpack(a)
    other = ortdl_torch.to_ortvalue(torch.zeros(2, 3))
    other.update_inplace(value)
    other.update_inplace(a)
    assert from_ortvalue(other).tolist() == a.tolist()
    (y,) = InferenceSession(unary("Neg", [2, 3]))(value)
    assert y.tolist() == (-a).tolist()


def test_output_of_a_session_is_never_its_read_only_input() -> None:
    a = frozen()
    (y,) = InferenceSession(unary("Identity", [2, 3]))(from_dlpack(a))
    y.zero_()
    assert a.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_strided_copy_of_it_may_be_written_to() -> None:
    value = from_dlpack(frozen().T)
    assert not value.read_only
    from_ortvalue(value).zero_()


def test_torch_is_not_told_a_lie() -> None:
    value = from_dlpack(frozen())
    with pytest.raises((BufferError, RuntimeError)):
        torch.utils.dlpack.from_dlpack(value.__dlpack__())


def test_bytes_are_read_only() -> None:
    value = from_dlpack(np.frombuffer(b"abcd", np.uint8))
    assert value.read_only
    assert value.numpy().tobytes() == b"abcd"


@pytest.mark.parametrize("dtype", [">f4", ">i2", ">u8"])
def test_other_byte_order_is_refused(dtype: str) -> None:
    a = np.ones(3, dtype)
    for read in (from_dlpack, OrtValue.ortvalue_from_numpy):
        for _ in range(2):
            with refused(BufferError, "byte order|endian|native"):
                read(a)
    assert from_dlpack(a.astype(a.dtype.newbyteorder("="))).shape() == [3]


@pytest.mark.parametrize(
    "dtype", [[("x", "f4")], "M8[s]", "m8[ns]", "O", "S3", "U2", "V4", "g"], ids=str
)
def test_dtypes_that_onnxruntime_lacks_are_refused(dtype: object) -> None:
    a = np.zeros(3, dtype)
    with pytest.raises((BufferError, TypeError)):
        from_dlpack(a)
    with pytest.raises((BufferError, TypeError)):
        OrtValue.ortvalue_from_numpy(a)
    with pytest.raises((BufferError, TypeError)):
        ortdl_torch.to_ortvalue(torch.ones(3)).update_inplace(a)


@needs_onnxruntime("1.26", "OrtValue.from_dlpack")
def test_stock_session_of_a_read_only_value_is_refused_without_a_crash() -> None:
    a = frozen()
    value = from_dlpack(a)
    with refused(BufferError):
        onnxruntime.OrtValue.from_dlpack(value)
    assert value.__dlpack_device__() == CPU


@every_way
def test_numpy_of_it_cannot_be_made_writable(way: str) -> None:
    made = MAKE[way](frozen()).numpy()
    with refused(ValueError):
        made.setflags(write=True)
