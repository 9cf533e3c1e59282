#!/usr/bin/env python3
"""Converts and runs for long, in many shapes, and says how much memory stays.

    tests/soak/run.py [--conversions N] [--runs N] [--grows KIB]

Ends with 1 if anything is alive at the end, or if more than KIB of resident memory (default 1024)
came after the first tenth. A negative KIB does not look at that.
"""

import argparse
import gc
import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

import numpy as np
import torch
from models import difference_and_total
from support import eventually, live

from ortdl_torch import InferenceSession, OrtValue, from_dlpack, from_ortvalue, to_ortvalue

SHAPES = [(), (1,), (0, 3), (2, 3), (7, 3), (64, 3), (5, 1, 4), (1000, 3)]
DTYPES = [torch.float32, torch.int64, torch.bool, torch.bfloat16, torch.float8_e4m3fn]


def resident() -> int:
    """KiB of this process that are in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def conversions() -> Iterator[Callable[[], object]]:
    """For ever, one more of the ways from tensor to value to tensor."""
    chosen = random.Random(0)
    tensors = [torch.zeros(shape).to(dtype) for shape in SHAPES for dtype in DTYPES]
    arrays = [np.zeros(shape, np.float32) for shape in SHAPES]
    ways: list[Callable[[], object]] = [
        lambda: from_ortvalue(to_ortvalue(chosen.choice(tensors))),
        lambda: from_ortvalue(to_ortvalue(chosen.choice(tensors), copy=True), copy=True),
        lambda: from_ortvalue(from_dlpack(chosen.choice(arrays))),
        lambda: torch.from_dlpack(to_ortvalue(chosen.choice(tensors))),
        lambda: OrtValue.ortvalue_from_numpy(chosen.choice(arrays)).numpy(),
    ]
    while True:
        yield chosen.choice(ways)


def runs() -> Iterator[Callable[[], object]]:
    """For ever, one more of the ways to run a model, now and then one that is refused."""
    chosen = random.Random(1)
    session = InferenceSession(difference_and_total())
    inputs = [(torch.rand(n, 3), torch.rand(n, 3)) for n in (0, 1, 2, 9, 100, 3000)]
    into = [[torch.empty_like(left), torch.empty_like(left)] for left, _ in inputs]

    def refused() -> None:
        try:
            session(torch.rand(2, 3), torch.rand(2, 4))
        except ValueError:
            return
        raise AssertionError("a wrong shape was taken")

    def written() -> None:
        which = chosen.randrange(len(inputs))
        session.run_into(into[which], inputs[which])

    def by_name() -> None:
        left, right = chosen.choice(inputs)
        session.run(["total"], {"right": to_ortvalue(right), "left": left})

    ways = [lambda: session(*chosen.choice(inputs)), written, by_name, refused]
    while True:
        yield chosen.choice(ways)


def soak(what: str, works: Iterator[Callable[[], object]], count: int) -> int:
    """How many KiB more are resident at the end than after the first tenth."""
    warm = 0
    for done in range(count + 1):
        if done == count // 10:
            gc.collect()
            warm = resident()
        if done == count:
            break
        next(works)()
    gc.collect()
    grown = resident() - warm
    print(f"{count} {what}: {warm} KiB resident after a tenth, {grown:+} KiB at the end")
    return grown


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--conversions", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--grows", type=int, default=1024, metavar="KIB")
    given = parser.parse_args()
    before = live()
    grown = [
        soak("conversions", conversions(), given.conversions),
        soak("runs", runs(), given.runs),
    ]
    alive = not eventually(lambda: live() == before)
    print(f"left alive: {live()}" if alive else "nothing left alive")
    return int(alive or (given.grows >= 0 and max(grown) > given.grows))


if __name__ == "__main__":
    sys.exit(main())
