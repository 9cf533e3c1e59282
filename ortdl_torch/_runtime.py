"""The door to the ONNX Runtime that the installed ``onnxruntime`` package contains."""

from __future__ import annotations

import atexit
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ortdl_torch import _C

if TYPE_CHECKING:
    import onnxruntime

OLDEST_RUNTIME = (1, 24)


def _check_version(version: str) -> None:
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < OLDEST_RUNTIME:
        oldest = ".".join(map(str, OLDEST_RUNTIME))
        raise ImportError(
            f"ortdl_torch needs onnxruntime {oldest} or newer, but {version} is installed: "
            "run `pip install --upgrade onnxruntime`"
        )


def _check_torch(version: str) -> None:
    # Another minor version may load, and do anything: its classes have other members.
    if version.split(".")[:2] != _C.torch_version.split(".")[:2]:
        raise ImportError(
            f"ortdl_torch was built for torch {_C.torch_version}, but {version} is installed: "
            "build it again with that, or install the torch that it was built for"
        )


def _require_gil() -> None:
    # Python 3.13 built without it takes it up for an extension such as ours, unless told not to.
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        raise ImportError(
            "ortdl_torch needs Python's global interpreter lock, and this Python runs without it: "
            "leave PYTHON_GIL=0 and -X gil=0 out"
        )


def attach() -> None:
    """Attach the runtime of the installed ``onnxruntime`` package.

    Raises:
        ImportError: the extension was built for another torch, no onnxruntime is installed, it is
            too old, another ONNX Runtime is in use in this process already, or Python runs
            without its global interpreter lock.
    """
    _require_gil()
    _check_torch(torch.__version__)
    try:
        import onnxruntime
    except ImportError as error:
        raise ImportError(
            "ortdl_torch needs the onnxruntime package, and importing it failed "
            f"({error}): run `pip install onnxruntime` (or the flavour for your device)"
        ) from error
    _check_version(onnxruntime.__version__)
    try:
        capture_options(onnxruntime.SessionOptions())
    except Exception as error:
        raise ImportError(
            f"ortdl_torch cannot use onnxruntime {onnxruntime.__version__}: {error}"
        ) from error
    _C.drop_captured_options()
    native: Any = onnxruntime.capi.onnxruntime_pybind11_state
    made: Any = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(1, np.float32))
    _C.set_stock_classes(onnxruntime.OrtValue, native.OrtValue, made._ortvalue)
    _C.set_options_classes(onnxruntime.RunOptions, onnxruntime.SessionOptions)
    # The thread that releases Python's memory must not ask for the GIL of an ending interpreter.
    atexit.register(_C.stop_release_queue)
    # Done before the above: what ends now still has to tell Python.
    atexit.register(_C.end_runs_in_flight)


def capture_options(options: onnxruntime.SessionOptions) -> None:
    """Hand ``options`` to the extension, which keeps a clone for the next session of this thread.

    onnxruntime loads the library that it is told holds custom operators and calls it with the
    options and its API table. The extension is that library, and registers no operator.
    """
    options.register_custom_ops_library(_C.__file__)
