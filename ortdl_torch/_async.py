"""Asynchronous runs as asyncio awaits them."""

from __future__ import annotations

import asyncio
import contextlib

import torch

from ortdl_torch import _C


async def outcome(run: _C.PendingRun) -> tuple[torch.Tensor, ...]:
    """What the run gives or raises once it has ended; one that nobody waits for is terminated."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def wake() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, so nobody waits
            loop.call_soon_threadsafe(ended.set)

    run.call_when_ended(wake)
    try:
        await ended.wait()
    finally:
        run.terminate()
    return run.result()


# Python names a coroutine that nobody awaited, and callers know this one by what made it.
outcome.__name__ = "run_async"
outcome.__qualname__ = "InferenceSession.run_async"
