"""Inputs and outputs of a session that are prepared once and used in many runs."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import onnxruntime
import torch

from ortdl_torch import _C
from ortdl_torch.value import OrtValue

Bindable: TypeAlias = torch.Tensor | _C.OrtValueBase | torch.ScriptObject | onnxruntime.OrtValue


class IOBinding(_C.IOBindingBase):
    """What a session reads and writes in each of many runs: ``session.io_binding()``.

    The methods have the names of onnxruntime's, and take tensors. What is bound is never copied:
    ``session.run_with_iobinding(binding)`` reads what is in the inputs then, and writes the outputs
    into the same memory every time, which autograd sees as a write to the tensors. The binding
    keeps session and memory alive, whatever becomes of the tensors; their storages are marked as
    not resizable, as ``Tensor.numpy()`` does.

    One thread at a time may use a binding: a second one gets a RuntimeError.

    Args:
        session: the :class:`ortdl_torch.InferenceSession` that is run.
    """

    def bind_input(self, name: str, tensor: Bindable) -> None:
        """Let runs read an input from a tensor or OrtValue, where it is now.

        What was bound before stays if this is refused.

        Raises:
            ValueError: no such input, a wrong shape or device, a tensor that is not contiguous, or
                the memory of a bound output.
            TypeError: a wrong dtype, or no tensor. An address, which onnxruntime takes, is none.
            BufferError: the tensor requires grad while grad mode is on, or has no memory to read.
        """
        self._bind_input(name, tensor)

    def bind_ortvalue_input(self, name: str, ortvalue: Bindable) -> None:
        """The same as :meth:`bind_input`."""
        self._bind_input(name, ortvalue)

    def bind_cpu_input(self, name: str, arr_on_cpu: np.ndarray[Any, Any]) -> None:
        """Let runs read an input from a contiguous NumPy array, which is kept, not copied.

        Raises:
            TypeError: no array, or of a wrong dtype.
            ValueError: as :meth:`bind_input`; also where the session wants the input elsewhere.
        """
        self._bind_input(name, OrtValue.ortvalue_from_numpy(arr_on_cpu))

    def bind_output(self, name: str, tensor: Bindable | None = None) -> None:
        """Let runs write an output into a tensor or OrtValue.

        Args:
            name: the output.
            tensor: where it is written; None lets the next run allocate it where the session makes
                it. Later runs write there again.

        Raises:
            ValueError: no such output, a wrong shape or device, a tensor that is not contiguous, or
                the memory of another output, an input or one of the session's ``initializers``.
            TypeError: a wrong dtype, or no tensor.
            BufferError: the tensor requires grad while grad mode is on, has no memory to write, or
                the OrtValue is read-only.
            RuntimeError: an inference tensor outside of inference mode.
        """
        self._bind_output(name, tensor)

    def bind_ortvalue_output(self, name: str, ortvalue: Bindable) -> None:
        """The same as :meth:`bind_output`."""
        if ortvalue is None:
            raise TypeError("bind_ortvalue_output takes an OrtValue: use bind_output(name)")
        self._bind_output(name, ortvalue)

    def copy_outputs_to_cpu(self) -> list[np.ndarray[Any, Any]]:
        """The outputs as NumPy arrays of their own, which later runs do not change.

        Raises:
            RuntimeError: as :meth:`get_outputs`.
            TypeError: an output that NumPy has no dtype for.
        """
        return [np.array(value.numpy()) for value in self.get_outputs()]

    def synchronize_inputs(self) -> None:
        """Nothing: runs wait for the streams on which inputs are made, on the device."""

    def synchronize_outputs(self) -> None:
        """Let the host wait for the outputs of the last run, without the GIL."""
        for device in {value.device for value in self.get_outputs() if value.is_tensor()}:
            if device.type != "cpu":
                torch.accelerator.synchronize(device)
