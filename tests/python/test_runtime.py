"""Which runtime is used, what is said when there is none that fits, and the end of a process."""

from pathlib import Path

import onnxruntime
import pytest
import torch
from models import unary
from support import in_new_process, live

import ortdl_torch

WITHOUT = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "onnxruntime":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Block())
"""
REPORT = """
try:
    import ortdl_torch
except BaseException as e:
    print(type(e).__name__, e)
else:
    print("imported")
"""


def test_import_without_onnxruntime_names_it_and_the_command() -> None:
    done = in_new_process(WITHOUT + REPORT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ImportError "), done.stdout
    assert "onnxruntime" in done.stdout
    assert "pip install" in done.stdout


@pytest.mark.parametrize("register", ["pass", "raise RuntimeError('no such entry point')"])
def test_import_with_an_old_onnxruntime_names_its_version(tmp_path: Path, register: str) -> None:
    package = tmp_path / "onnxruntime"
    package.mkdir()
    (package / "__init__.py").write_text(
        "__version__ = '1.10.0'\n"
        "class SessionOptions:\n"
        "    def register_custom_ops_library(self, path):\n"
        f"        {register}\n"
    )
    done = in_new_process(REPORT, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ImportError "), done.stdout
    assert "onnxruntime" in done.stdout
    assert "1.10.0" in done.stdout


def test_another_torch_than_the_one_it_was_built_for_is_refused() -> None:
    done = in_new_process("import torch\ntorch.__version__ = '2.99.1+cpu'" + REPORT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ImportError "), done.stdout
    assert "built for torch 2." in done.stdout
    assert "2.99.1+cpu is installed" in done.stdout


@pytest.mark.parametrize(
    "first",
    [
        "import ortdl_torch, torch, onnxruntime",
        "import onnxruntime, torch, ortdl_torch",
    ],
)
def test_order_of_imports_does_not_matter(first: str) -> None:
    done = in_new_process(
        f"{first}\n"
        "v = ortdl_torch.to_ortvalue(torch.arange(3.0))\n"
        "assert ortdl_torch.from_ortvalue(v).tolist() == [0, 1, 2]\n"
        "o = onnxruntime.OrtValue.ortvalue_from_numpy(v.numpy())\n"
        "assert o.numpy().tolist() == [0, 1, 2]\n"
    )
    assert done.returncode == 0, done.stderr


def test_stock_sessions_stay_as_they_are(options: onnxruntime.SessionOptions) -> None:
    x = torch.tensor([-1.0, 2.0])
    stock = onnxruntime.InferenceSession(unary("Relu"), options)
    ours = ortdl_torch.InferenceSession(unary("Relu"), options)
    again = onnxruntime.InferenceSession(unary("Relu"), options)
    want = stock.run(None, {"x": x.numpy()})[0].tolist()
    assert ours(x)[0].tolist() == want == again.run(None, {"x": x.numpy()})[0].tolist()


def test_error_type_keeps_what_the_runtime_said() -> None:
    assert issubclass(ortdl_torch.OrtError, RuntimeError)
    with pytest.raises(ortdl_torch.OrtError) as caught:
        ortdl_torch.InferenceSession(b"not a model")
    assert caught.type is ortdl_torch.OrtError
    with pytest.raises(Exception) as stock:  # noqa: PT011 - its type is the runtime's affair
        onnxruntime.InferenceSession(b"not a model")
    # Stock's text is "[ONNXRuntimeError] : <code> : <name> : <message>".
    _, code, _, message = str(stock.value).split(" : ", 3)
    assert caught.value.code == int(code)
    assert message in str(caught.value)


def test_counters_have_their_three_names() -> None:
    assert sorted(ortdl_torch.live_objects()) == ["owners", "sessions", "values"]
    before = live()
    value = ortdl_torch.to_ortvalue(torch.ones(2))
    session = ortdl_torch.InferenceSession(unary("Relu"))
    grown = {k: v - before[k] for k, v in ortdl_torch.live_objects().items()}
    assert grown == {"values": 1, "owners": 1, "sessions": 1}
    del value, session
    assert live() == before


HELD = {
    "values": """
held = [L.to_ortvalue(torch.ones(9)), L.to_ortvalue(torch.from_numpy(np.ones(9)))]
views = [L.from_ortvalue(L.to_ortvalue(torch.ones(9))), L.to_ortvalue(torch.ones(3)).numpy()]
""",
    "sessions": """
session = L.InferenceSession(relu)
held = session(torch.ones(3))
torch.held = L.InferenceSession(relu)
""",
    "script objects in a cycle": """
held = [L.to_ortvalue(torch.ones(3)).script_object, L.InferenceSession(relu).script_object]
held.append(held)
""",
    "threads": """
local = threading.local()
local.held = L.to_ortvalue(torch.ones(3))
waits = lambda *held: threading.Event().wait()
held = [L.to_ortvalue(torch.from_numpy(np.ones(9))), L.InferenceSession(relu)]
threading.Thread(target=waits, args=held, daemon=True).start()
""",
    "atexit": """
atexit.register(lambda v, s: s(L.from_ortvalue(v)), L.to_ortvalue(torch.ones(3)),
    L.InferenceSession(relu))
""",
}


@pytest.mark.parametrize("what", HELD)
def test_process_ends_well_with_objects_alive(what: str) -> None:
    done = in_new_process(
        "import atexit, threading, numpy as np, torch, ortdl_torch as L\n"
        f"relu = {unary('Relu')!r}\n{HELD[what]}print('end')\n"
    )
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr
