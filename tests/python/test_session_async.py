"""Runs that are awaited: many at once, what they raise, how they are cancelled, what they keep."""

import asyncio
import contextlib
import gc
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import onnxruntime
import pytest
import torch
from models import counting_loop, difference_and_total, model, subtract, unary
from models import info as node_info
from onnx import helper
from support import eventually, in_new_process, in_threads, live, needs_onnxruntime, refused

from ortdl_torch import _C, InferenceSession, OrtError

FOREVER = torch.tensor(2**62)


def with_threads(threads: int, graph: bytes) -> InferenceSession:
    """A session with so many intra-op threads; two are the fewest that RunAsync takes."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    return InferenceSession(graph, options)


@pytest.fixture(params=[1, 2, 3])
def threads(request: pytest.FixtureRequest) -> int:
    """How many intra-op threads a session has: with one, PyTorch's threads do the work."""
    return request.param


@contextlib.contextmanager
def new_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop that is closed afterwards."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def test_awaiting_gives_what_the_call_returns(threads: int) -> None:
    session = with_threads(threads, difference_and_total())
    left, right = torch.rand(4, 3), torch.rand(4, 3)

    async def work() -> list[tuple[torch.Tensor, ...]]:
        return [
            await session.run_async(left, right),
            await session.run_async(left, right=right),
            await session.run_async(right=right, left=left),
        ]

    stock = onnxruntime.InferenceSession(
        difference_and_total(), providers=["CPUExecutionProvider"]
    ).run(None, {"left": left.numpy(), "right": right.numpy()})
    for got in asyncio.run(work()):
        assert type(got) is tuple
        assert [y.numpy().tobytes() for y in got] == [y.tobytes() for y in stock]


def test_many_at_once(threads: int) -> None:
    session = with_threads(threads, subtract())
    rows = [torch.full((n + 1,), float(n)) for n in range(200)]

    async def work() -> list[tuple[torch.Tensor, ...]]:
        return await asyncio.gather(*(session.run_async(x, torch.ones_like(x)) for x in rows))

    for x, (y,) in zip(rows, asyncio.run(work()), strict=True):
        assert torch.equal(y, x - 1)


def test_runs_go_on_before_they_are_awaited() -> None:
    session = with_threads(2, subtract())
    a, b = torch.tensor([5.0]), torch.tensor([3.0])
    runs = [session.run_async(a, b), session.run_async(b, a)]

    async def work() -> list[float]:
        return [(await run)[0].item() for run in runs]

    assert asyncio.run(work()) == [2, -2]


def test_tasks_and_task_groups_take_them(threads: int) -> None:
    session = with_threads(threads, unary("Neg"))

    async def work() -> list[float]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(session.run_async(torch.tensor([n]))) for n in (1.0, 2.0)]
        return [task.result()[0].item() for task in tasks]

    assert asyncio.run(work()) == [-1, -2]


def test_the_loop_works_on_meanwhile(threads: int) -> None:
    session = with_threads(threads, counting_loop())

    async def work() -> None:
        run = asyncio.ensure_future(session.run_async(torch.zeros(1), FOREVER))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not run.done()
        run.cancel()
        await asyncio.wait([run])
        assert run.cancelled()

    asyncio.run(work())


def test_what_is_wrong_with_inputs_is_raised_at_once() -> None:
    session = with_threads(2, subtract())
    x = torch.ones(2)
    with refused(ValueError, "left: tensor(float)", "'right' was not given"):
        session.run_async(x)
    with refused(ValueError, "'middle'"):
        session.run_async(x, middle=x)
    with refused(TypeError, "torch.float64"):
        session.run_async(x, x.double())
    with refused(TypeError, "'left' must be a torch.Tensor or an OrtValue"):
        session.run_async([1.0], x)
    with refused(BufferError, "requires grad"):
        session.run_async(x, x.clone().requires_grad_())
    with refused(TypeError, "tensor(string)"):
        cast = model(
            [helper.make_node("Cast", ["x"], ["y"], to=8)],
            [node_info("x")],
            [node_info("y", element_type=8)],
        )
        InferenceSession(cast).run_async(x)


def test_an_input_may_be_called_self() -> None:
    graph = model([helper.make_node("Neg", ["self"], ["y"])], [node_info("self")], [node_info("y")])
    run = with_threads(2, graph).run_async(self=torch.ones(1))
    assert asyncio.run(run)[0].item() == -1


