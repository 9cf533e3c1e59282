"""All cases of the benchmark, in a process made ready for them."""

from __future__ import annotations

import warnings

# TorchScript is deprecated, and still one of the routes.
warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)

import conversions  # noqa: E402
import exchange  # noqa: E402
import floor  # noqa: E402
import sessions  # noqa: E402
import through_torch  # noqa: E402
from case import Case  # noqa: E402


def cases() -> dict[str, list[Case]]:
    """Every case by the picture that it is in; what each route gives is checked on the way."""
    bare = floor.load()
    through_torch.prepare()
    return {
        "conversions": conversions.cases(bare),
        "exchange": exchange.cases(),
        "runs": sessions.cases(bare),
    }
