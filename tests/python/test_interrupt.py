"""Ctrl-C ends a run of the main thread with KeyboardInterrupt, and nothing else is different."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
import torch
from models import counting_loop, unary
from onnxruntime import RunOptions
from support import in_new_process

from ortdl_torch import InferenceSession, OnnxModule

FOREVER = torch.tensor(2**62)
SOME = torch.tensor(200_000)  # turns that are not over when the signal comes
START = torch.zeros(1)


@pytest.fixture(autouse=True)
def same_handler() -> Iterator[None]:
    """The handler of SIGINT is Python's own, before and after each test."""
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    yield
    signal.signal(signal.SIGINT, signal.default_int_handler)
    time.sleep(0.01)  # it is looked at every 5 milliseconds


@contextmanager
def signal_soon() -> Iterator[None]:
    """SIGINT comes to the process while the body runs."""

    def send() -> None:
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        sender.join()


def run_into(session: InferenceSession, turns: torch.Tensor) -> torch.Tensor:
    """The loop's result, written into a tensor."""
    total = torch.empty(1)
    session.run_into([total], [START, turns])
    return total


def run_bound(session: InferenceSession, turns: torch.Tensor) -> torch.Tensor:
    """The loop's result, by a binding."""
    binding = session.io_binding()
    binding.bind_input("start", START)
    binding.bind_input("turns", turns)
    binding.bind_output("total", torch.empty(1))
    session.run_with_iobinding(binding)
    return torch.from_numpy(binding.copy_outputs_to_cpu()[0])


WAYS = {
    "call": lambda session, turns: session(START, turns)[0],
    "run": lambda session, turns: session.run(None, {"start": START, "turns": turns})[0],
    "run_into": run_into,
    "binding": run_bound,
    "module": lambda session, turns: OnnxModule(session)(START, turns),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_run_ends_and_the_session_works_on(way: str) -> None:
    session = InferenceSession(counting_loop())
    with signal_soon(), pytest.raises(KeyboardInterrupt):
        WAYS[way](session, FOREVER)
    assert WAYS[way](session, torch.tensor(3)).tolist() == [3]


def test_options_of_the_caller_are_as_before() -> None:
    session = InferenceSession(counting_loop())
    options = RunOptions()
    feeds = {"start": START, "turns": FOREVER}
    with signal_soon(), pytest.raises(KeyboardInterrupt):
        session.run(None, feeds, options)
    assert not options.terminate
    assert session.run(None, {**feeds, "turns": torch.tensor(2)}, options)[0].tolist() == [2]


def test_terminate_is_no_keyboard_interrupt() -> None:
    session = InferenceSession(counting_loop())
    session(START, torch.tensor(1))
    options = RunOptions()
    options.terminate = True
    with pytest.raises(RuntimeError, match="terminate"):
        session.run(None, {"start": START, "turns": FOREVER}, options)
    assert options.terminate


def test_a_run_of_another_thread_goes_on() -> None:
    session = InferenceSession(counting_loop())
    session(START, torch.tensor(1))  # the handler is there
    totals: list[float] = []
    worker = threading.Thread(target=lambda: totals.append(session(START, SOME)[0].item()))
    worker.start()
    with signal_soon(), pytest.raises(KeyboardInterrupt):
        time.sleep(5)
    worker.join()
    assert totals == [SOME.item()]


def test_a_handler_of_the_user_runs_after_the_run() -> None:
    session = InferenceSession(counting_loop())
    session(START, torch.tensor(1))
    seen: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _frame: seen.append(number))
    with signal_soon():
        (total,) = session(START, SOME)
    assert total.item() == SOME.item()
    assert seen == [signal.SIGINT]


def test_an_ignored_signal_is_ignored() -> None:
    session = InferenceSession(counting_loop())
    session(START, torch.tensor(1))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with signal_soon():
        (total,) = session(START, SOME)
    assert total.item() == SOME.item()


def test_python_s_handler_after_another_one() -> None:
    session = InferenceSession(counting_loop())
    for handler in (signal.SIG_IGN, lambda *_: None, signal.SIG_DFL):
        signal.signal(signal.SIGINT, handler)
        session(START, torch.tensor(1))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        time.sleep(0.01)
        with signal_soon(), pytest.raises(KeyboardInterrupt):
            session(START, FOREVER)


