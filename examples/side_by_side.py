"""Time two ways of doing the same work, alternately, so that both meet the same machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

Item = TypeVar("Item")


def one_round(
    routes: Mapping[str, Callable[[Item], object]], items: Iterable[Item]
) -> dict[str, float]:
    """Run every route on every item, the routes taking turns at going first.

    Args:
        routes: the callables to compare, by name.
        items: what each of them is called with, one after the other.

    Returns:
        Mean seconds per item of each route.
    """
    forward = list(routes.items())
    backward = forward[::-1]
    spent = dict.fromkeys(routes, 0.0)
    count = 0
    for item in items:
        for name, route in forward if count % 2 == 0 else backward:
            start = time.perf_counter()
            route(item)
            spent[name] += time.perf_counter() - start
        count += 1
    return {name: seconds / max(count, 1) for name, seconds in spent.items()}


def table(rounds: list[dict[str, float]], per: str) -> str:
    """Lay out minimum and median over the rounds.

    Args:
        rounds: what `one_round` returned, once per round.
        per: what one item is called, for the heading.

    Returns:
        Lines of text, times in microseconds.
    """
    width = max(len(name) for name in rounds[0])
    lines = [f"  {'us per ' + per:<{width}}  {'minimum':>9}  {'median':>9}"]
    for name in rounds[0]:
        micros = [1e6 * each[name] for each in rounds]
        lines.append(f"  {name:<{width}}  {min(micros):9.1f}  {statistics.median(micros):9.1f}")
    return "\n".join(lines)