@needs_onnxruntime("1.27", "code FAIL for shapes that do not fit")
def test_what_onnxruntime_says_is_raised_where_it_is_awaited(threads: int) -> None:
    session = with_threads(threads, subtract())

    async def work() -> None:
        bad = session.run_async(torch.ones(2), torch.ones(3))
        good = session.run_async(torch.ones(2), torch.ones(2))
        error, (zero,) = await asyncio.gather(bad, good, return_exceptions=True)
        assert zero.tolist() == [0, 0]
        assert type(error) is OrtError
        assert error.code == 1
        with pytest.raises(OrtError) as called:
            session(torch.ones(2), torch.ones(3))
        assert str(called.value) == str(error)

    asyncio.run(work())


def test_outputs_share_memory_with_no_input(threads: int) -> None:
    session = with_threads(threads, model([], [node_info("x")], [node_info("x"), node_info("x")]))
    x = torch.arange(4.0)
    y, z = asyncio.run(session.run_async(x))
    assert y.tolist() == z.tolist() == [0, 1, 2, 3]
    assert len({t.data_ptr() for t in (x, y, z)}) == 3


def test_modes_of_the_caller_hold() -> None:
    session = with_threads(2, unary("Neg"))
    with torch.inference_mode():
        inferred = session.run_async(torch.ones(1))
    plain = session.run_async(torch.ones(1))
    assert asyncio.run(inferred)[0].is_inference()
    assert not asyncio.run(plain)[0].is_inference()


