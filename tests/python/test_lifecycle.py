"""How a process may begin, import again, be forked or replaced, and end while things are in use."""

import shutil
from pathlib import Path

import onnxruntime
import pytest
from models import counting_loop, unary
from support import ROOT, in_new_process

import ortdl_torch

START = f"""
import gc, importlib, os, sys, threading, time
import numpy as np, onnxruntime, torch, ortdl_torch
options = onnxruntime.SessionOptions()
options.log_severity_level = 4
session = ortdl_torch.InferenceSession({unary("Neg")!r}, options)
forever = ortdl_torch.InferenceSession({counting_loop()!r}, options)
x, y = torch.tensor([-1.0, 2.0]), torch.empty(2)
value = ortdl_torch.to_ortvalue(x)

def forget(package):
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        del sys.modules[name]

def works(package):
    shared = package.from_ortvalue(package.to_ortvalue(x)).data_ptr() == x.data_ptr()
    made = package.InferenceSession({unary("Relu")!r})
    return shared and made(x)[0].tolist() == [0, 2] and package.from_ortvalue(value) is not None
"""


def output_of(code: str, *path: Path) -> str:
    """What a process prints that ends well and says nothing else."""
    done = in_new_process(START + code, *path)
    assert (done.returncode, done.stderr) == (0, ""), (done.returncode, done.stdout, done.stderr)
    return done.stdout


# Nothing here calls PyTorch or onnxruntime, whose own functions abort in such threads.
DAEMONS = {
    "in a run": """
def work():
    forever.run_into([total], [torch_zero, turns])
torch_zero, turns, total = torch.zeros(1), torch.tensor(2**62), torch.zeros(1)
""",
    "in many runs": """
binding = session.io_binding()
binding.bind_input("x", x)
binding.bind_output("y", torch.empty(2))
def bound():
    while True: session.run_with_iobinding(binding)
def work():
    while True: session.run_into([y], [x])
threading.Thread(target=bound, daemon=True).start()
""",
    "making values and sessions": """
def make():
    while True: ortdl_torch.InferenceSession(session_bytes, options)
def work():
    while True:
        np.from_dlpack(ortdl_torch.to_ortvalue(x, copy=True))
        value.update_inplace(y)
        ortdl_torch.from_dlpack(np.ones(3))
session_bytes = session.script_object.__getstate__()[0][1][0][2].numpy().tobytes()
threading.Thread(target=make, daemon=True).start()
""",
}


@pytest.mark.parametrize("busy", DAEMONS)
def test_the_interpreter_ends_while_daemon_threads_work(busy: str) -> None:
    start = "for _ in range(3): threading.Thread(target=work, daemon=True).start()\n"
    assert output_of(f"{DAEMONS[busy]}{start}time.sleep(0.2)\nprint('end')") == "end\n"


def test_imported_again() -> None:
    again = """
print(works(importlib.reload(ortdl_torch)))
forget("ortdl_torch")
gc.collect()
print(session(x)[0].tolist(), value.numpy().tolist())
import ortdl_torch as another
print(another is ortdl_torch, works(another), works(ortdl_torch))
module = another.OnnxModule(another.InferenceSession(session.script_object))
print(torch.export.export(module, (x,)).module()(x).tolist())
"""
    lines = ["True", "[1.0, -2.0] [-1.0, 2.0]", "False True True", "[1.0, -2.0]"]
    assert output_of(again).splitlines() == lines


def test_imported_from_another_folder(tmp_path: Path) -> None:
    shutil.copytree(Path(ortdl_torch.__file__).parent, tmp_path / "ortdl_torch")
    again = f"""
forget("ortdl_torch")
sys.path.insert(0, {str(tmp_path)!r})
import ortdl_torch as another
print(another.__file__ != ortdl_torch.__file__, works(another), works(ortdl_torch))
"""
    assert output_of(again) == "True True True\n"


LIBRARY = ROOT / "build/cmake/libortdl.so"


@pytest.mark.skipif(not LIBRARY.is_file(), reason="the C++ library was not built")
def test_the_cpp_library_before_python_s(tmp_path: Path) -> None:
    code = f"""
import ctypes, torch
ctypes.CDLL({str(LIBRARY)!r})
try:
    import ortdl_torch
except ImportError as error:
    print(error)
"""
    done = in_new_process(code)
    assert (done.returncode, done.stderr) == (0, "")
    assert "another copy of ortdl is in this process" in done.stdout


@pytest.mark.skipif(not LIBRARY.is_file(), reason="the C++ library was not built")
def test_the_cpp_library_after_python_s() -> None:
    code = f"""
import ctypes
ctypes.CDLL({str(LIBRARY)!r})
print(works(ortdl_torch))
"""
    assert output_of(code) == "True\n"


def test_onnxruntime_imported_from_another_folder(tmp_path: Path) -> None:
    shutil.copytree(Path(onnxruntime.__file__).parent, tmp_path / "onnxruntime")
    code = f"""
forget("onnxruntime")
gc.collect()
print(works(ortdl_torch))
sys.path.insert(0, {str(tmp_path)!r})
import onnxruntime as second
print(second.__file__ != onnxruntime.__file__, works(ortdl_torch))
print(session.run(None, {{"x": x}}, second.RunOptions())[0].tolist())
foreign = second.OrtValue.ortvalue_from_numpy(x.numpy())
try:
    session(foreign)
except TypeError as error:
    print("onnxruntime.OrtValue" in str(error))
"""
    assert output_of(code).splitlines() == ["True", "True True", "[1.0, -2.0]", "True"]


def test_forked_before_use_and_replaced_after() -> None:
    code = f"""
import os, sys
import torch, ortdl_torch
def use():
    session = ortdl_torch.InferenceSession({unary("Neg")!r})
    print(session(ortdl_torch.from_ortvalue(ortdl_torch.to_ortvalue(torch.ones(1)))), flush=True)
    return session
child = os.fork()
if child == 0:
    use()
    os._exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
kept = use()
os.execv(sys.executable, [sys.executable, "-c", "print('another program')"])
"""
    done = in_new_process(code)
    assert (done.returncode, done.stderr) == (0, "")
    run = "(tensor([-1.]),)"
    assert done.stdout.splitlines() == [run, "0", run, "another program"]


def test_a_python_without_the_gil_is_refused_by_name() -> None:
    code = """
import sys
sys._is_gil_enabled = lambda: False
try:
    import ortdl_torch
except ImportError as error:
    print(error)
"""
    done = in_new_process(code)
    assert (done.returncode, done.stderr) == (0, "")
    assert "global interpreter lock" in done.stdout
    assert "PYTHON_GIL=0" in done.stdout
