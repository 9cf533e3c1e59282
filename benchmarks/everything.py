"""All cases of the benchmark, in a process made ready for them."""

from __future__ import annotations

import os
import warnings

import torch

# TorchScript is deprecated, and still one of the routes.
warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)

import conversions  # noqa: E402
import exchange  # noqa: E402
import floor  # noqa: E402
import sessions  # noqa: E402
import through_torch  # noqa: E402
from case import Case  # noqa: E402


def pin() -> int:
    """Keep this process on one CPU, and PyTorch on one thread; the CPU's number."""
    torch.set_num_threads(1)
    cpu = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpu})
    return cpu


def cases() -> dict[str, list[Case]]:
    """Every case by the picture that it is in; what each route gives is checked on the way."""
    bare = floor.load()
    through_torch.prepare()
    return {
        "conversions": conversions.cases(bare),
        "exchange": exchange.cases(),
        "runs": sessions.cases(bare),
    }
