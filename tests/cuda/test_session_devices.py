"""Sessions on several devices in one process, and threads on them: each restores what it found."""

import threading

import provider
import pytest
import torch
from exchange import Pending, on, state
from models import info, model, subtract
from onnx import helper
from provider import KINDS, needs_provider, session
from support import refused

from ortdl_torch import InferenceSession, OrtError, to_ortvalue

pytestmark = [needs_provider, pytest.mark.usefixtures("two_devices")]
kinds = pytest.mark.parametrize("kind", KINDS)
devices = pytest.mark.parametrize("index", [0, 1])
Found = tuple[int, list[int]]


def doubled(pending: Pending) -> list[float]:
    return [2 * x for x in pending.elements]


@kinds
def test_each_session_works_on_its_device(kind: str) -> None:
    sessions = [session(kind, device=index) for index in range(2)]
    for turn in range(3):
        for index, adder in enumerate(sessions):
            x = torch.full((4,), turn + 10.0 * index).to(f"cuda:{index}")
            provider.reset()
            (result,) = adder(x, x)
            assert provider.compute().device == provider.compute().output.device == index
            assert result.device == torch.device("cuda", index)
            assert result.tolist() == [2 * (turn + 10 * index)] * 4


@kinds
def test_results_cross_from_session_to_session(kind: str) -> None:
    first, second = session(kind, device=0), session(kind, device=1, move_inputs=True)
    pending = Pending(torch.cuda.Stream(0))
    reader = torch.cuda.Stream(1)
    with torch.cuda.stream(pending.stream):
        (once,) = first(pending.tensor, pending.tensor)
        with torch.cuda.stream(reader):
            (twice,) = second(once, once)
    assert (once.get_device(), twice.get_device()) == (0, 1)
    assert on(reader, twice) == [4 * x for x in pending.elements]


@kinds
@devices
def test_a_session_that_is_loaded_restores_what_it_found(
    kind: str, index: int, chosen: Found
) -> None:
    adder = session(kind, device=index)
    assert state() == chosen
    del adder
    assert state() == chosen


@kinds
@devices
def test_a_load_that_fails_restores_what_it_found(kind: str, index: int, chosen: Found) -> None:
    with pytest.raises(OrtError):
        session(kind, b"no model", device=index)
    assert state() == chosen
    if kind != "devices":
        with refused(RuntimeError, "no part of the model"):
            session(kind, subtract(), device=index)
        assert state() == chosen


@kinds
@devices
def test_a_run_restores_what_it_found(kind: str, index: int, chosen: Found) -> None:
    adder = session(kind, device=index)
    current = torch.cuda.current_stream(index)
    pending = Pending(current)
    (result,) = adder(pending.tensor, pending.tensor)
    assert state() == chosen
    assert on(current, result) == doubled(pending)


@kinds
@devices
def test_a_run_that_fails_restores_what_it_found(kind: str, index: int, chosen: Found) -> None:
    adder = session(kind, device=index)
    here, there = (torch.ones(4).to(f"cuda:{i}") for i in (index, 1 - index))
    with refused(ValueError, f"cuda:{index}", f"cuda:{1 - index}"):
        adder(here, there)
    assert state() == chosen
    with refused(OrtError, "cannot be broadcast"):
        adder(here, torch.ones(3).to(here.device))
    assert state() == chosen
    with refused(OrtError, "cannot be broadcast"):
        adder(to_ortvalue(here), to_ortvalue(torch.ones(3).to(here.device)))
    assert state() == chosen


@kinds
@devices
def test_inputs_that_are_moved_restore_what_was_found(kind: str, index: int, chosen: Found) -> None:
    adder = session(kind, device=index, move_inputs=True)
    for device in ("cpu", f"cuda:{1 - index}"):
        x = torch.ones(4).to(device)
        (result,) = adder(x, to_ortvalue(x))
        assert state() == chosen
        assert result.get_device() == index
        assert result.tolist() == [2.0] * 4


@kinds
@devices
def test_outputs_on_the_cpu_restore_what_was_found(kind: str, index: int, chosen: Found) -> None:
    nodes = [helper.make_node("Add", ["a", "b"], ["c"]), helper.make_node("Neg", ["c"], ["d"])]
    mixed = session(kind, model(nodes, [info("a"), info("b")], [info("d")]), device=index)
    x = torch.ones(4).to(f"cuda:{index}")
    (result,) = mixed(x, x)
    assert state() == chosen
    assert (result.device.type, result.tolist()) == ("cpu", [-2.0] * 4)


def run_often(adder: InferenceSession, index: int, current: int, wrong: list[object]) -> None:
    """Runs on a stream of this thread's own, while another device than the session's is current."""
    try:
        torch.cuda.set_device(current)
        stream = torch.cuda.Stream(index)
        for _ in range(25):
            pending = Pending(stream)
            with torch.cuda.stream(stream):
                before = state()
                (result,) = adder(pending.tensor, pending.tensor)
                if state() != before:
                    wrong.append((index, before, state()))
            if torch.cuda.current_device() != current or on(stream, result) != doubled(pending):
                wrong.append((index, pending.elements[0]))
    except Exception as error:
        wrong.append(error)


def in_threads(work: list[tuple[InferenceSession, int, int]]) -> list[object]:
    """What went wrong while each of `work` ran in a thread."""
    wrong: list[object] = []
    threads = [threading.Thread(target=run_often, args=(*arguments, wrong)) for arguments in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


@kinds
def test_threads_on_both_devices(kind: str) -> None:
    sessions = [session(kind, device=index) for index in range(2)]
    work = [(sessions[i], i, current) for i in range(2) for current in range(2)]
    assert in_threads(work) == []


@kinds
def test_threads_share_one_session(kind: str) -> None:
    adder = session(kind, device=1)
    assert in_threads([(adder, 1, 0)] * 4) == []


def test_sessions_come_and_go_in_threads() -> None:
    wrong: list[object] = []

    def come_and_go(kind: str, index: int) -> None:
        for _ in range(5):
            run_often(session(kind, device=index), index, 1 - index, wrong)

    arguments = [(kind, index) for kind in KINDS for index in range(2)]
    threads = [threading.Thread(target=come_and_go, args=pair) for pair in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
