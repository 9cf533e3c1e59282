"""PyTorch tensors as ONNX Runtime values and back without a copy, and ONNX models on tensors.

Importing this package attaches the ONNX Runtime inside the installed ``onnxruntime`` package (any
flavour of it) and registers ``torch.ops.ortdl`` and ``torch.classes.ortdl``.
"""

from ortdl_torch import _runtime

_runtime.attach()

# The names below live in modules that need the runtime, so attaching comes first.
from ortdl_torch import _fake  # noqa: E402
from ortdl_torch._C import (  # noqa: E402
    OrtError,
    from_dlpack,
    from_ortvalue,
    from_ortvalues,
    live_objects,
    to_dlpack,
    to_ortvalue,
    to_ortvalues,
)
from ortdl_torch.binding import IOBinding  # noqa: E402
from ortdl_torch.module import OnnxModule  # noqa: E402
from ortdl_torch.session import InferenceSession, NodeArg  # noqa: E402
from ortdl_torch.value import OrtValue  # noqa: E402

_fake.register()

__version__ = "0.1.0"

__all__ = [
    "IOBinding",
    "InferenceSession",
    "NodeArg",
    "OnnxModule",
    "OrtError",
    "OrtValue",
    "from_dlpack",
    "from_ortvalue",
    "from_ortvalues",
    "live_objects",
    "to_dlpack",
    "to_ortvalue",
    "to_ortvalues",
]
