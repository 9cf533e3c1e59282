"""The floor: the bare C calls, in an extension module that is compiled when it has changed."""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path
from types import ModuleType

import onnxruntime
from torch.utils import cpp_extension

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "bench"
SOURCES = (
    ROOT / "benchmarks" / "floor.cpp",
    ROOT / "benchmarks" / "empty_op.cpp",
    ROOT / "csrc" / "ortdl" / "element_type.cpp",
    ROOT / "csrc" / "ortdl" / "runtime.cpp",
)

sys.path.append(str(ROOT / "tools"))
import headers  # noqa: E402


def load() -> ModuleType:
    """Compile it into build/bench unless it is there already, and load it.

    Returns:
        The module, attached to the ONNX Runtime that Python uses. Its ``time_*`` functions make a
        number of calls and return the nanoseconds of all of them together. It registers the op
        ``torch.ops.ortdl_floor.run``, which does nothing.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    # ninja is installed beside this interpreter, which need not be on the path.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    include = headers.find(headers.DEPENDENCIES["onnxruntime"])
    with (FOLDER.parent / "bench.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # PyTorch's own lock outlives a process that was killed; ours does not.
        (FOLDER / "lock").unlink(missing_ok=True)
        module: ModuleType = cpp_extension.load(
            "ortdl_floor",
            [str(source) for source in SOURCES],
            extra_cflags=["-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", f"-isystem{include}"],
            extra_include_paths=[str(ROOT / "csrc")],
            build_directory=str(FOLDER),
            with_cuda=False,
        )
    if module.__file__ is None:
        raise ImportError("the floor was not loaded from a file")
    onnxruntime.SessionOptions().register_custom_ops_library(module.__file__)
    return module
