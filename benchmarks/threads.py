"""Measure how many calls a second several Python threads make together.

    python benchmarks/threads.py [--quick] [--json FILE]

All threads call one session, each with a tensor of its own; ONNX Runtime and PyTorch have one
thread per call. Each number of threads has its turn in each round, and the best round counts.
Conversions keep Python's GIL, so that only one thread converts at a time; a run gives it back.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import models
import onnxruntime
import torch
from case import Verdict
from torch.utils.dlpack import from_dlpack

import ortdl_torch

THREADS = (1, 2, 4, 8)
SIZE = 256
GOAL = 1.8
"""Times one thread's throughput, on two cores."""
BATCH = 16
"""Calls of a conversion between two looks at the clock."""
JUDGED = "ours, MatMul 256"

Call = Callable[[], object]


@dataclass
class Work:
    """What threads do, and how many calls a second they made."""

    name: str
    make: Callable[[torch.Tensor], Call]
    """Makes the call of one thread, over its tensor."""
    calls: int = 1
    """Between two looks at the clock."""
    throughput: dict[int, float] = field(default_factory=dict)
    """The best round's calls per second, by the number of threads."""


def works() -> list[Work]:
    """A model that computes, and a conversion there and back, each by us and by stock."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    model = models.matmul(SIZE)
    session = ortdl_torch.InferenceSession(model, options)
    stock = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def run(x: torch.Tensor) -> Call:
        return lambda: session(x)

    def stock_run(x: torch.Tensor) -> Call:
        return lambda: torch.from_numpy(stock.run(None, {"x": x.numpy()})[0])

    def convert(x: torch.Tensor) -> Call:
        return lambda: ortdl_torch.from_ortvalue(ortdl_torch.to_ortvalue(x))

    def stock_convert(x: torch.Tensor) -> Call:
        return lambda: from_dlpack(onnxruntime.OrtValue.from_dlpack(x))

    return [
        Work(JUDGED, run),
        Work("stock, MatMul 256", stock_run),
        Work("ours, there and back", convert, BATCH),
        Work("stock, there and back", stock_convert, BATCH),
    ]


def calls_per_second(work: Work, threads: int, seconds: float) -> float:
    """Let so many threads work for a while."""
    counts = [0] * threads
    barrier = threading.Barrier(threads + 1)
    over = threading.Event()

    def loop(number: int) -> None:
        call = work.make(torch.rand(SIZE, SIZE))
        call()
        barrier.wait()
        while not over.is_set():
            for _ in range(work.calls):
                call()
            counts[number] += work.calls

    workers = [threading.Thread(target=loop, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    barrier.wait()
    began = time.perf_counter()
    time.sleep(seconds)
    over.set()
    for worker in workers:
        worker.join()
    return sum(counts) / (time.perf_counter() - began)


def measure(rounds: int, seconds: float) -> list[Work]:
    """Every work with every number of threads, in turn."""
    torch.set_num_threads(1)
    measured = works()
    for _ in range(rounds):
        for threads in THREADS:
            for work in measured:
                found = calls_per_second(work, threads, seconds)
                work.throughput[threads] = max(found, work.throughput.get(threads, 0.0))
    return measured


def ratios(throughput: dict[int, float]) -> dict[int, float]:
    """How many times one thread's throughput that of each number of threads is."""
    return {threads: calls / throughput[1] for threads, calls in throughput.items()}


def verdicts(throughputs: dict[str, dict[int, float]], cores: int) -> list[Verdict]:
    """What holds of the goal, which two cores are needed for."""
    if cores < 2:
        return []
    return [
        Verdict(f"{threads} threads at least {GOAL} x one", f"{ratio:.2f} x", ratio >= GOAL)
        for threads, ratio in ratios(throughputs[JUDGED]).items()
        if threads > 1
    ]


def lines_of(throughputs: dict[str, dict[int, float]]) -> list[str]:
    """The table."""
    head = "".join(f"{f'{n} threads':>12}" for n in THREADS[1:])
    lines = [f"Python threads{'':<12}{'calls/s of 1':>14}{head}  times that"]
    for name, throughput in throughputs.items():
        columns = "".join(f"{ratios(throughput)[n]:12.2f}" for n in THREADS[1:])
        lines.append(f"  {name:<24}{throughput[1]:14.0f}{columns}")
    return lines


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a short run, for a first look")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write calls per second there")
    arguments = parser.parse_args()
    measured = measure(*((2, 0.1) if arguments.quick else (8, 0.2)))
    throughputs = {work.name: work.throughput for work in measured}
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(throughputs))
        return 0
    print(*lines_of(throughputs), sep="\n")
    for verdict in verdicts(throughputs, len(os.sched_getaffinity(0))):
        print(f"{JUDGED}: {verdict.goal}: {verdict.measured}, {'yes' if verdict.met else 'NO'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
