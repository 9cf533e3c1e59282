"""The Python class of ONNX Runtime values."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np
import onnxruntime
import torch

from ortdl_torch import _C, _numpy

_DTYPES = {_C.element_type_of(dtype): dtype for dtype in _C.dtypes()}


def _device(device_type: str, device_id: int) -> torch.device:
    return _C.resolve_device(f"{device_type}:{operator.index(device_id)}".lower())


class OrtValue(_C.OrtValueBase):
    """A value of ONNX Runtime: what :func:`ortdl_torch.to_ortvalue` makes of a tensor.

    It owns the memory it points to, shared with the tensor it was made from; whichever is dropped
    last frees it. Its description never changes. Any thread may use it and drop it.

    Args:
        script_object: a ``torch.classes.ortdl.OrtValue``, as ``value.script_object`` gives it;
            both then stand for one and the same value.
    """

    __slots__ = ()

    @staticmethod
    def from_dlpack(
        x: object,
        /,
        *,
        device: str | torch.device | tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> OrtValue:
        """The same as :func:`ortdl_torch.from_dlpack`."""
        return _C.from_dlpack(x, device=device, copy=copy)

    @staticmethod
    def ortvalue_from_numpy(
        array: np.ndarray[Any, Any], /, device_type: str = "cpu", device_id: int = 0
    ) -> OrtValue:
        """A value over the memory of a NumPy array, which it keeps alive.

        A read-only array gives a read-only value. On another device than the CPU, the value has
        memory of its own, into which the elements are copied.

        Args:
            array: of a dtype of NumPy or ml_dtypes that ONNX Runtime has; on the CPU C-contiguous.
            device_type: ``"cpu"``, ``"cuda"`` or ``"hip"``.
            device_id: the index of the device.

        Raises:
            TypeError: no array, or a dtype without counterpart, such as a structured one.
            ValueError: the array is not contiguous or not aligned, or there is no such device.
            BufferError: the array is not in the machine's byte order.
        """
        if not isinstance(array, np.ndarray):
            raise TypeError(f"expected a numpy.ndarray, not {type(array).__name__}")
        device = _device(device_type, device_id)
        if device.type != "cpu":
            return _C.from_dlpack(_numpy.to_value(array, copy=None), device=device)
        if not (array.flags.c_contiguous and array.flags.aligned):
            raise ValueError(
                f"an array of strides {array.strides} and dtype {array.dtype} is not contiguous or "
                "not aligned, so sharing it is impossible: use numpy.ascontiguousarray(array) or "
                "array.copy()"
            )
        return _numpy.to_value(array, copy=False)

    @staticmethod
    def ortvalue_from_shape_and_type(
        shape: Sequence[int],
        element_type: int | np.dtype[Any] | type,
        device_type: str = "cpu",
        device_id: int = 0,
    ) -> OrtValue:
        """A value with memory of its own, its elements not set.

        Args:
            shape: the shape, in elements.
            element_type: ONNX's number of the type (``onnx.TensorProto.FLOAT``, ...) or a NumPy
                dtype.
            device_type: ``"cpu"``, ``"cuda"`` or ``"hip"``.
            device_id: the index of the device.

        Raises:
            TypeError: there is no such element type.
            ValueError: a size is negative, there are too many elements, or no such device.
        """
        device = _device(device_type, device_id)
        sizes = [operator.index(size) for size in shape]
        count = math.prod(sizes)
        largest = math.prod(max(size, 1) for size in sizes)
        if min(sizes, default=0) < 0 or largest >= 2**56:
            raise ValueError(f"no value can have the shape {sizes}")
        if element_type is None or isinstance(element_type, bool):
            raise TypeError(f"no element type is called {element_type}")
        if not isinstance(element_type, int):
            element_type = _numpy.to_value(np.empty(0, element_type), copy=False).element_type()
        if (bits := _numpy.PACKED_BITS.get(element_type)) is not None:
            memory = torch.empty((count * bits + 7) // 8, dtype=torch.uint8, device=device)
            return _C.OrtValueBase.from_packed(memory, element_type, sizes)
        if (dtype := _DTYPES.get(element_type)) is not None:
            return _C.to_ortvalue(torch.empty(sizes, dtype=dtype, device=device))
        raise TypeError(f"no supported element type has ONNX's number {element_type}")

    def to_onnxruntime(self) -> onnxruntime.OrtValue:
        """This value as onnxruntime's own class, over the same memory, which that keeps alive.

        onnxruntime's values know no streams: on an accelerator the elements are ready for work on
        the stream that is current now, and for others once that stream was synchronised.

        Raises:
            BufferError: the value is read-only, which onnxruntime's class cannot say.
            TypeError: the value is no tensor, or onnxruntime takes no such type through DLPack.
        """
        # Before 1.26 only the class that onnxruntime.OrtValue wraps has from_dlpack.
        native: Any = onnxruntime.capi.onnxruntime_pybind11_state.OrtValue
        try:
            return onnxruntime.OrtValue(native.from_dlpack(_C.to_dlpack(self)))
        except RuntimeError as error:
            raise TypeError(
                f"onnxruntime {onnxruntime.__version__} does not take a {self.data_type()} of "
                f"shape {self.shape()}: {error}"
            ) from error

    def numpy(self) -> np.ndarray[Any, Any]:
        """The elements as a NumPy array that keeps them alive.

        It shares the value's memory, read-only if the value is, except for the packed types: NumPy
        has one element per byte, so those are unpacked into a copy. Of an accelerator it is a copy,
        for which the host waits, without the GIL.

        Raises:
            RuntimeError: that wait would break the capture of the current stream into a graph.
            TypeError: the dtype is one of ml_dtypes, which is not installed or too old.
        """
        return _numpy.to_array(self)

    def __array__(
        self, dtype: np.dtype[Any] | None = None, copy: bool | None = None
    ) -> np.ndarray[Any, Any]:
        """``numpy.asarray(value)``: shares memory unless ``dtype`` or ``copy`` ask for a copy.

        Raises:
            ValueError: ``copy`` is False and the type is a packed one or the elements are not on
                the CPU, which needs a copy.
        """
        on_cpu = self.device.type == "cpu"
        if copy is False and (not on_cpu or self.element_type() in _numpy.PACKED_BITS):
            raise ValueError(
                f"an array of a {self.data_type()} on {self.device} needs a copy: pass copy=None"
            )
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def update_inplace(
        self, data: torch.Tensor | np.ndarray[Any, Any] | _C.OrtValueBase | onnxruntime.OrtValue, /
    ) -> None:
        """Copy the elements of ``data`` into this value's memory, in order on its device.

        Between the CPU and an accelerator the host waits; the GIL is released meanwhile.
        Autograd is told: the tensor that this value was made from counts it as a write.

        Args:
            data: tensor, array or value of the same shape and element type.

        Raises:
            BufferError: this value is read-only.
            TypeError: another kind of argument or element type.
            ValueError: another shape.
        """
        if isinstance(data, np.ndarray):
            data = _numpy.to_value(data, copy=None)
        if not isinstance(data, (torch.Tensor, _C.OrtValueBase, onnxruntime.OrtValue)):
            raise TypeError(
                f"expected a torch.Tensor, numpy.ndarray or OrtValue, not {type(data).__name__}"
            )
        _C.update(self, data)

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        try:
            return super().__reduce_ex__(protocol)
        except TypeError as error:
            what = "an OrtValue stands for memory that is shared, and is neither pickled nor copied"
            if self.is_tensor():
                tensor = "value.packed()" if self.dtype is None else "from_ortvalue(value)"
                what += f": take a tensor of it, {tensor}"
            raise TypeError(what) from error

    def __repr__(self) -> str:
        if not self.is_tensor():
            return f"OrtValue({self.data_type()})"
        return f"OrtValue({self.data_type()}, shape={self.shape()}, device='{self.device}')"


_C.set_value_class(OrtValue)
