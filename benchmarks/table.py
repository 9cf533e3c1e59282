"""The figures as text and as JSON."""

from __future__ import annotations

import platform
from collections.abc import Sequence

import numpy as np
import onnxruntime
import torch
from case import FLOOR, STOCK, Case, Verdict
from timing import Route

import ortdl_torch

WIDTH = 24


def ratio_to(case: Case, name: str, route: Route) -> float | None:
    """How many times the minimum of the route called `name` that of `route` is, if it is there."""
    return next((route.minimum / r.minimum for r in case.routes if r.name == name), None)


def shortened(code: str) -> str:
    """A statement, its end cut off if it is long."""
    return code if len(code) <= 72 else f"{code[:69]}..."


def lines_of(case: Case) -> list[str]:
    """The table of one case."""
    head = f"  {'ns per call':<{WIDTH}} {'minimum':>9} {'median':>9} {'/ floor':>8} {'x stock':>8}"
    head += f" {'blocks':>7} {'bytes':>9}"
    lines = [case.title, f"{head}  what is timed"]
    for route in case.routes:
        to_floor, to_stock = ratio_to(case, FLOOR, route), ratio_to(case, STOCK, route)
        floor = "" if to_floor is None else f"{to_floor:.2f}"
        stock = "" if to_stock is None else f"{1 / to_stock:.2f}"
        blocks = "" if route.allocations is None else f"{route.allocations:.0f}"
        peak = "" if route.peak is None else str(route.peak)
        times = f"{route.minimum:9.0f} {route.median:9.0f} {floor:>8} {stock:>8}"
        counts = f"{blocks:>7} {peak:>9}"
        lines.append(f"  {route.name:<{WIDTH}} {times} {counts}  {shortened(route.code)}")
    return lines


def verdict_lines(verdicts: Sequence[tuple[str, Verdict]]) -> list[str]:
    """Every goal, what was measured, and whether it was met."""
    titles = max(len(title) for title, _ in verdicts)
    goals = max(len(verdict.goal) for _, verdict in verdicts)
    lines = [f"{'work':<{titles}}  {'goal':<{goals}}  {'measured':<14}  met"]
    lines += [
        f"{title:<{titles}}  {v.goal:<{goals}}  {v.measured:<14}  {'yes' if v.met else 'NO'}"
        for title, v in verdicts
    ]
    met = sum(verdict.met for _, verdict in verdicts)
    return [*lines, f"{met} of {len(verdicts)} goals met"]


def versions() -> dict[str, str]:
    """What was measured."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "onnxruntime": onnxruntime.__version__,
        "numpy": np.__version__,
        "ortdl_torch": ortdl_torch.__version__,
    }


def figures(cases: Sequence[Case]) -> dict[str, object]:
    """Everything that was measured, for a JSON file; times in nanoseconds per call."""
    return {
        "versions": versions(),
        "cases": [
            {
                "title": case.title,
                "routes": [
                    {
                        "name": route.name,
                        "code": route.code,
                        "minimum": round(route.minimum, 1),
                        "median": round(route.median, 1),
                        "calls_per_round": route.calls,
                        "rounds": len(route.times),
                        "blocks_per_call": route.allocations,
                        "bytes_at_once": route.peak,
                    }
                    for route in case.routes
                ],
                "goals": [vars(verdict) for verdict in case.verdicts()],
            }
            for case in cases
        ],
    }
