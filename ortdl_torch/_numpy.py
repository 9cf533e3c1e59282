"""NumPy arrays as values and back, with the dtypes of ml_dtypes where that is installed."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ortdl_torch import _C

if TYPE_CHECKING:
    from ortdl_torch.value import OrtValue

# Older ones make every array that comes through DLPack read-only.
_TAKES_DLPACK = np.lib.NumpyVersion(np.__version__) >= "2.1.0"

PACKED_BITS = _C.packed_bits()
"""The width of an element of each packed type, by ONNX's number of the type."""

# ONNX's number of each type that NumPy itself has, and the name of each that ml_dtypes adds.
_NUMPY: dict[int, type] = {
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
_ML_DTYPES = {
    16: "bfloat16",
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4_e2m1fn",
    24: "float8_e8m0fnu",
    25: "uint2",
    26: "int2",
}


@cache
def _dtype(element_type: int, spelled: str) -> np.dtype[Any]:
    if (known := _NUMPY.get(element_type)) is not None:
        return np.dtype(known)
    name = _ML_DTYPES[element_type]
    try:
        import ml_dtypes

        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    except (ImportError, AttributeError) as error:
        raise TypeError(
            f"NumPy has no dtype for a {spelled}, and ml_dtypes.{name} cannot be had ({error}): "
            "run `pip install --upgrade ml_dtypes`, or use ortdl_torch.from_ortvalue(value) or "
            "value.packed()"
        ) from error
    return dtype


@cache
def _ml_element_types() -> dict[np.dtype[Any], int]:
    try:
        import ml_dtypes
    except ImportError:
        return {}
    return {
        np.dtype(getattr(ml_dtypes, name)): number
        for number, name in _ML_DTYPES.items()
        if number not in PACKED_BITS and hasattr(ml_dtypes, name)
    }


def bytes_of(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """An array over the tensor's memory, also where PyTorch fakes what its ``numpy()`` does."""
    return np.from_dlpack(_C.to_ortvalue(tensor)) if _TAKES_DLPACK else tensor.numpy()


def to_value(array: np.ndarray[Any, Any], *, copy: bool | None) -> OrtValue:
    """A value of ``array``; errors and ``copy`` as :func:`ortdl_torch.from_dlpack` has them."""
    dtype = array.dtype
    # NumPy's own dtypes are none of ml_dtypes', and to look one up takes its hash.
    element_type = None if dtype.isbuiltin == 1 else _ml_element_types().get(dtype)
    if element_type is None:
        if dtype.kind not in "biufc":
            raise TypeError(f"ONNX Runtime has no element type for the dtype {dtype.name}")
        return _C.from_dlpack(array, copy=copy)
    # NumPy's DLPack knows no dtype of ml_dtypes, but every dtype's bits.
    return _C.reinterpreted(
        _C.from_dlpack(array.view(f"u{array.itemsize}"), copy=copy), element_type
    )


def to_array(value: _C.OrtValueBase) -> np.ndarray[Any, Any]:
    """An array of ``value``'s elements: over its memory, but for packed types and accelerators."""
    if _TAKES_DLPACK and value._fits_numpy():
        return np.from_dlpack(value)
    if value.device.type != "cpu":
        value = _C.from_dlpack(value, device="cpu")
    element_type = value.element_type()
    dtype = _dtype(element_type, value.data_type())
    memory = bytes_of(value._memory())
    if (bits := PACKED_BITS.get(element_type)) is not None:
        return _unpacked(memory, bits, dtype, value.shape())
    if value.read_only:
        memory.setflags(write=False)  # before the view, which then cannot be made writeable
    return memory.view(dtype).reshape(value.shape())


def _unpacked(
    memory: np.ndarray[Any, Any], bits: int, dtype: np.dtype[Any], shape: list[int]
) -> np.ndarray[Any, Any]:
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    fields = (memory[:, None] >> shifts) & np.uint8(2**bits - 1)
    flat = fields.reshape(-1)[: int(np.prod(shape, dtype=np.int64))]
    if dtype.name.startswith("int"):
        # The sign is the field's highest bit.
        signed = (flat.astype(np.int8) << (8 - bits)) >> (8 - bits)
        return signed.astype(dtype).reshape(shape)
    if dtype.name.startswith("uint"):
        return flat.astype(dtype).reshape(shape)
    return flat.view(dtype).reshape(shape)
