"""A piece of work, the routes that do it, and the goals set for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from timing import Route, Sample, python_sample

OURS, STOCK, FLOOR = "ours", "stock", "floor"

Result = torch.Tensor | Sequence[torch.Tensor]


@dataclass(frozen=True)
class Verdict:
    """A goal beside what was measured."""

    goal: str
    measured: str
    met: bool


@dataclass(frozen=True)
class Goal:
    """A bound on the ratio of two minima within the run."""

    kind: Literal["faster than", "at most"]
    bound: float
    against: str
    subject: str = OURS

    def judge(self, case: Case) -> Verdict:
        """Compare the case's times with the bound."""
        subject = case.route(self.subject).minimum
        against = case.route(self.against).minimum
        if self.kind == "faster than":
            ratio = against / subject
            met = ratio >= self.bound
            goal = f"{self.subject} at least {self.bound:g} x faster than {self.against}"
        else:
            ratio = subject / against
            met = ratio <= self.bound
            goal = f"{self.subject} at most {self.bound:g} x {self.against}"
        return Verdict(goal, f"{ratio:.2f} x", met)


@dataclass(frozen=True)
class Excess:
    """A bound on how many nanoseconds longer than another a route takes, by their minima."""

    bound: float
    subject: str
    against: str = OURS

    def judge(self, case: Case) -> Verdict:
        """Compare the case's times with the bound."""
        taken = case.route(self.subject).minimum - case.route(self.against).minimum
        goal = f"{self.subject} at most {self.bound:g} ns longer than {self.against}"
        return Verdict(goal, f"{taken:.0f} ns", taken <= self.bound)


@dataclass
class Case:
    """One piece of work; `stock` and `floor` name the routes that the table compares with.

    What is `expected` is a tensor, or a sequence of tensors.
    """

    title: str
    goals: Sequence[Goal | Excess]
    scope: dict[str, object]
    expected: Result
    routes: list[Route] = field(default_factory=list)
    facts: list[Verdict] = field(default_factory=list)

    def route(self, name: str) -> Route:
        """The route of that name."""
        return next(route for route in self.routes if route.name == name)

    def add(self, name: str, code: str, result: str = "") -> None:
        """Add a Python route, which must give what is expected.

        Args:
            name: what to call it.
            code: the statement to time, over the names in `scope`.
            result: an expression for what the statement leaves behind, as `expected` is; if empty,
                the statement is an expression, that itself.

        Raises:
            AssertionError: it gives something else than is expected.
        """
        scope = dict(self.scope)
        if result:
            exec(code, scope)
        actual = eval(result or code, scope)
        self._check(name, actual)
        self.routes.append(Route(name, code, python_sample(code, self.scope)))

    def add_bare(self, name: str, code: str, sample: Sample, result: Result | None = None) -> None:
        """Add a route through C++; `result`, if there is one, is where a call leaves its result.

        Raises:
            AssertionError: it leaves something else than is expected.
        """
        sample(1)
        if result is not None:
            self._check(name, result)
        self.routes.append(Route(name, code, sample))

    def _check(self, name: str, actual: Result) -> None:
        found, expected = as_tuple(actual), as_tuple(self.expected)
        if len(found) != len(expected) or not all(map(torch.equal, found, expected)):
            raise AssertionError(
                f"{self.title}, {name}: gives {actual} where {self.expected} is expected"
            )

    def verdicts(self) -> list[Verdict]:
        """What holds and what does not."""
        return [*(goal.judge(self) for goal in self.goals), *self.facts]


def as_tuple(result: Result) -> tuple[torch.Tensor, ...]:
    """The tensors of a result."""
    return (result,) if isinstance(result, torch.Tensor) else tuple(result)
