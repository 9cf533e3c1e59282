"""Sessions on the fake GPU provider of tests/fake_gpu_ep, and what its devices were asked to do.

Everything here is emulated: the provider's kernels are loops, queued on streams of the emulator.
"""

import ctypes
import functools
import os
from collections.abc import Sequence
from typing import Any

import onnxruntime
import pytest
import torch
from emulator import LIBRARY
from models import info, model
from onnx import helper

from ortdl_torch import InferenceSession

PATH = os.environ.get("FAKE_GPU_EP")
needs_provider = pytest.mark.skipif(
    PATH is None, reason="no FAKE_GPU_EP: the fake provider works on emulated devices only"
)
PLUGIN = "FakeGpuExecutionProvider"
# The name of ONNX Runtime's own: such a provider is given a stream and PyTorch's allocator.
NATIVE = "CUDAExecutionProvider"
CPU = "CPUExecutionProvider"
# How a session gets its provider: by either name, or by the devices in its options.
KINDS = ["plugin", "native", "devices"]


class Counters(ctypes.Structure):
    """FakeGpuEpCounters of fake_gpu_ep.h."""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "host_to_device",
            "device_to_host",
            "device_to_device",
            "computes",
            "allocations",
            "external",
            "stream_waits",
            "allocations_alive",
            "pending",
        )
    ]

    @property
    def copies(self) -> int:
        """Copies of whichever kind."""
        return int(self.host_to_device + self.device_to_host + self.device_to_device)


class Operand(ctypes.Structure):
    """FakeGpuEpTensor: where a kernel found a tensor; the host's device is -1."""

    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32)]


class Compute(ctypes.Structure):
    """FakeGpuEpCompute: one kernel that was asked for."""

    _fields_ = [
        ("op", ctypes.c_char * 16),
        ("device", ctypes.c_int32),
        ("input_count", ctypes.c_uint32),
        ("stream", ctypes.c_void_p),
        ("inputs", Operand * 2),
        ("output", Operand),
    ]


@functools.cache
def library() -> ctypes.CDLL:
    """The provider's library, registered under both names with as many devices as PyTorch has."""
    assert PATH is not None
    os.environ["FAKE_GPU_DEVICES"] = str(torch.cuda.device_count())
    for name in (PLUGIN, NATIVE):
        os.environ["FAKE_GPU_NAME"] = name
        onnxruntime.register_execution_provider_library(name, PATH)
    loaded = ctypes.CDLL(PATH)
    loaded.fake_gpu_ep_compute.argtypes = [ctypes.c_size_t, ctypes.c_void_p]
    loaded.fake_gpu_ep_log.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    loaded.fake_gpu_ep_log.restype = ctypes.c_size_t
    return loaded


def reset() -> None:
    """Forget what the provider did."""
    library().fake_gpu_ep_reset()


def counters() -> Counters:
    """The counts since the last reset."""
    counts = Counters()
    library().fake_gpu_ep_counters(ctypes.byref(counts))
    return counts


def compute(index: int = 0) -> Compute:
    """The kernel number `index` that was asked for since the last reset."""
    found = Compute()
    assert library().fake_gpu_ep_compute(index, ctypes.byref(found)) == 1, f"no kernel {index}"
    return found


def log() -> str:
    """What happened since the last reset, a line each."""
    size = library().fake_gpu_ep_log(None, 0) + 1
    text = ctypes.create_string_buffer(size)
    library().fake_gpu_ep_log(text, size)
    return text.value.decode()


def advance(done: Compute) -> None:
    """Let the device do what is queued on a kernel's stream, before anybody waits for it."""
    with torch.cuda.device(done.device):
        LIBRARY.cuda_emulator_run(ctypes.c_void_p(done.stream))


def add() -> bytes:
    """sum = left + right."""
    return model(
        [helper.make_node("Add", ["left", "right"], ["sum"])],
        [info("left"), info("right")],
        [info("sum")],
    )


def options() -> onnxruntime.SessionOptions:
    """Options that leave each node to the provider's own kernel, and log nothing."""
    made = onnxruntime.SessionOptions()
    made.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    made.log_severity_level = 4
    return made


def ep_devices(name: str, index: int) -> Sequence[onnxruntime.OrtEpDevice]:
    """ONNX Runtime's objects for one device of the provider `name`."""
    library()
    return [
        device
        for device in onnxruntime.get_ep_devices()
        if device.ep_name == name and device.ep_metadata["device_id"] == str(index)
    ]


def session(
    kind: str = "plugin",
    source: bytes | None = None,
    device: int = 1,
    sess_options: onnxruntime.SessionOptions | None = None,
    given: dict[str, Any] | None = None,
    **keywords: Any,
) -> InferenceSession:
    """A session, that adds unless `source` says otherwise.

    Args:
        kind: one of `KINDS`.
        source: the model.
        device: the number of the device it works on.
        sess_options: instead of `options()`.
        given: more options of the provider.
        keywords: for the session.
    """
    library()
    made = options() if sess_options is None else sess_options
    source = add() if source is None else source
    if kind == "devices":
        made.add_provider_for_devices(ep_devices(PLUGIN, device), given or {})
        return InferenceSession(source, made, **keywords)
    name = name_of(kind)
    pair = (name, {"device_id": device, **(given or {})})
    return InferenceSession(source, made, providers=[pair], **keywords)


def name_of(kind: str) -> str:
    """The provider's name in sessions of this kind."""
    return NATIVE if kind == "native" else PLUGIN
