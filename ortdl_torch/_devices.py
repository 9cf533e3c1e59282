"""Which execution provider works on a device of PyTorch's."""

from __future__ import annotations

import onnxruntime
import torch

# ONNX Runtime's own for what PyTorch calls CUDA; a build has at most one maker's.
_BUILT_IN = ("CUDAExecutionProvider", "ROCMExecutionProvider", "MIGraphXExecutionProvider")
_NVIDIA, _AMD = 0x10DE, 0x1002


def providers_for(device: torch.device) -> list[tuple[str, dict[str, str]]]:
    """The providers of a session on ``device``, as :class:`InferenceSession` takes them.

    None beside the CPU's for the CPU; else ONNX Runtime's own for CUDA or ROCm if it is offered, or
    a registered plug-in whose memory is that device's. A ValueError lists what there is instead.
    """
    if device.type == "cpu":
        return []
    plugins = onnxruntime.get_ep_devices()
    names = [*onnxruntime.get_available_providers(), *(plugin.ep_name for plugin in plugins)]
    offered = list(dict.fromkeys(names))
    if device.type == "cuda":
        index = device.index or 0
        for name in _BUILT_IN:
            if name in offered:
                return [(name, {"device_id": str(index)})]
        vendor = _AMD if torch.version.hip else _NVIDIA
        for plugin in plugins:
            memory = plugin.memory_info(onnxruntime.OrtDeviceMemoryType.DEFAULT)
            if memory is not None and (memory.device_vendor_id, memory.device_id) == (
                vendor,
                index,
            ):
                siblings = [other for other in plugins if other.ep_name == plugin.ep_name]
                number = plugin.ep_metadata.get("device_id", str(siblings.index(plugin)))
                return [(plugin.ep_name, {"device_id": number})]
    raise ValueError(
        f"no execution provider of ONNX Runtime {onnxruntime.__version__} here works on {device}: "
        f"it offers only {', '.join(offered)}"
    )
