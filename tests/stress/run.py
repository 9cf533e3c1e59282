#!/usr/bin/env python3
"""Shares one session and one value between threads that use them in every way, in random order.

    tests/stress/run.py [SECONDS [SEED [THREADS]]]    (default: 60 seconds, seed 0, 16 threads)

Each thread chooses by a generator of its own, seeded with SEED and the thread's number. What it
gets is compared with what a single thread got before. Ends with 1 if anything was another result,
an unexpected error, or still alive at the end.
"""

import asyncio
import collections
import ctypes
import pickle
import random
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

import numpy as np
import onnxruntime
import torch
from dlpack_structs import LEGACY, USED_LEGACY, get_pointer, rename, struct_of
from models import counting_loop, difference_and_total
from support import eventually, live

import ortdl_torch
from ortdl_torch import InferenceSession, OrtError, from_dlpack, from_ortvalue, to_ortvalue

SIZES = (1, 2, 3, 17, 400)
TURNS = 3_000
libc = ctypes.CDLL(None)


class Shared:
    """What all threads use, and what one of them got from it before the others began."""

    def __init__(self) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 2
        self.session = InferenceSession(difference_and_total(), options)
        self.loop = InferenceSession(counting_loop(), options)
        generator = torch.Generator().manual_seed(0)
        self.inputs = [
            (torch.rand(n, 3, generator=generator), torch.rand(n, 3, generator=generator))
            for n in SIZES
        ]
        self.outputs = [self.session(*pair) for pair in self.inputs]
        self.source = torch.arange(1000.0)
        self.value = to_ortvalue(self.source)
        # Each thread puts objects in and throws out what others put in.
        self.box: collections.deque[object] = collections.deque(maxlen=64)
        self.options = onnxruntime.RunOptions()


