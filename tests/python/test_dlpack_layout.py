"""Layouts of capsules: what is shared, what is copied, and what older producers leave out."""

import numpy as np
import pytest
import torch
from dlpack_structs import LEGACY, VERSIONED, Lent, name_of
from support import refused

from ortdl_torch import from_dlpack, from_ortvalue

NAME = {False: LEGACY, True: VERSIONED}
both_structs = pytest.mark.parametrize("versioned", [False, True], ids=["legacy", "versioned"])


@both_structs
def test_null_strides_and_byte_offset(versioned: bool) -> None:
    a = np.arange(12, dtype=np.int32)
    lent = Lent(a, versioned=versioned, shape=(2, 4), strides=None, byte_offset=16)
    value = from_dlpack(lent.capsule(), copy=False)
    assert value.data_ptr() == a.ctypes.data + 16
    assert from_ortvalue(value).tolist() == [[4, 5, 6, 7], [8, 9, 10, 11]]


@both_structs
def test_bool(versioned: bool) -> None:
    lent = Lent(np.array([True, False, True]), versioned=versioned)
    value = from_dlpack(lent.capsule())
    assert value.dtype is torch.bool
    assert from_ortvalue(value).tolist() == [True, False, True]


STRIDED = {
    "transposed": np.arange(12, dtype=np.int16).reshape(3, 4).T,
    "every third": np.arange(12.0)[1::3],
    "reversed": np.arange(6, dtype=np.float32)[::-1],
    "reversed both ways": np.arange(12, dtype=np.uint8).reshape(3, 4)[::-1, ::-2],
    "repeated": np.broadcast_to(np.arange(3, dtype=np.int64), (4, 3)),
    "window": np.arange(36, dtype=np.uint16).reshape(6, 6)[1:4, 2:5],
}


@both_structs
@pytest.mark.parametrize("layout", STRIDED)
def test_strided_struct_is_copied_or_refused(layout: str, versioned: bool) -> None:
    a = STRIDED[layout]
    lent = Lent(a, versioned=versioned)
    capsule = lent.capsule()
    with refused(ValueError, "contiguous", "copy"):
        from_dlpack(capsule, copy=False)
    assert (lent.released, name_of(capsule)) == (0, NAME[versioned])
    value = from_dlpack(capsule)
    assert lent.released == 1
    assert from_ortvalue(value).numpy().tolist() == a.tolist()
    again = Lent(a, versioned=versioned)
    assert from_dlpack(again.capsule(), copy=True).numpy().tolist() == a.tolist()
    assert again.released == 1


def test_size_1_dimension_may_have_any_stride() -> None:
    a = np.arange(4.0)
    lent = Lent(a, shape=(1, 4, 1), strides=(-77, 1, 2**62))
    value = from_dlpack(lent.capsule(), copy=False)
    assert (value.shape(), value.data_ptr()) == ([1, 4, 1], a.ctypes.data)
