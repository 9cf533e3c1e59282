"""Values on CUDA devices and the host: arrays, copies and updates, in order.

On the emulator a copy that does not wait has stale bytes. Seen to fail there without the event
(`done.block(later)` taken out of csrc/ortdl/stream.cpp):

- test_an_array_of_a_value_has_its_elements
- test_update_waits_for_both_sides
- test_readers_wait_for_an_update
"""

import os
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
import torch
from emulator import needs_emulator
from exchange import Pending, on
from support import refused

from ortdl_torch import OrtValue, from_dlpack, from_ortvalue, to_ortvalue

DEVICE = "cuda:0"


@pytest.fixture
def pending() -> Pending:
    """Elements on their way on a stream of the first device."""
    return Pending(torch.cuda.Stream(DEVICE))


def value_of(pending: Pending) -> OrtValue:
    """A value whose elements are made on the stream of `pending`."""
    with torch.cuda.stream(pending.stream):
        return to_ortvalue(pending.tensor)


def test_an_array_of_a_value_has_its_elements(pending: Pending) -> None:
    value = value_of(pending)
    assert value.numpy().tolist() == pending.elements
    assert np.asarray(value).tolist() == pending.elements
    assert np.array(value, dtype=np.float64, copy=True).tolist() == pending.elements


def test_an_array_of_a_value_is_a_copy_of_its_own(pending: Pending) -> None:
    value = value_of(pending)
    array = value.numpy()
    array[:] = 0
    assert array.flags.writeable
    assert value.numpy().tolist() == pending.elements
    with refused(ValueError, "copy", "cuda:0"):
        np.asarray(value, copy=False)


@pytest.mark.parametrize(("number", "count"), [(22, 3), (21, 3), (23, 4), (26, 7)])
def test_packed_elements_are_unpacked(number: int, count: int) -> None:
    memory = torch.tensor([0x21, 0x43], dtype=torch.uint8)
    here = OrtValue.from_packed(memory, number, [count])
    there = from_dlpack(here, device=DEVICE)
    assert (there.device, there.shape()) == (torch.device(DEVICE), [count])
    assert there.numpy().tolist() == here.numpy().tolist()
    assert there.packed().tolist() == memory.tolist()


def test_bfloat16() -> None:
    tensor = torch.arange(8, dtype=torch.bfloat16)
    value = from_dlpack(tensor, device=DEVICE)
    assert value.numpy().astype(np.float32).tolist() == tensor.float().tolist()


def test_pairs_of_float4() -> None:
    tensor = torch.tensor([0x21, 0x43], dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    value = from_dlpack(tensor, device=DEVICE)
    assert (value.shape(), value.device) == ([4], torch.device(DEVICE))
    assert value.packed().tolist() == [0x21, 0x43]


@pytest.mark.parametrize("device", [("cuda", 0), ("CUDA", 1)], ids=str)
def test_values_from_arrays(two_devices: None, device: tuple[str, int]) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3).T
    value = OrtValue.ortvalue_from_numpy(array, *device)
    assert value.device == torch.device("cuda", device[1])
    assert (value.shape(), value.device_name()) == ([3, 2], "cuda")
    assert value.numpy().tolist() == array.tolist()


@pytest.mark.parametrize("number", [1, 22])
def test_values_from_shapes(two_devices: None, number: int) -> None:
    value = OrtValue.ortvalue_from_shape_and_type([2, 4], number, "cuda", 1)
    assert value.device == torch.device("cuda:1")
    assert (value.shape(), value.element_type()) == ([2, 4], number)
    value.packed().copy_(torch.ones(value.tensor_size_in_bytes(), dtype=torch.uint8))
    assert value.packed().tolist() == [1] * value.tensor_size_in_bytes()


@pytest.mark.parametrize("device", [("cuda", 200), ("cuda", -1), ("hip", 0)], ids=str)
def test_no_value_is_made_on_a_device_that_is_not_there(device: tuple[str, int]) -> None:
    with refused(ValueError):
        OrtValue.ortvalue_from_numpy(np.ones(2), *device)
    with refused(ValueError):
        OrtValue.ortvalue_from_shape_and_type([2], np.float32, *device)


