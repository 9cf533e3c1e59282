"""Timing: many short rounds of every route in turn, in one process.

A Python route is a statement that `timeit` compiles into a loop of its own, the garbage collector
off; the time of the same loop round nothing is subtracted. What a call returns is dropped within
the loop, so the time includes releasing it.
"""

from __future__ import annotations

import functools
import os
import statistics
import time
import timeit
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch

Sample = Callable[[int], float]
"""Makes that many calls; returns the nanoseconds of all of them together."""


@dataclass
class Route:
    """One way of doing a case's work, and what it took."""

    name: str
    code: str
    sample: Sample
    calls: int = 1
    times: list[float] = field(default_factory=list)
    """Nanoseconds per call, one entry per round."""
    allocations: float | None = None
    """Blocks per call that malloc and its like were asked for; None where not counted."""
    peak: int | None = None
    """The most bytes that a single call had from them at once."""

    @property
    def minimum(self) -> float:
        """Nanoseconds per call in the best round."""
        return min(self.times)

    @property
    def median(self) -> float:
        """Nanoseconds per call in the middle round."""
        return statistics.median(self.times)


@functools.cache
def empty_loop() -> float:
    """Nanoseconds per turn of timeit's loop with nothing in it."""
    timer = timeit.Timer("pass", timer=time.perf_counter_ns)
    return min(timer.repeat(repeat=200, number=10_000)) / 10_000


def python_sample(code: str, scope: dict[str, object]) -> Sample:
    """A sample of a Python statement, its names looked up in `scope`."""
    timer = timeit.Timer(code, timer=time.perf_counter_ns, globals=scope)
    return lambda calls: timer.timeit(calls) - calls * empty_loop()


def pin() -> int:
    """Keep this process on one CPU, and PyTorch on one thread; the CPU's number."""
    torch.set_num_threads(1)
    cpu = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpu})
    return cpu


def warm(route: Route, nanoseconds: float) -> None:
    """Call a route for a while, and choose how many calls take `nanoseconds`."""
    calls, taken = 1, route.sample(1)
    while taken < nanoseconds:
        calls *= 2
        taken = route.sample(calls)
    per_call = min(route.sample(calls) for _ in range(3)) / calls
    route.calls = max(1, round(nanoseconds / per_call))


def interleave(routes: Sequence[Route], rounds: int, nanoseconds: float) -> Iterator[int]:
    """Time every route once per round, so that all of them meet the same machine.

    The order is turned round from one round to the next. A turn begins with a call that is not
    timed, since the others have meanwhile filled the caches with theirs.

    Args:
        routes: what to time; each one's `times` gets an entry per round.
        rounds: how many rounds.
        nanoseconds: how long a route's turn is to last.

    Yields:
        The number of rounds done.
    """
    for route in routes:
        warm(route, nanoseconds)
        route.times.clear()
    for done in range(rounds):
        for route in routes if done % 2 == 0 else reversed(routes):
            route.sample(1)
            route.times.append(route.sample(route.calls) / route.calls)
        yield done + 1
