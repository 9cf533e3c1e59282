"""Count what a call of each route asks malloc for, in a process into which a counter is loaded.

    python benchmarks/allocations.py FILE

Counted are the blocks that C and C++ ask for. Python's small objects are not among them, as they
come from blocks that Python keeps, and neither is what ONNX Runtime has from its arena. FILE gets
JSON: for each case and route, blocks per call, and the most bytes that one call had at once.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import native
from case import Case
from timing import Sample, pin, python_sample

CALLS = 16
Counts = dict[str, dict[str, tuple[float, int]]]


def read_into(cases: Sequence[Case]) -> None:
    """Count in a process of its own, and note it at the routes of `cases`.

    Raises:
        CalledProcessError: the other process failed.
    """
    environment = {**os.environ, "LD_PRELOAD": str(native.library("malloc_count"))}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "counts.json")
        command = [sys.executable, __file__, str(file)]
        subprocess.run(command, env=environment, check=True)
        counts = json.loads(file.read_text())
    for case in cases:
        for route in case.routes:
            route.allocations, route.peak = counts[case.title][route.name]


class Counter:
    """The counter in this process.

    Raises:
        SystemExit: it is not there.
    """

    def __init__(self) -> None:
        self.library = ctypes.CDLL(None)
        if not hasattr(self.library, "ortdl_malloc_calls"):
            raise SystemExit(
                "nothing counts in this process: set LD_PRELOAD to what benchmarks/native.py makes "
                "of malloc_count.cpp, or run `benchmarks/run.py`, which does"
            )
        self.library.ortdl_malloc_calls.restype = ctypes.c_int64
        self.library.ortdl_malloc_peak.restype = ctypes.c_int64

    def calls(self, sample: Sample, count: int) -> int:
        """The blocks that `count` calls ask for, with those of the loop round them."""
        before: int = self.library.ortdl_malloc_calls()
        sample(count)
        after: int = self.library.ortdl_malloc_calls()
        return after - before

    def per_call(self, sample: Sample) -> float:
        """The blocks that one call asks for, in the mean."""
        sample(CALLS)
        return (self.calls(sample, 2 * CALLS) - self.calls(sample, CALLS)) / CALLS

    def peak(self, sample: Sample) -> int:
        """The most bytes that one call has at once, with those of the loop round it."""
        self.library.ortdl_malloc_mark()
        sample(1)
        peak: int = self.library.ortdl_malloc_peak()
        return peak


def main() -> int:
    """Count every route."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    counter = Counter()
    import everything  # what it imports takes seconds

    pin()
    nothing = python_sample("pass", {})
    loop = min(counter.peak(nothing) for _ in range(3))
    counts: Counts = {
        case.title: {
            route.name: (
                counter.per_call(route.sample),
                max(0, counter.peak(route.sample) - loop),
            )
            for route in case.routes
        }
        for cases in everything.cases().values()
        for case in cases
    }
    Path(sys.argv[1]).write_text(json.dumps(counts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
