"""The core paths, of which instructions are counted."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import floor
import models
import table
import torch
from case import OURS
from sessions import Runs
from timing import Sample, pin, python_sample

import ortdl_torch

# TorchScript is deprecated, and still one of the paths.
warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)

CONVERSIONS = {
    "to_ortvalue(x)": "to_ortvalue(x)",
    "from_ortvalue(value)": "from_ortvalue(value)",
    "there and back": "from_ortvalue(to_ortvalue(x))",
}
RUNS = {
    OURS: "session(a, b)",
    "ours, run": "session.run(None, feeds)",
    "ours, run_into": "session.run_into(targets, inputs)",
    "ours, IOBinding kept": "session.run_with_iobinding(bound)",
    "OnnxModule": "OnnxModule: module(a, b)",
    "ours, 64 inputs in turn": "session(a, b), 64 inputs in turn",
    "ours, 64 outputs kept": "session(a, b), 64 outputs kept",
    "ours, torch.ops": "torch.ops.ortdl.run",
    "ours, TorchScript": "the same in TorchScript",
    "empty op, torch.ops": "empty op: torch.ops",
    "empty op, TorchScript": "empty op: TorchScript",
    "floor": "floor: prebound RunWithBinding",
    "floor, values new": "floor: Run with new values",
}
"""Routes of the case "Add of 1 element", and what they are called here."""


def core() -> Iterator[tuple[str, Sample]]:
    """Each path by its name."""
    bare = floor.load()
    pin()
    x = torch.arange(4.0)
    yield "floor: tensor to value", lambda calls: bare.time_to_values([x], calls)
    yield "floor: value to tensor", lambda calls: bare.time_from_values([x], calls)
    scope: dict[str, object] = {**vars(ortdl_torch), "x": x, "value": ortdl_torch.to_ortvalue(x)}
    for name, code in CONVERSIONS.items():
        yield name, python_sample(code, scope)
    torch.manual_seed(0)
    pair = {"a": torch.rand(1), "b": torch.rand(1)}
    runs = Runs("run, Add of 1 element", models.add(), pair, [])
    runs.add_floor(bare)
    runs.add_ours()
    runs.add_dispatched(with_empty=True)
    for route, name in RUNS.items():
        yield name, runs.case.route(route).sample


def versions() -> dict[str, str]:
    """What is counted."""
    return table.versions()