async def cancelled(session: InferenceSession, how: str) -> None:
    """Start a run without end, and cancel what awaits it."""
    run = session.run_async(torch.zeros(1), FOREVER)
    if how in ("timeout", "no time"):
        with refused(TimeoutError):
            await asyncio.wait_for(run, 0.02 if how == "timeout" else 0)
        return
    task = asyncio.create_task(run)
    if how == "cancel":
        await asyncio.sleep(0.01)
    task.cancel()
    with refused(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("how", ["timeout", "no time", "cancel", "cancel at once"])
def test_cancelling_ends_the_run(how: str, threads: int) -> None:
    session = with_threads(threads, counting_loop())
    asyncio.run(cancelled(session, how))
    before = live()["sessions"]
    assert session(torch.zeros(1), torch.tensor(3))[0].item() == 3
    del session
    # The run keeps the session, so this also says that it ended.
    assert eventually(lambda: live()["sessions"] < before, 10)


def test_a_run_that_is_dropped_ends() -> None:
    session = with_threads(2, counting_loop())
    run = session.run_async(torch.zeros(1), FOREVER)
    run.close()
    del session, run
    assert eventually(lambda: live()["sessions"] == 0, 10)


def test_everything_but_the_run_may_be_dropped(threads: int) -> None:
    x = torch.full((1000,), 2.0)
    run = with_threads(threads, unary("Neg")).run_async(x)
    del x
    torch.full((1000,), 7.0)
    assert asyncio.run(run)[0].tolist() == [-2] * 1000


def test_inputs_are_kept_until_the_run_ends_and_no_longer() -> None:
    session = with_threads(2, counting_loop())
    start = torch.zeros(1)
    gone = threading.Event()
    weakref.finalize(start.untyped_storage(), gone.set)
    run = session.run_async(start, torch.tensor(20_000))
    del start
    gc.collect()
    assert asyncio.run(run)[0].item() == 20_000
    assert eventually(gone.is_set, 10)


def test_the_loop_may_be_closed_before_the_run_ends(threads: int) -> None:
    session = with_threads(threads, counting_loop())
    with new_loop() as loop:
        task = loop.create_task(session.run_async(torch.zeros(1), torch.tensor(20_000)))
        loop.run_until_complete(asyncio.sleep(0))
        task._log_destroy_pending = False
    del task
    gc.collect()
    assert session(torch.zeros(1), torch.tensor(1))[0].item() == 1


def test_loops_of_several_threads_share_a_session(threads: int) -> None:
    session = with_threads(threads, subtract([None, None]))
    wrong: list[object] = []

    async def some(k: int) -> None:
        pairs = [
            (torch.full((k + 1, n + 1), float(n)), torch.rand(k + 1, n + 1)) for n in range(50)
        ]
        got = await asyncio.gather(*(session.run_async(a, b) for a, b in pairs))
        wrong.extend(
            k for (a, b), (y,) in zip(pairs, got, strict=True) if not torch.equal(y, a - b)
        )

    def work(k: int) -> None:
        try:
            for _ in range(3):
                asyncio.run(some(k))
        except Exception as e:
            wrong.append(e)

    in_threads(work, range(4))
    assert not wrong


START = """
import asyncio, torch, onnxruntime
from models import counting_loop
from ortdl_torch import InferenceSession
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = {threads}
options.log_severity_level = 4
session = InferenceSession(counting_loop(), options)
runs = [session.run_async(torch.zeros(1), torch.tensor(2**62)) for _ in range(8)]
"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("left", ["awaited", "script"])
def test_the_interpreter_may_end_with_runs_in_flight(left: str, threads: int) -> None:
    code = {
        "awaited": "loop = asyncio.new_event_loop()\n"
        "tasks = [loop.create_task(run) for run in runs]\n"
        "loop.run_until_complete(asyncio.sleep(0.01))\n"
        "for task in tasks: task._log_destroy_pending = False\n",
        "script": "futures = [session.script_object.run_async([torch.zeros(1), "
        "torch.tensor(2**62)]) for _ in range(8)]\n"
        "for future in futures: future.then(lambda f: None)\n",
    }[left]
    done = in_new_process(
        START.format(threads=threads) + code + "print('over')\n", Path(__file__).parent
    )
    assert (done.returncode, done.stdout) == (0, "over\n"), done.stderr


def test_no_run_starts_while_the_interpreter_ends() -> None:
    done = in_new_process(
        "import atexit\n"
        "def late():\n"
        "    try: session.run_async(torch.zeros(1), torch.tensor(1))\n"
        "    except RuntimeError as e: print(e)\n"
        "atexit.register(late)\n" + START.format(threads=2) + "for run in runs: run.close()\n",
        Path(__file__).parent,
    )
    assert done.returncode == 0, done.stderr
    assert "the program is ending" in done.stdout


def test_inputs_cannot_be_resized_while_the_run_goes_on(threads: int) -> None:
    x = torch.ones(3)
    pending = with_threads(threads, unary("Relu")).run_async(x)
    with pytest.raises(RuntimeError, match="not resizable"):
        x.untyped_storage().resize_(0)

    async def outputs() -> tuple[torch.Tensor, ...]:
        return await pending

    assert asyncio.run(outputs())[0].tolist() == [1, 1, 1]


def test_a_pending_run_that_was_never_started_is_refused() -> None:
    blank = _C.PendingRun.__new__(_C.PendingRun)
    for method in (blank.terminate, blank.result, lambda: blank.call_when_ended(print)):
        with refused(TypeError, "PendingRun"):
            method()


def test_what_nobody_awaited_is_called_what_made_it() -> None:
    run = InferenceSession(unary("Relu")).run_async(torch.ones(2))
    assert (run.__name__, run.__qualname__) == ("run_async", "InferenceSession.run_async")
    with pytest.warns(RuntimeWarning, match="'InferenceSession.run_async' was never awaited"):
        del run


@pytest.mark.parametrize("threads", [1, 2])
def test_a_forked_child_is_told_what_it_can_do_with_a_session_of_before(threads: int) -> None:
    code = f"""
import asyncio, os, signal
import onnxruntime, torch, ortdl_torch

async def outputs(session):
    return await session.run_async(torch.ones(2))

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = {threads}
session = ortdl_torch.InferenceSession({unary("Relu")!r}, options)
if os.fork() == 0:
    signal.alarm(60)
    try:
        asyncio.run(outputs(session))
    except RuntimeError as error:
        said = str(error)
    print([word in said for word in ("forked", "run_async works with", "worker_init_fn", "spawn")])
    if {threads} == 1:
        print("runs in a child as well: call it" in said, session(torch.ones(2))[0].tolist())
    made = ortdl_torch.InferenceSession({unary("Relu")!r}, options)
    print(asyncio.run(outputs(made))[0].tolist(), flush=True)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    done = in_new_process(code)
    called = "True [1.0, 1.0]\n" if threads == 1 else ""
    wanted = f"[True, True, True, True]\n{called}[1.0, 1.0]\n0\n"
    assert done.stdout == wanted, done.stderr


def test_a_forked_child_refuses_runs_whose_threads_stayed_behind() -> None:
    code = f"""
import asyncio, os, signal
import torch, ortdl_torch

async def outputs(session):
    return await session.run_async(torch.ones(2))

asyncio.run(outputs(ortdl_torch.InferenceSession({unary("Relu")!r})))
if os.fork() == 0:
    signal.alarm(60)
    session = ortdl_torch.InferenceSession({unary("Relu")!r})
    try:
        asyncio.run(outputs(session))
    except RuntimeError as error:
        print("spawn" in str(error), session(torch.ones(2))[0].tolist(), flush=True)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    done = in_new_process(code)
    assert done.stdout == "True [1.0, 1.0]\n0\n", done.stderr