class Worker:
    """One thread's ways to use what is shared: each checks its result and raises if it is wrong."""

    def __init__(self, shared: Shared, seed: int) -> None:
        self.shared = shared
        self.random = random.Random(seed)
        self.binding = shared.session.io_binding()
        self.done: collections.Counter[str] = collections.Counter()
        self.ways: list[Callable[[], None]] = [
            self.call,
            self.run_by_name,
            self.run_into,
            self.run_bound,
            self.run_async,
            self.run_op,
            self.convert,
            self.convert_back,
            self.update,
            self.to_numpy,
            self.from_numpy,
            self.to_torch,
            self.drop_capsule,
            self.drop_on_a_native_thread,
            self.terminate,
            self.terminated,
            self.save_and_load,
        ]

    def work(self, deadline: float) -> None:
        while time.monotonic() < deadline:
            way = self.random.choice(self.ways)
            way()
            self.done[way.__name__] += 1

    def pair(self) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
        which = self.random.randrange(len(SIZES))
        return self.shared.inputs[which], self.shared.outputs[which]

    def keep(self, *objects: object) -> None:
        """Let another thread drop them, some time."""
        self.shared.box.extend(objects)

    @staticmethod
    def check(got: object, wanted: tuple[torch.Tensor, ...]) -> None:
        assert [y.tolist() for y in got] == [y.tolist() for y in wanted]

    def call(self) -> None:
        inputs, wanted = self.pair()
        got = self.shared.session(*inputs)
        self.check(got, wanted)
        self.keep(*got)

    def run_by_name(self) -> None:
        (left, right), (_, total) = self.pair()
        feeds = {"right": to_ortvalue(right), "left": left}
        self.check(self.shared.session.run(["total"], feeds, onnxruntime.RunOptions()), (total,))

    def run_into(self) -> None:
        inputs, wanted = self.pair()
        into = [torch.full_like(y, -1) for y in wanted]
        self.shared.session.run_into(into, inputs)
        self.check(into, wanted)

    def run_bound(self) -> None:
        inputs, wanted = self.pair()
        self.binding.clear_binding_outputs()
        for name, tensor in zip(("left", "right"), inputs, strict=True):
            self.binding.bind_input(name, tensor)
        for name in ("difference", "total"):
            self.binding.bind_output(name)
        self.shared.session.run_with_iobinding(self.binding)
        got = [from_ortvalue(value) for value in self.binding.get_outputs()]
        self.check(got, wanted)
        self.keep(*got)

    def run_async(self) -> None:
        inputs, wanted = self.pair()

        async def both() -> list[tuple[torch.Tensor, ...]]:
            runs = [self.shared.session.run_async(*inputs) for _ in range(2)]
            return await asyncio.gather(*runs)

        for got in asyncio.run(both()):
            self.check(got, wanted)

    def run_op(self) -> None:
        inputs, wanted = self.pair()
        self.check(torch.ops.ortdl.run(self.shared.session.script_object, list(inputs)), wanted)

    def convert(self) -> None:
        source = self.shared.source
        value = to_ortvalue(source, copy=self.random.choice([False, None, True]))
        assert from_ortvalue(value)[-1].item() == 999
        self.keep(value)

    def convert_back(self) -> None:
        tensor = from_ortvalue(self.shared.value, copy=self.random.choice([False, True]))
        assert tensor.sum().item() == 499_500
        self.keep(tensor, tensor[3:])

    def update(self) -> None:
        value = to_ortvalue(torch.zeros(1000))
        value.update_inplace(self.shared.source)
        assert value.numpy()[-1] == 999
        self.keep(value)

    def to_numpy(self) -> None:
        array = np.from_dlpack(self.shared.value)
        assert array.sum() == 499_500
        self.keep(array)

    def from_numpy(self) -> None:
        value = from_dlpack(np.full(50, self.random.random()))
        assert len(set(value.numpy().tolist())) == 1
        self.keep(value, from_ortvalue(value))

    def to_torch(self) -> None:
        assert torch.from_dlpack(self.shared.value).data_ptr() == self.shared.source.data_ptr()

    def drop_capsule(self) -> None:
        self.keep(ortdl_torch.to_dlpack(self.shared.value), self.shared.value.__dlpack__())

    def drop_on_a_native_thread(self) -> None:
        """The last holder of a NumPy array's memory goes on a thread that never saw Python."""
        capsule = ortdl_torch.to_dlpack(from_dlpack(np.ones(30)))
        struct = get_pointer(capsule, LEGACY)
        rename(capsule, USED_LEGACY)
        deleter = ctypes.cast(struct_of(capsule).deleter, ctypes.c_void_p)
        thread = ctypes.c_ulong()
        begun = libc.pthread_create(ctypes.byref(thread), None, deleter, ctypes.c_void_p(struct))
        assert begun == 0
        assert libc.pthread_join(thread, None) == 0

    def terminate(self) -> None:
        """End what runs with the shared options, if anything does."""
        self.shared.options.terminate = True
        self.shared.options.terminate = False

    def terminated(self) -> None:
        feeds = {"start": torch.zeros(1), "turns": torch.tensor(TURNS)}
        try:
            (total,) = self.shared.loop.run(None, feeds, self.shared.options)
            assert total.item() == TURNS
        except OrtError as error:
            if "terminate" not in str(error):
                raise
            self.done["terminated before its end"] += 1

    def save_and_load(self) -> None:
        inputs, wanted = self.pair()
        loaded = pickle.loads(pickle.dumps(self.shared.session, self.random.choice([2, 5])))
        self.check(loaded(*inputs), wanted)
        self.keep(loaded)


def stress(seconds: float, seed: int, threads: int) -> tuple[collections.Counter[str], list[str]]:
    """How often each way was gone, and what went wrong."""
    shared = Shared()
    workers = [Worker(shared, seed * 1000 + n) for n in range(threads)]
    wrong: list[str] = []
    deadline = time.monotonic() + seconds

    def work(worker: Worker) -> None:
        try:
            worker.work(deadline)
        except BaseException:
            wrong.append(traceback.format_exc())

    running = [threading.Thread(target=work, args=(worker,)) for worker in workers]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return sum((worker.done for worker in workers), collections.Counter()), wrong


def main() -> int:
    given = [int(argument) for argument in sys.argv[1:]]
    seconds, seed, threads = [*given, *(60, 0, 16)[len(given) :]]
    sys.setswitchinterval(1e-4)
    before = live()
    done, wrong = stress(seconds, seed, threads)
    if not eventually(lambda: live() == before):
        wrong.append(f"left alive: {live()}, and before: {before}")
    for way, count in sorted(done.items()):
        print(f"{count:9} {way}")
    print(f"{done.total():9} in {seconds} s by {threads} threads, seed {seed}")
    print("\n".join(wrong) or "every result right, nothing left alive")
    return min(len(wrong), 1)


if __name__ == "__main__":
    sys.exit(main())