@pytest.mark.parametrize("kind", ["tensor", "array", "value", "stock"])
def test_update_from_the_host(pending: Pending, kind: str) -> None:
    array = np.arange(64, dtype=np.float32)
    source = {
        "tensor": torch.from_numpy(array),
        "array": array,
        "value": OrtValue.ortvalue_from_numpy(array),
        "stock": onnxruntime.OrtValue.ortvalue_from_numpy(array),
    }[kind]
    value = value_of(pending)
    value.update_inplace(source)
    assert value.numpy().tolist() == array.tolist()
    assert on(pending.stream, pending.tensor) == array.tolist()


def test_update_of_the_host(pending: Pending) -> None:
    here = to_ortvalue(torch.zeros(64))
    here.update_inplace(value_of(pending))
    assert here.numpy().tolist() == pending.elements


def test_update_waits_for_both_sides(pending: Pending) -> None:
    target, stream = Pending(torch.cuda.Stream(DEVICE)), torch.cuda.Stream(DEVICE)
    value, source = value_of(target), value_of(pending)
    with torch.cuda.stream(stream):
        value.update_inplace(source)
    assert on(stream, from_ortvalue(value)) == pending.elements


def test_readers_wait_for_an_update(pending: Pending) -> None:
    """Who reads on the stream that made the value sees what another stream wrote into it."""
    target, stream = Pending(torch.cuda.Stream(DEVICE)), torch.cuda.Stream(DEVICE)
    value, source = value_of(target), value_of(pending)
    with torch.cuda.stream(stream):
        value.update_inplace(source)
    assert on(target.stream, target.tensor) == pending.elements


def test_update_between_devices(two_devices: None, pending: Pending) -> None:
    value = to_ortvalue(torch.zeros(64, device="cuda:1"))
    value.update_inplace(value_of(pending))
    assert value.numpy().tolist() == pending.elements


def test_an_update_is_a_write_to_the_tensor(pending: Pending) -> None:
    value, before = value_of(pending), pending.tensor._version
    value.update_inplace(torch.zeros(64))
    assert pending.tensor._version > before


def test_what_does_not_fit_is_refused(pending: Pending) -> None:
    value = value_of(pending)
    with refused(ValueError, "shape"):
        value.update_inplace(torch.zeros(3))
    with refused(TypeError, "double"):
        value.update_inplace(torch.zeros(64, dtype=torch.float64))


GIL = """
import ctypes, faulthandler, sys, threading
import torch
from ortdl_torch import from_dlpack, to_ortvalue

# If the wait holds the GIL, the other thread never ends it: this ends the process instead.
faulthandler.dump_traceback_later(60, exit=True)
libc = ctypes.CDLL(None)
gate = ctypes.create_string_buffer(64)  # a sem_t
assert libc.sem_init(gate, 0, 0) == 0
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    tensor = torch.arange(8.0).pin_memory().to("cuda", non_blocking=True)
    value = to_ortvalue(tensor)
    # The device's next work ends when the gate is opened.
    work = ctypes.cast(libc.sem_wait, ctypes.c_void_p)
    handle = ctypes.c_void_p(stream.cuda_stream)
    assert libc.cudaLaunchHostFunc(handle, work, ctypes.byref(gate)) == 0
    waiting = threading.Event()

    def open_later():
        waiting.wait()
        libc.sem_post(gate)

    opener = threading.Thread(target=open_later)
    opener.start()
    sys.setswitchinterval(1000)  # from here on the GIL is only lent by who waits
    waiting.set()
    WAIT
opener.join()
print(*made)
"""
WAITS = {
    "numpy": "made = value.numpy().tolist()",
    "export": "made = torch.from_dlpack(value.__dlpack__(dl_device=(1, 0))).tolist()",
    "import": "made = from_dlpack(value, device='cpu').numpy().tolist()",
    "import of a tensor": "made = from_dlpack(tensor, device='cpu').numpy().tolist()",
    "update": "here = to_ortvalue(torch.zeros(8)); here.update_inplace(value); "
    "made = here.numpy().tolist()",
}


@needs_emulator
@pytest.mark.parametrize("name", WAITS)
def test_other_threads_run_while_the_host_waits(name: str) -> None:
    """The device's work ends only when another Python thread lets it."""
    code = GIL.replace("WAIT", WAITS[name])
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "0.0 1.0 2.0 3.0 4.0 5.0 6.0 7.0\n"), (
        ended.stderr
    )
