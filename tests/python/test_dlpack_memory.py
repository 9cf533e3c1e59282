"""Memory that Python owns: released once, from any thread, soon, and never at the wrong time."""

import ctypes
import os
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from dlpack_structs import LEGACY, USED_LEGACY, Lent, get_pointer, rename, struct_of
from models import unary
from support import eventually, in_new_process, live, refused

from ortdl_torch import InferenceSession, OrtValue, from_dlpack, from_ortvalue, to_dlpack

HERE = Path(__file__).parent
MIB = 1 << 20
release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)  # a call of it is without the GIL
libc = ctypes.CDLL(None, use_errno=True)


def resident() -> int:
    """Bytes of this process that are in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def taken(value: OrtValue) -> tuple[object, int]:
    """The deleter and the struct of a capsule of `value`, as a C consumer takes them."""
    capsule = to_dlpack(value)
    address = get_pointer(capsule, LEGACY)
    rename(capsule, USED_LEGACY)
    return release(struct_of(capsule).deleter), address


def drop_without_gil(value: OrtValue) -> None:
    """Let the last holder of `value`'s memory go while this thread is without the GIL."""
    deleter, address = taken(value)
    del value
    deleter(address)


def blocked_until(done: threading.Event, work: list[threading.Thread]) -> None:
    """Keep this thread in one C call, without the GIL, until `work` is over."""
    reader, writer = os.pipe()

    def tell() -> None:
        for thread in work:
            thread.join()
        done.set()
        os.write(writer, b"x")

    teller = threading.Thread(target=tell)
    for thread in (*work, teller):
        thread.start()
    assert libc.read(reader, ctypes.create_string_buffer(1), ctypes.c_size_t(1)) == 1
    teller.join()
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("holder", ["struct", "tensor", "value"])
def test_ten_thousand_arrays_do_not_pile_up(holder: str) -> None:
    before = live()
    peak: list[int] = []

    def work() -> None:
        for k in range(5_000):
            value = from_dlpack(np.full(MIB, k % 251, np.uint8))
            if holder == "struct":
                drop_without_gil(value)
            elif holder == "tensor":
                value = from_ortvalue(value)
            del value
            if k % 50 == 0:
                peak.append(resident())

    start = resident()
    blocked_until(threading.Event(), [threading.Thread(target=work) for _ in range(2)])
    assert max(peak) - start < 64 * MIB
    assert resident() - start < 64 * MIB
    assert eventually(lambda: live() == before)


def test_arrays_are_released_while_a_model_runs() -> None:
    before = live()
    session = InferenceSession(unary("Erf", [None]))
    x = torch.rand(1 << 24)
    released_meanwhile, running = [], threading.Event()
    lents = [Lent(np.ones(4)) for _ in range(100)]

    def work() -> None:
        running.wait()
        for lent in lents:
            drop_without_gil(from_dlpack(lent.capsule()))
        eventually(lambda: all(lent.released for lent in lents))
        released_meanwhile.append([lent.released for lent in lents])

    thread = threading.Thread(target=work)
    thread.start()
    running.set()
    while not released_meanwhile:
        session(x)
    thread.join()
    assert released_meanwhile == [[1] * 100]
    del session
    assert live() == before


@pytest.mark.parametrize("threads", [1, 8])
def test_deleters_run_exactly_once(threads: int) -> None:
    a = np.ones(4)
    lents = [Lent(a, versioned=k % 2 == 0) for k in range(400)]
    names = [set() for _ in range(threads)]

    def work(part: int) -> None:
        for lent in lents[part::threads]:
            value = from_dlpack(lent.capsule())
            holders = [from_ortvalue(value), value.numpy(), to_dlpack(value)]
            drop_without_gil(value)
            del value
            holders.pop(part % 3)
            names[part].add(len(holders))

    blocked_until(
        threading.Event(), [threading.Thread(target=work, args=(k,)) for k in range(threads)]
    )
    assert eventually(lambda: all(lent.released >= 1 for lent in lents))
    assert [lent.released for lent in lents] == [1] * len(lents)


def test_release_with_the_gil_is_at_once() -> None:
    lent = Lent(np.ones(4))
    value = from_dlpack(lent.capsule())
    assert lent.released == 0
    del value
    assert lent.released == 1


