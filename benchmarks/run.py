"""Measure ortdl_torch beside stock onnxruntime and beside the bare C calls ("the floor").

    python benchmarks/run.py [--quick] [--json FILE]

Everything runs in one process on one CPU, one thread each for PyTorch and ONNX Runtime. Every route
is checked for its result, warmed, and then timed for a moment per round, all routes in turn. Ratios
are those of the minima: times depend on the machine, ratios hardly do. How a time is taken stands
in timing.py. A goal that is missed is said, and is no error.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from pathlib import Path

import torch

# TorchScript is deprecated, and still one of the routes.
warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)

import conversions  # noqa: E402
import exchange  # noqa: E402
import floor  # noqa: E402
import sessions  # noqa: E402
import table  # noqa: E402
import through_torch  # noqa: E402
from timing import interleave  # noqa: E402

MILLISECOND = 1e6


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a short run, for a first look")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    return parser.parse_args()


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"[bench] {text}", flush=True)


def main() -> int:
    """Measure and print."""
    arguments = parse_arguments()
    rounds, turn = (30, 0.3 * MILLISECOND) if arguments.quick else (200, 1.0 * MILLISECOND)

    say("compiling the floor where it has changed")
    bare = floor.load()
    through_torch.prepare()
    torch.set_num_threads(1)
    cpu = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpu})

    say("loading the models, and checking what every route gives")
    cases = [
        *conversions.cases(bare),
        *exchange.cases(),
        *sessions.cases(bare),
    ]
    routes = [route for case in cases for route in case.routes]
    named = ", ".join(f"{name} {version}" for name, version in table.versions().items())
    say(f"{named}; on CPU {cpu} alone")
    say(f"warming {len(routes)} routes, then {rounds} rounds of {turn / MILLISECOND:g} ms each")
    for done in interleave(routes, rounds, turn):
        if done % (rounds // 10) == 0:
            say(f"round {done} of {rounds}")

    for case in cases:
        print("", *table.lines_of(case), sep="\n")
    print("", *table.verdict_lines(cases), sep="\n")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(table.figures(cases), indent=2) + "\n")
        say(f"figures written to {arguments.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
