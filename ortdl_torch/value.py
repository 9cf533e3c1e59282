"""The Python class of ONNX Runtime values."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ortdl_torch import _C

_DTYPES = {_C.element_type_of(dtype): dtype for dtype in _C.dtypes()}
_PACKED_BITS = _C.packed_bits()


class OrtValue(_C.OrtValueBase):
    """A value of ONNX Runtime: what :func:`ortdl_torch.to_ortvalue` makes of a tensor.

    It owns the memory it points to, shared with the tensor it was made from; whichever is dropped
    last frees it. Its description never changes. Any thread may use it and drop it.

    Args:
        script_object: a ``torch.classes.ortdl.OrtValue``, as ``value.script_object`` gives it;
            both then stand for one and the same value.
    """

    __slots__ = ()

    @classmethod
    def ortvalue_from_numpy(cls, array: np.ndarray[Any, Any], /) -> OrtValue:
        """A value over the memory of a NumPy array, which it keeps alive.

        Args:
            array: C-contiguous and writeable, of a dtype that PyTorch has.

        Raises:
            TypeError: no array, or PyTorch has no such dtype.
            ValueError: the array is not contiguous.
            BufferError: the array is read-only; pass ``array.copy()``.
        """
        if not isinstance(array, np.ndarray):
            raise TypeError(f"expected a numpy.ndarray, not {type(array).__name__}")
        if not array.flags.writeable:
            raise BufferError(
                "the array is read-only, and a value of it would be writeable: pass array.copy()"
            )
        if not array.flags.c_contiguous:
            raise ValueError(
                f"an array of shape {array.shape} and strides {array.strides} is not contiguous: "
                "pass numpy.ascontiguousarray(array)"
            )
        return _C.to_ortvalue(torch.from_numpy(array))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls, shape: Sequence[int], element_type: int | np.dtype[Any] | type
    ) -> OrtValue:
        """A value with memory of its own, its elements not set.

        Args:
            shape: the shape, in elements.
            element_type: ONNX's number of the type (``onnx.TensorProto.FLOAT``, ...) or a NumPy
                dtype.

        Raises:
            TypeError: there is no such element type.
            ValueError: a size is negative, or there are too many elements.
        """
        sizes = [operator.index(size) for size in shape]
        count = math.prod(sizes)
        if min(sizes, default=0) < 0 or max(sizes, default=0) >= 2**63 or count >= 2**60:
            raise ValueError(f"no value can have the shape {sizes}")
        if not isinstance(element_type, int):
            dtype = torch.from_numpy(np.empty(0, element_type)).dtype
        elif element_type in _PACKED_BITS:
            size = (count * _PACKED_BITS[element_type] + 7) // 8
            return _C.OrtValueBase.from_packed(
                torch.empty(size, dtype=torch.uint8), element_type, sizes
            )
        elif element_type in _DTYPES:
            dtype = _DTYPES[element_type]
        else:
            raise TypeError(f"no supported element type has ONNX's number {element_type}")
        return _C.to_ortvalue(torch.empty(sizes, dtype=dtype))

    def numpy(self) -> np.ndarray[Any, Any]:
        """The elements as a NumPy array that shares their memory and keeps it alive.

        Raises:
            TypeError: NumPy has no such dtype; ``from_ortvalue`` and ``packed`` work for it.
        """
        if self.dtype is None or not _has_numpy_dtype(self.dtype):
            raise TypeError(
                f"NumPy has no dtype for a {self.data_type()}: use "
                "ortdl_torch.from_ortvalue(value), or value.packed() for the bytes"
            )
        array: np.ndarray[Any, Any] = _C.from_ortvalue(self).numpy()
        return array

    def __array__(
        self, dtype: np.dtype[Any] | None = None, copy: bool | None = None
    ) -> np.ndarray[Any, Any]:
        """``numpy.asarray(value)``: shares memory unless ``dtype`` or ``copy`` ask for a copy."""
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def update_inplace(
        self, data: torch.Tensor | np.ndarray[Any, Any] | _C.OrtValueBase, /
    ) -> None:
        """Copy the elements of ``data`` into this value's memory.

        Autograd is told: the tensor that this value was made from counts it as a write.

        Args:
            data: tensor, array or value of the same shape and element type.

        Raises:
            TypeError: another kind of argument or element type.
            ValueError: another shape.
        """
        source = _as_value(data)
        if source.element_type() != self.element_type():
            raise TypeError(f"cannot copy a {source.data_type()} into a {self.data_type()}")
        if source.shape() != self.shape():
            raise ValueError(
                f"cannot copy a value of shape {source.shape()} into one of shape {self.shape()}"
            )
        with torch.no_grad():
            self.packed().copy_(source.packed())

    def __repr__(self) -> str:
        if not self.is_tensor():
            return f"OrtValue({self.data_type()})"
        return f"OrtValue({self.data_type()}, shape={self.shape()}, device='{self.device_name()}')"


def _has_numpy_dtype(dtype: torch.dtype) -> bool:
    try:
        torch.empty(0, dtype=dtype).numpy()
    except TypeError:
        return False
    return True


def _as_value(data: object) -> _C.OrtValueBase:
    if isinstance(data, torch.Tensor):
        return _C.to_ortvalue(data, copy=None)
    if isinstance(data, np.ndarray):
        return _C.to_ortvalue(torch.from_numpy(np.ascontiguousarray(data)))
    if isinstance(data, _C.OrtValueBase):
        return data
    raise TypeError(
        f"expected a torch.Tensor, numpy.ndarray or OrtValue, not {type(data).__name__}"
    )


_C.set_value_class(OrtValue)
