"""Measure ortdl_torch beside stock onnxruntime and beside the bare C calls ("the floor").

    python benchmarks/run.py [--quick] [--docs] [--json FILE]

Everything runs in one process on one CPU, one thread each for PyTorch and ONNX Runtime. Every route
is checked for its result, warmed, and then timed for a moment per round, all routes in turn. Ratios
are those of the minima: times depend on the machine, ratios hardly do. How a time is taken stands
in timing.py. A goal that is missed is said, and is no error.

Two more processes follow: one in which what each route asks of malloc is counted (allocations.py),
and one with several threads (threads.py). A quick run has no count.

A page and pictures are written to build/bench, or with --docs to docs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import allocations
import everything
import floor
import report
import table
import threads
from timing import interleave, pin

MILLISECOND = 1e6


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a short run, for a first look")
    parser.add_argument("--docs", action="store_true", help="write page and pictures to docs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args()
    if arguments.quick and arguments.docs:
        parser.error("--docs wants figures of a whole run: leave --quick out")
    return arguments


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"[bench] {text}", flush=True)


def throughputs(quick: bool) -> dict[str, dict[int, float]]:
    """What threads.py finds, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "threads.json")
        command = [sys.executable, threads.__file__, "--json", str(file)]
        subprocess.run([*command, *(["--quick"] if quick else [])], check=True)
        found = json.loads(file.read_text())
    return {name: {int(n): calls for n, calls in each.items()} for name, each in found.items()}


def main() -> int:
    """Measure and print."""
    arguments = parse_arguments()
    rounds, turn = (30, 0.3 * MILLISECOND) if arguments.quick else (200, 1.0 * MILLISECOND)
    load = os.getloadavg()[0]
    cpus = os.sched_getaffinity(0)

    say("compiling the floor where it has changed")
    floor.load()
    cpu = pin()
    say("loading the models, and checking what every route gives")
    measured = report.Measured(everything.cases(), rounds, len(cpus), load)
    cases = measured.all_cases()
    routes = [route for case in cases for route in case.routes]
    named = ", ".join(f"{name} {version}" for name, version in table.versions().items())
    say(f"{named}; on CPU {cpu} alone; the load was {load:.1f}")
    say(f"warming {len(routes)} routes, then {rounds} rounds of {turn / MILLISECOND:g} ms each")
    for done in interleave(routes, rounds, turn):
        if done % (rounds // 10) == 0:
            say(f"round {done} of {rounds}")
    if not arguments.quick:
        say("counting what each route asks of malloc, in another process")
        allocations.read_into(cases)
    say("counting calls of several threads, in another process")
    os.sched_setaffinity(0, cpus)
    measured.throughputs = throughputs(arguments.quick)

    for case in cases:
        print("", *table.lines_of(case), sep="\n")
    print("", *threads.lines_of(measured.throughputs), sep="\n")
    print("", *table.verdict_lines(measured.verdicts()), sep="\n")
    folder = floor.ROOT / "docs" if arguments.docs else floor.FOLDER
    report.write(measured, folder)
    say(f"{folder / 'figures.md'} and its pictures are written")
    if arguments.json is not None:
        report.write_json(measured, arguments.json)
        say(f"figures written to {arguments.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