def test_a_signal_between_runs() -> None:
    session = InferenceSession(unary("Relu"))
    x = torch.ones(1)
    for _ in range(3):
        session(x)
        with signal_soon(), pytest.raises(KeyboardInterrupt):
            time.sleep(5)
        assert session(x)[0].item() == 1


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_runs_through_the_dispatcher_end_too() -> None:
    session = InferenceSession(counting_loop())
    scripted = torch.jit.script(OnnxModule(session))
    for _ in range(3):
        scripted(START, torch.tensor(1))  # TorchScript compiles it, and hears no signal meanwhile

    def run() -> None:
        with suppress(RuntimeError):  # what TorchScript makes of the OrtError may come before it
            scripted(START, FOREVER)
        time.sleep(5)

    with signal_soon(), pytest.raises(KeyboardInterrupt):
        run()
    assert scripted(START, torch.tensor(3)).tolist() == [3]


PREAMBLE = f"""
import asyncio, faulthandler, os, signal, threading, time
import onnxruntime, torch
import ortdl_torch
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = ortdl_torch.InferenceSession({counting_loop()!r}, options)
def loop(turns):
    return session(torch.zeros(1), torch.tensor(turns))[0].item()
def soon():
    def send():
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=send).start()
def ends():
    soon()
    try:
        loop(2**62)
    except KeyboardInterrupt:
        return loop(3) == 3
"""

# Nothing but ops runs before, so the handler is not there yet.
OPS = """
def op(turns):
    run = torch.ops.ortdl.run.default
    return run(session.script_object, [torch.zeros(1), torch.tensor(turns)])[0].item()
def op_ends():
    soon()
    try:
        try:
            op(2**62)
        except RuntimeError as error:
            assert "terminate" in str(error), error
            time.sleep(5)
    except KeyboardInterrupt:
        return op(3) == 3
"""

PROGRAMS = {
    "SIG_DFL ends the process": (
        "signal.signal(signal.SIGINT, signal.SIG_DFL)\nsoon()\nloop(2**62)",
        -signal.SIGINT,
    ),
    "a forked child": (
        "pid = os.fork()\n"
        "if pid == 0:\n    os._exit(0 if ends() else 1)\n"
        "raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))",
        0,
    ),
    "faulthandler before it": (
        "faulthandler.register(signal.SIGINT, all_threads=False, chain=True)\n"
        "raise SystemExit(0 if ends() else 1)",
        0,
    ),
    "asyncio's handler, and Python's after it": (
        "async def main():\n    soon()\n    return loop(200_000)\n"
        "try:\n    asyncio.run(main())\n    raise SystemExit(2)\n"
        "except KeyboardInterrupt:\n    pass\n"
        "time.sleep(0.01)\nraise SystemExit(0 if ends() else 1)",
        0,
    ),
    "an op's run is the first": (OPS + "raise SystemExit(0 if op_ends() else 1)", 0),
    "asyncio's handler, and runs of ops after it": (
        OPS + "async def main():\n    soon()\n    return op(200_000)\n"
        "try:\n    asyncio.run(main())\n    raise SystemExit(2)\n"
        "except KeyboardInterrupt:\n    pass\n"
        "time.sleep(0.01)\nraise SystemExit(0 if op_ends() else 1)",
        0,
    ),
    "a handler of the user's, and runs of ops": (
        OPS + "seen = []\nsignal.signal(signal.SIGINT, lambda *_: seen.append(1))\n"
        "time.sleep(0.01)\nsoon()\nraise SystemExit(0 if op(200_000) == 200_000 and seen else 1)",
        0,
    ),
    "an uncaught one": ("soon()\nloop(2**62)", -signal.SIGINT),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    code, status = PROGRAMS[name]
    before = "" if code.startswith(OPS) else "assert loop(2) == 2\n"
    done = in_new_process(PREAMBLE + before + code)
    assert done.returncode == status, done.stderr
