"""Measure what ONNX Runtime's spinning threads cost PyTorch, and what it costs to stop them.

    python benchmarks/spinning.py [--rounds N]

After a run ONNX Runtime's threads spin for a while, in case another follows. Each way of telling
them not to has a process of its own, so that no session's threads disturb another's, and the
processes work in turn. Ratios are printed: of minima, and of the CPU time after a run, which a busy
machine hardly changes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection

import models
import numpy as np
import onnxruntime
import torch

import ortdl_torch

INTRA, STOP = "session.intra_op.allow_spinning", "session.force_spinning_stop"
WAYS = {
    "spinning": {INTRA: "1", STOP: "0"},
    "force_spinning_stop": {INTRA: "1", STOP: "1"},
    "no spinning": {INTRA: "0", STOP: "0"},
}
SIZE = 512
RUNS = 10
NAP = 0.02
"""Seconds in which spinning threads come to rest."""


@dataclass
class Times:
    """Nanoseconds, one entry per round."""

    alone: list[int] = field(default_factory=list)
    """A matmul after a nap."""
    after: list[int] = field(default_factory=list)
    """A matmul right after a run."""
    first: list[int] = field(default_factory=list)
    """A run after a nap."""
    runs: list[int] = field(default_factory=list)
    """Runs back to back."""
    burnt: list[int] = field(default_factory=list)
    """CPU time of all threads while the process naps after a run."""


def mlp() -> bytes:
    """Three layers of SIZE for a batch of 64."""
    random = np.random.default_rng(0)
    weights = {name: 0.05 * random.standard_normal((SIZE, SIZE), np.float32) for name in "uvw"}
    return models.parse(
        f"mlp (float[64, {SIZE}] x) => (float[64, {SIZE}] y)"
        "{ h = MatMul(x, w)  r = Relu(h)  g = MatMul(r, v)  s = Relu(g)  y = MatMul(s, u) }",
        weights,
    )


def work(pipe: Connection, entries: dict[str, str], threads: int) -> None:
    """Do a round for each message of the parent's, and send what it took."""
    torch.set_num_threads(threads)
    options = onnxruntime.SessionOptions()
    for key, value in entries.items():
        options.add_session_config_entry(key, value)
    session = ortdl_torch.InferenceSession(mlp(), options)
    x, a = torch.rand(64, SIZE), torch.rand(SIZE, SIZE)
    now = time.perf_counter_ns
    while pipe.recv():
        began = now()
        a @ a
        alone = now() - began
        time.sleep(NAP)
        began = now()
        session(x)
        first = now() - began
        began = now()
        for _ in range(RUNS):
            session(x)
        runs = now() - began
        began = now()
        a @ a
        after = now() - began
        session(x)
        began = time.process_time_ns()
        time.sleep(NAP)
        pipe.send((alone, after, first, runs, time.process_time_ns() - began))


def measure(threads: int, rounds: int) -> dict[str, Times]:
    """The times of each way, with so many threads for PyTorch."""
    context = get_context("spawn")
    pipes = {}
    for name, entries in WAYS.items():
        pipes[name], theirs = context.Pipe()
        context.Process(target=work, args=(theirs, entries, threads), daemon=True).start()
    times = {name: Times() for name in WAYS}
    for done in range(rounds + 1):
        for name in list(WAYS) if done % 2 else reversed(WAYS):
            pipes[name].send(True)
            taken = pipes[name].recv()
            if done > 0:  # the first round warms
                for column, nanoseconds in zip(vars(times[name]).values(), taken, strict=True):
                    column.append(nanoseconds)
    for pipe in pipes.values():
        pipe.send(False)
    return times


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100, help="how often each way is measured")
    rounds = parser.parse_args().rounds
    print(f"torch {torch.__version__}, onnxruntime {onnxruntime.__version__}, {rounds} rounds")
    for threads in sorted({1, torch.get_num_threads()}):
        times = measure(threads, rounds)
        base = times["spinning"]
        run = min(base.runs) / RUNS
        print(f"\n{threads} threads of PyTorch's")
        print(
            f"{'':22}{'matmul after runs':>20}{'runs in a row':>16}{'run after a nap':>18}", end=""
        )
        print(f"{'CPU after a run':>18}")
        for name, way in times.items():
            print(
                f"{name:<22}{min(way.after) / min(way.alone):>15.2f} alone"
                f"{min(way.runs) / min(base.runs):>16.2f}{min(way.first) / min(base.first):>18.2f}"
                f"{statistics.median(way.burnt) / run:>13.2f} runs"
            )


if __name__ == "__main__":
    main()
