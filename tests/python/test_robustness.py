"""Inputs and moments that a careful stranger tried: each was wrong once."""

import copy
import ctypes
import gc
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from models import unary
from support import in_new_process, refused

from ortdl_torch import InferenceSession, OrtValue, from_dlpack, from_ortvalue, to_ortvalue

HERE = Path(__file__).parent


def test_misaligned_tensor_is_copied_or_refused() -> None:
    buffer = bytearray(17)
    start = ctypes.addressof(ctypes.c_char.from_buffer(buffer)) % 4
    x = torch.frombuffer(
        buffer, dtype=torch.float32, offset=1 if start == 0 else 5 - start, count=3
    )
    if x.data_ptr() % 4 == 0:
        x = torch.frombuffer(buffer, dtype=torch.float32, offset=2, count=3)
    assert x.data_ptr() % 4 != 0
    with refused(ValueError, "aligned"):
        to_ortvalue(x)
    value = to_ortvalue(x, copy=None)
    assert value.data_ptr() % 4 == 0
    assert value.numpy().tolist() == [0, 0, 0]
    (y,) = InferenceSession(unary("Identity"))(x)
    assert y.tolist() == [0, 0, 0]


def test_emptied_stock_value_keeps_what_was_read() -> None:
    stock = onnxruntime.OrtValue.ortvalue_from_numpy(np.full(1 << 16, 3.0, np.float32))
    tensor = from_ortvalue(stock)
    stock._ortvalue = None
    stock._numpy_obj = None
    gc.collect()
    junk = [torch.full((1 << 16,), 7.0) for _ in range(16)]
    assert (tensor == 3).all()
    assert len(junk) == 16
    with refused(TypeError, "no value"):
        from_ortvalue(stock)


def test_lying_subclass_of_a_stock_value_is_not_asked() -> None:
    class Liar(onnxruntime.OrtValue):
        def data_ptr(self) -> int:
            return 64

        def shape(self) -> list[int]:
            return [1 << 40]

    honest = onnxruntime.OrtValue.ortvalue_from_numpy(np.arange(3, dtype=np.float32))
    assert from_ortvalue(Liar(honest._ortvalue, honest._numpy_obj)).tolist() == [0, 1, 2]


def test_update_in_inference_mode_is_seen_by_autograd() -> None:
    w = torch.ones(2, requires_grad=True)
    x = torch.full((2,), 2.0)
    loss = (w * x).sum()
    with torch.inference_mode():
        to_ortvalue(x).update_inplace(torch.full((2,), 7.0))
    assert x._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_update_from_overlapping_memory() -> None:
    memory = torch.arange(16.0)
    to_ortvalue(memory[1:]).update_inplace(memory[:15])
    assert memory.tolist() == [0.0, *range(15)]


def test_source_of_an_update_stays_resizable() -> None:
    source = torch.ones(2)
    OrtValue.ortvalue_from_shape_and_type([2], 1).update_inplace(source)
    assert source.resize_(1000).numel() == 1000


def test_providers_behind_the_cpu_are_not_used() -> None:
    names = ["CPUExecutionProvider", "AzureExecutionProvider"]
    assert InferenceSession(unary("Relu"), providers=names).get_providers() == names[:1]
    assert InferenceSession(unary("Relu"), providers=names[::-1]).get_providers() == names[::-1]


def test_no_output_names_mean_all_of_them() -> None:
    assert len(InferenceSession(unary("Relu")).run([], {"x": torch.ones(2)})) == 1


def test_path_with_a_nul_byte() -> None:
    with refused(ValueError, "path"):
        InferenceSession("model.onnx\0junk")


def test_path_that_is_no_utf8(tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"\xff.onnx")
    with open(path, "wb") as file:
        file.write(unary("Relu"))
    assert InferenceSession(os.fsdecode(path))(torch.tensor([-1.0]))[0].tolist() == [0]


SPAWN = """
import multiprocessing, sys
import torch
from ortdl_torch import InferenceSession

def work(session):
    print(session(torch.tensor([-1.0, 2.0]))[0].tolist(), flush=True)

if __name__ == "__main__":
    session = InferenceSession(sys.argv[1])
    process = multiprocessing.get_context("spawn").Process(target=work, args=(session,))
    process.start()
    process.join()
    sys.exit(process.exitcode)
"""


def test_session_goes_to_a_spawned_process(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(unary("Relu"))
    (tmp_path / "spawn.py").write_text(SPAWN)
    command = [sys.executable, str(tmp_path / "spawn.py"), str(tmp_path / "model.onnx")]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=120, cwd=HERE.parents[1]
    )
    assert (ended.returncode, ended.stdout) == (0, "[0.0, 2.0]\n"), ended.stderr


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        ("to_ortvalue(x, **{'\\ud800': 1})", TypeError),
        ("session(**{'\\ud800': x})", ValueError),
    ],
)
def test_names_that_are_no_text(call: str, kind: type[Exception]) -> None:
    session = InferenceSession(unary("Relu"))
    with refused(kind):
        eval(call, {"to_ortvalue": to_ortvalue, "session": session, "x": torch.ones(1)})


@pytest.mark.parametrize("cls", [OrtValue, InferenceSession])
def test_script_object_that_was_never_made(cls: type) -> None:
    with refused(TypeError, "initialised"):
        cls(torch.ScriptObject.__new__(torch.ScriptObject))


def test_empty_shape_with_huge_sizes() -> None:
    shape = [2**40, 2**40, 0]
    with refused(ValueError):
        OrtValue.ortvalue_from_shape_and_type(shape, 1)
    with refused(ValueError):
        OrtValue.from_packed(torch.empty(0, dtype=torch.uint8), 22, shape)


@pytest.mark.parametrize("element_type", [None, True])
def test_element_type_that_is_none(element_type: object) -> None:
    with refused(TypeError):
        OrtValue.ortvalue_from_shape_and_type([2], element_type)


def test_meta_tensor_is_refused_wherever_it_should_go() -> None:
    with refused(BufferError, "meta"):
        from_dlpack(torch.ones(2, device="meta"), device="cpu")


def test_pending_error_survives_a_deleter_in_python() -> None:
    code = """
import numpy as np
from dlpack_structs import Lent
from ortdl_torch import from_dlpack
lent = Lent(np.ones(2))
def both(value, number): pass
try:
    both(from_dlpack(lent.capsule()), 1 / 0)
except ZeroDivisionError:
    print("kept", lent.released)
"""
    ended: subprocess.CompletedProcess[str] = in_new_process(code, HERE)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "kept 1\n", "")


@pytest.mark.parametrize("use", ["to_ortvalue(o)", "session(o)", "value.update_inplace(o)"])
def test_what_only_says_that_it_is_a_tensor_is_none(use: str) -> None:
    class Pretender:
        __class__ = torch.Tensor  # type: ignore[assignment]

    session = InferenceSession(unary("Relu"))
    names = {"o": Pretender(), "session": session, "to_ortvalue": to_ortvalue}
    names["value"] = to_ortvalue(torch.ones(2))
    with refused(TypeError, "Pretender"):
        eval(use, names)


def test_a_shallow_copy_of_a_session_shares_it() -> None:
    session = InferenceSession(unary("Relu"))
    copied = copy.copy(session)
    assert copied is not session
    assert copied.script_object == session.script_object
    assert copied(torch.tensor([-1.0, 2.0]))[0].tolist() == [0.0, 2.0]
