"""The figures as SVG: nanoseconds on a logarithmic axis, the floor drawn in."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from case import FLOOR, OURS, STOCK, Case
from timing import Route

WIDTH, NAMES, VALUES, ROW, TITLE, EDGE = 920, 300, 74, 18, 26, 34
"""Pixels: the picture, the column of names, that of values, a row, a case's title, an axis."""
FONT = "ui-sans-serif, system-ui, sans-serif"
KINDS = {
    FLOOR: "bare C calls (floor)",
    OURS: "ortdl_torch",
    STOCK: "stock onnxruntime",
    "other": "PyTorch alone",
}


@dataclass(frozen=True)
class Theme:
    """The colours of one picture; `kinds` has one for each of KINDS."""

    name: str
    ground: str
    text: str
    muted: str
    grid: str
    kinds: dict[str, str]


THEMES = (
    Theme(
        "light",
        *("#ffffff", "#1f2328", "#59636e", "#d1d9e0"),
        dict(zip(KINDS, ("#59636e", "#0969da", "#bc4c00", "#8250df"), strict=True)),
    ),
    Theme(
        "dark",
        *("#0d1117", "#f0f6fc", "#9198a1", "#30363d"),
        dict(zip(KINDS, ("#9198a1", "#4493f8", "#f0883e", "#ab7df8"), strict=True)),
    ),
)


def kind_of(name: str) -> str:
    """Which of KINDS the route called `name` is."""
    if name.startswith("OnnxModule"):
        return OURS
    return next((kind for kind in (FLOOR, OURS, STOCK) if name.startswith(kind)), "other")


def shown(nanoseconds: float) -> str:
    """A time with three digits and its unit."""
    for unit, size in (("ns", 1.0), ("µs", 1e3), ("ms", 1e6)):
        if nanoseconds < 999.5 * size or unit == "ms":
            value = nanoseconds / size
            digits = 0 if unit == "ns" or value >= 99.95 else 1 if value >= 9.995 else 2
            return f"{value:.{digits}f} {unit}"
    raise AssertionError


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis from one power of ten to another, both in nanoseconds."""

    low: int
    high: int

    @classmethod
    def over(cls, times: Sequence[float]) -> Axis:
        """The axis that holds all of `times`."""
        low = math.floor(math.log10(min(times)))
        return cls(low, max(low + 1, math.ceil(math.log10(max(times)))))

    def x(self, nanoseconds: float) -> float:
        """Where a time is, in pixels."""
        part = (math.log10(nanoseconds) - self.low) / (self.high - self.low)
        return NAMES + part * (WIDTH - NAMES - VALUES)

    def lines(self, top: float, bottom: float, theme: Theme) -> Iterator[str]:
        """A line and its time for each power of ten."""
        for power in range(self.low, self.high + 1):
            x = self.x(10.0**power)
            yield line(x, top, x, bottom, theme.grid)
            named = f"{10 ** (power % 3)} {('ns', 'µs', 'ms', 's')[power // 3]}"
            yield text(x, top - 6, named, theme.muted, "middle")
            yield text(x, bottom + 15, named, theme.muted, "middle")


def line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1) -> str:
    """A straight line."""
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width:g}"/>'


def text(
    x: float, y: float, words: str, colour: str, anchor: str = "start", weight: str = "normal"
) -> str:
    """Words at a place."""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text {place} fill="{colour}">{escape(words)}</text>'


def mark(kind: str, x: float, y: float, theme: Theme) -> str:
    """What stands for a time: each kind has a form of its own, besides its colour."""
    colour = theme.kinds[kind]
    if kind == FLOOR:
        return line(x, y - 7, x, y + 7, colour, 2)
    if kind == OURS:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{colour}"/>'
    if kind == STOCK:
        return f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" fill="{colour}"/>'
    points = f"{x:.1f},{y - 5:.1f} {x + 5:.1f},{y + 4:.1f} {x - 5:.1f},{y + 4:.1f}"
    return f'<polygon points="{points}" fill="{colour}"/>'


def legend(kinds: Sequence[str], theme: Theme) -> Iterator[str]:
    """What each mark stands for, in one line."""
    x = 12.0
    for kind in kinds:
        yield mark(kind, x + 5, 16, theme)
        yield text(x + 16, 20, KINDS[kind], theme.text)
        x += 34 + 6.4 * len(KINDS[kind])


def whole(parts: Sequence[str], height: float, title: str, theme: Theme) -> str:
    """The picture's file."""
    size = f'width="{WIDTH}" height="{height:.0f}" viewBox="0 0 {WIDTH} {height:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{FONT}"'
    ground = f'<rect width="{WIDTH}" height="{height:.0f}" fill="{theme.ground}"/>'
    named = f"<title>{escape(title)}</title>"
    return "\n".join([f'{head} font-size="12">', named, ground, *parts, "</svg>"]) + "\n"


def row(route: Route, y: float, axis: Axis, theme: Theme) -> Iterator[str]:
    """One route: its minimum, and a line to its median."""
    kind = kind_of(route.name)
    yield text(NAMES - 10, y + 4, route.name, theme.text, "end")
    yield line(axis.x(route.minimum), y, axis.x(route.median), y, theme.kinds[kind], 2)
    yield mark(kind, axis.x(route.minimum), y, theme)
    yield text(WIDTH - 8, y + 4, shown(route.minimum), theme.muted, "end")


def in_full(cases: Sequence[Case], title: str, theme: Theme) -> str:
    """Every route of every case, and through each case the line of its floor."""
    routes = [route for case in cases for route in case.routes]
    axis = Axis.over([time for route in routes for time in (route.minimum, route.median)])
    top = y = 30.0 + EDGE
    parts: list[str] = []
    for case in cases:
        y += TITLE
        parts.append(text(12, y - 8, case.title, theme.text, weight="bold"))
        first = y
        for route in case.routes:
            parts += row(route, y + ROW / 2, axis, theme)
            y += ROW
        parts += [
            line(axis.x(route.minimum), first, axis.x(route.minimum), y, theme.kinds[FLOOR])
            for route in case.routes
            if route.name == FLOOR
        ]
    present = {kind_of(route.name) for route in routes}
    head = legend([kind for kind in KINDS if kind in present], theme)
    return whole([*head, *axis.lines(top, y + 4, theme), *parts], y + EDGE, title, theme)


def overview(cases: Sequence[Case], title: str, theme: Theme) -> str:
    """A row for each case that has them: floor, ours and stock, and how far we are from stock."""
    wanted = (FLOOR, OURS, STOCK)
    found = [(case, {r.name: r.minimum for r in case.routes if r.name in wanted}) for case in cases]
    found = [(case, times) for case, times in found if OURS in times and STOCK in times]
    axis = Axis.over([time for _, times in found for time in times.values()])
    top = y = 30.0 + EDGE
    parts: list[str] = []
    for case, times in found:
        y += ROW + 4
        ours, stock = axis.x(times[OURS]), axis.x(times[STOCK])
        parts.append(text(NAMES - 10, y + 4, case.title, theme.text, "end"))
        parts.append(line(ours, y, stock, y, theme.grid, 3))
        parts += [mark(kind, axis.x(time), y, theme) for kind, time in times.items()]
        ratio = f"{times[STOCK] / times[OURS]:.2g} x"
        parts.append(text(WIDTH - 8, y + 4, ratio, theme.muted, "end"))
    y += ROW
    head = [*legend(wanted, theme), text(WIDTH - 8, 20, "stock / ours", theme.muted, "end")]
    return whole([*head, *axis.lines(top, y, theme), *parts], y + EDGE - 4, title, theme)
