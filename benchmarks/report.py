"""The figures as files: pictures, a page in Markdown, and JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import picture
import table
import threads
from case import FLOOR, STOCK, Case, Verdict

OVERVIEW = "overview"
TITLES = {
    OVERVIEW: "The cost of a call: the floor, ortdl_torch, stock onnxruntime",
    "conversions": "Conversions between tensors and OrtValues",
    "exchange": "Exchange by DLPack",
    "runs": "Models, tensors in and tensors out",
}


@dataclass
class Measured:
    """All that one run of the benchmark found."""

    cases: Mapping[str, Sequence[Case]]
    """By the picture that they are in."""
    rounds: int
    cores: int
    """CPUs that this process may use."""
    load: float
    """How many processes wanted to run, in the mean over the minute before."""
    throughputs: dict[str, dict[int, float]] = field(default_factory=dict)
    """Calls per second of several threads, as threads.py has them."""

    def all_cases(self) -> list[Case]:
        """The cases of every picture."""
        return [case for cases in self.cases.values() for case in cases]

    def verdicts(self) -> list[tuple[str, Verdict]]:
        """Every goal, with what it is about."""
        found = [(case.title, verdict) for case in self.all_cases() for verdict in case.verdicts()]
        if self.throughputs:
            judged = threads.verdicts(self.throughputs, self.cores)
            found += [(f"threads, {threads.JUDGED}", verdict) for verdict in judged]
        return found


def write(measured: Measured, folder: Path) -> None:
    """Write the page ``figures.md`` and its pictures.

    Args:
        measured: what to tell.
        folder: where to; it is made if it is not there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for theme in picture.THEMES:
        drawn = {OVERVIEW: picture.overview(measured.all_cases(), TITLES[OVERVIEW], theme)}
        for name, cases in measured.cases.items():
            drawn[name] = picture.in_full(cases, TITLES[name], theme)
        for name, svg in drawn.items():
            (folder / f"bench-{name}-{theme.name}.svg").write_text(svg)
    (folder / "figures.md").write_text("\n".join(page(measured)) + "\n")


def write_json(measured: Measured, file: Path) -> None:
    """Write everything that was measured, times in nanoseconds per call."""
    figures = table.figures(measured.all_cases()) | {"threads": measured.throughputs}
    file.write_text(json.dumps(figures, indent=2) + "\n")


def picture_lines(name: str) -> list[str]:
    """A picture that follows the reader's light or dark."""
    return [
        "<picture>",
        f'<source media="(prefers-color-scheme: dark)" srcset="bench-{name}-dark.svg">',
        f'<img alt="{TITLES[name]}" src="bench-{name}-light.svg">',
        "</picture>",
        "",
    ]


def row(*columns: str) -> str:
    """A row of a table."""
    return f"| {' | '.join(columns)} |"


def case_lines(case: Case) -> list[str]:
    """The table of one case: ratios, and what was counted."""
    lines = [
        f"### {case.title}",
        "",
        row("way", "times the floor", "times faster than stock", "blocks", "bytes", "code"),
        "|---|---:|---:|---:|---:|---|",
    ]
    for route in case.routes:
        floor = table.ratio_to(case, FLOOR, route)
        stock = table.ratio_to(case, STOCK, route)
        lines.append(
            row(
                route.name,
                "" if floor is None else f"{floor:.2f}",
                "" if stock is None else f"{1 / stock:.2f}",
                "" if route.allocations is None else f"{route.allocations:.0f}",
                "" if route.peak is None else f"{route.peak}",
                f"`{table.shortened(route.code)}`",
            )
        )
    return [*lines, ""]


def thread_lines(throughputs: dict[str, dict[int, float]]) -> list[str]:
    """The table of the threads."""
    lines = [
        "## Threads",
        "",
        "Calls per second of so many Python threads together, beside those of one.",
        "",
        row("work", *(f"{n} threads" for n in threads.THREADS[1:])),
        f"|---|{'---:|' * (len(threads.THREADS) - 1)}",
    ]
    for name, throughput in throughputs.items():
        ratios = threads.ratios(throughput)
        lines.append(row(name, *(f"{ratios[n]:.2f}" for n in threads.THREADS[1:])))
    return [*lines, ""]


def page(measured: Measured) -> list[str]:
    """The page's lines."""
    named = ", ".join(f"{name} {version}" for name, version in table.versions().items())
    verdicts = measured.verdicts()
    met = sum(verdict.met for _, verdict in verdicts)
    about = (
        f"`make bench DOCS=1` wrote this page and its pictures: {named}; {measured.cores} CPUs, on "
        f"which the load was {measured.load:.1f} before; {measured.rounds} rounds. "
        "[performance.md](performance.md) says how it is measured and what limits each way. Ratios "
        "are those of minima within the run; the pictures show minima and, by a line, medians. "
        "Blocks and bytes are what one call asks of malloc."
    )
    lines = [
        "# Figures",
        "",
        *textwrap.wrap(about, 115),
        "",
        *picture_lines(OVERVIEW),
        "## Goals",
        "",
        f"{met} of {len(verdicts)} are met.",
        "",
        row("work", "goal", "measured", "met"),
        "|---|---|---:|---|",
    ]
    lines += [row(title, v.goal, v.measured, "yes" if v.met else "**no**") for title, v in verdicts]
    lines.append("")
    if measured.throughputs:
        lines += thread_lines(measured.throughputs)
    for name, cases in measured.cases.items():
        lines += [f"## {TITLES[name]}", "", *picture_lines(name)]
        for case in cases:
            lines += case_lines(case)
    return lines[:-1]