def test_deleter_that_uses_the_library_does_not_lock_up() -> None:
    done = []

    class Last:
        def __del__(self) -> None:
            inner = from_dlpack(np.ones(3))
            drop_without_gil(from_dlpack(np.ones(3)))
            done.append(from_ortvalue(inner).sum().item())

    for k in range(20):
        lent = Lent(np.ones(4))
        lent.last = Last()
        value = from_dlpack(lent.capsule())
        lent.buffer = None
        if k % 2:
            drop_without_gil(value)
        del value
        assert eventually(lambda lent=lent: lent.released == 1)
        del lent.last
    assert eventually(lambda: len(done) == 20)
    assert done == [3.0] * 20


@pytest.mark.parametrize("copy", [None, False, True])
def test_refused_sources_leave_nothing(copy: bool | None) -> None:
    before = live()
    a = np.ones((3, 3), np.complex64)
    references = sys.getrefcount(a)
    for _ in range(200):
        with refused(TypeError):
            from_dlpack(a, copy=copy)
    assert sys.getrefcount(a) == references
    b = np.ones(6)[::2]
    references = sys.getrefcount(b)
    for _ in range(200):
        with refused(ValueError):
            from_dlpack(b, copy=False)
        from_dlpack(b, copy=True)
    assert sys.getrefcount(b) == references
    assert live() == before


START = """
import ctypes, threading, sys, os, time, atexit
import numpy as np, torch, ortdl_torch
from ortdl_torch import *
from test_dlpack_memory import *
"""
EXITS = {
    "everything alive": """
class Node: pass
for _ in range(100):
    n = Node(); n.me = n; n.value = from_dlpack(np.ones(1 << 16))
sys.kept = torch.kept = [from_dlpack(np.ones(9))]
kept = [from_dlpack(np.ones(1 << 16)) for _ in range(100)]
tensors = [from_ortvalue(from_dlpack(np.ones(1 << 16))) for _ in range(100)]
""",
    "releases pending": """
structs = [taken(from_dlpack(np.ones(16))) for _ in range(100)]
atexit.register(lambda: [deleter(address) for deleter, address in structs])
sys.setswitchinterval(1000)
for _ in range(1000):
    drop_without_gil(from_dlpack(np.ones(16)))
""",
    "a daemon thread drops": """
def work():
    while True:
        drop_without_gil(from_dlpack(np.ones(1 << 10)))
for _ in range(4): threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
""",
}


@pytest.mark.parametrize("how", EXITS)
def test_exit_neither_crashes_nor_waits(how: str) -> None:
    start = time.monotonic()
    ended = in_new_process(f"{START}{EXITS[how]}\nprint('end')", HERE)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "end\n", "")
    assert time.monotonic() - start < 60


FORKS = {
    "releases pending": """
kept = from_dlpack(np.arange(4.0))
for _ in range(1000): drop_without_gil(from_dlpack(np.ones(16)))
""",
}
CHILD = """
import warnings; warnings.simplefilter("ignore")
codes = []
for _ in range(5):
    child = os.fork()
    if child == 0:
        assert from_ortvalue(kept).tolist() == [0, 1, 2, 3]
        lent = Lent(np.ones(4))
        drop_without_gil(from_dlpack(lent.capsule()))
        assert eventually(lambda: lent.released == 1, 10)
        del kept
        sys.stdout.flush()
        os._exit(0)
    codes.append(os.waitpid(child, 0)[1])
stop = True
lent = Lent(np.ones(4))
drop_without_gil(from_dlpack(lent.capsule()))
assert eventually(lambda: lent.released == 1, 10)
print(codes)
"""


@pytest.mark.parametrize("how", FORKS)
def test_fork(how: str) -> None:
    ended = in_new_process(f"{START}{FORKS[how]}{CHILD}", HERE)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "[0, 0, 0, 0, 0]\n", "")


def test_exit_leaves_slow_deleters_undone() -> None:
    code = (
        START
        + """
class Slow:
    def __del__(self):
        time.sleep(0.1)
        print("released", flush=True)

class Array(np.ndarray):
    pass

def one():
    array = np.ones(4).view(Array)
    array.slow = Slow()
    return from_dlpack(array)

values = [one() for _ in range(100)]
while values:
    drop_without_gil(values.pop())
"""
    )
    ended = in_new_process(code.replace("import ", "import time, ", 1), HERE)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.count("released") < 100
