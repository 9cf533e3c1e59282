"""Runs that are awaited, with run options of the caller's."""

import asyncio
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import onnxruntime
import pytest
import torch
from models import counting_loop, model, reshaped, unary
from models import info as node_info
from onnx import helper
from onnxruntime import RunOptions
from support import eventually, in_new_process, refused

from ortdl_torch import InferenceSession, OrtError

FOREVER = torch.tensor(2**62)
START = torch.zeros(1)


def with_threads(threads: int, graph: bytes) -> InferenceSession:
    """A session with so many intra-op threads; two are the fewest that RunAsync takes."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    return InferenceSession(graph, options)


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> int:
    """How many intra-op threads a session has: with one, PyTorch's threads do the work."""
    return request.param


def outcome(start: Callable[[], object]) -> object:
    """What is awaited of `start`, called in a new event loop."""

    async def work() -> object:
        return await start()

    return asyncio.run(work())


def test_options_serve_many_runs(threads: int) -> None:
    session = with_threads(threads, unary("Neg"))
    options = RunOptions()
    for _ in range(3):
        (y,) = outcome(lambda: session.run_async(torch.ones(2), run_options=options))
        assert y.tolist() == [-1, -1]
        (y,) = outcome(lambda: session.run_async(x=torch.ones(1), run_options=None))
        assert y.tolist() == [-1]
        assert not options.terminate


def test_terminate_before_the_run(threads: int) -> None:
    session = with_threads(threads, unary("Neg"))
    options = RunOptions()
    options.terminate = True
    with refused(OrtError, "terminate"):
        outcome(lambda: session.run_async(torch.ones(1), run_options=options))
    options.terminate = False
    (y,) = outcome(lambda: session.run_async(torch.ones(1), run_options=options))
    assert y.tolist() == [-1]


def test_terminate_from_another_thread(threads: int) -> None:
    session = with_threads(threads, counting_loop())
    options = RunOptions()
    caught = []
    for run in (
        lambda: outcome(lambda: session.run_async(START, FOREVER, run_options=options)),
        lambda: session.run(None, {"start": START, "turns": FOREVER}, options),
    ):
        ending = threading.Timer(0.05, setattr, (options, "terminate", True))
        ending.start()
        with refused(OrtError, "terminate"):
            try:
                run()
            except OrtError as error:
                caught.append((type(error), error.code, str(error)))
                raise
        ending.join()
        options.terminate = False
    assert caught[0] == caught[1]


def test_cancelling_sets_terminate_on_them_and_leaves_it(threads: int) -> None:
    session = with_threads(threads, counting_loop())
    options, other = RunOptions(), RunOptions()

    async def work() -> float:
        going = session.run_async(START, torch.tensor(1000), run_options=other)
        with refused(TimeoutError):
            await asyncio.wait_for(session.run_async(START, FOREVER, run_options=options), 0.02)
        return (await going)[0].item()

    assert asyncio.run(work()) == 1000
    assert (options.terminate, other.terminate) == (True, False)


def test_dropping_a_run_that_has_ended_leaves_them_alone(threads: int) -> None:
    session = with_threads(threads, unary("Neg"))
    options = RunOptions()
    for _ in range(5):
        run = session._start((torch.ones(1),), {}, options)
        assert run.result()[0].item() == -1
        run.terminate()
        del run
        assert not options.terminate


def test_they_are_kept_until_the_run_ends_and_no_longer(threads: int) -> None:
    session = with_threads(threads, counting_loop())
    options = RunOptions()
    before = sys.getrefcount(options)
    run = session.run_async(START, torch.tensor(50_000), run_options=options)
    del options
    assert asyncio.run(run)[0].item() == 50_000
    options = RunOptions()
    assert sys.getrefcount(options) == before
    assert asyncio.run(session.run_async(START, torch.tensor(9), run_options=options))[0] == 9
    assert eventually(lambda: sys.getrefcount(options) == before)


def test_log_settings_hold(threads: int, capfd: pytest.CaptureFixture) -> None:
    session = with_threads(threads, reshaped([4]))
    options = RunOptions()
    options.logid = "a tag of mine"
    told = {}
    for level in (3, 4):
        options.log_severity_level = level
        capfd.readouterr()
        with refused(OrtError, "Reshape"):
            outcome(
                lambda: session.run_async(torch.ones(6), torch.tensor([4]), run_options=options)
            )
        told[level] = re.findall(r"\[E:onnxruntime:a tag of mine", capfd.readouterr().err)
    assert told[3]
    assert not told[4]


@pytest.mark.parametrize(
    "options",
    [3, {}, RunOptions, RunOptions.__new__(RunOptions)],
    ids=["number", "dict", "class", "uninitialised"],
)
def test_what_is_no_run_options(options: object) -> None:
    with refused(TypeError, "RunOptions"):
        InferenceSession(unary("Neg")).run_async(torch.ones(1), run_options=options)


def test_an_input_called_run_options_goes_by_position() -> None:
    graph = model(
        [helper.make_node("Neg", ["run_options"], ["y"])],
        [node_info("run_options")],
        [node_info("y")],
    )
    session = InferenceSession(graph)
    assert asyncio.run(session.run_async(torch.ones(1)))[0].tolist() == [-1]
    with refused(TypeError, "RunOptions", "Tensor"):
        session.run_async(run_options=torch.ones(1))


def test_the_interpreter_ends_runs_that_have_options(threads: int) -> None:
    done = in_new_process(
        f"""
import onnxruntime, torch
from models import counting_loop
from ortdl_torch import InferenceSession
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = {threads}
options.log_severity_level = 4
session = InferenceSession(counting_loop(), options)
given = [onnxruntime.RunOptions() for _ in range(4)]
runs = [
    session.run_async(torch.zeros(1), torch.tensor(2**62), run_options=options)
    for options in given
]
import ortdl_torch.session, sys
ortdl_torch.session._async.kept = runs  # nothing drops them before the end
sys.stderr = None  # what says that they were never awaited
print("over")
""",
        Path(__file__).parent,
    )
    assert (done.returncode, done.stdout) == (0, "over\n"), done.stderr
