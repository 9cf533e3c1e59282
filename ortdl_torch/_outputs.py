"""What an ``OnnxModule`` returns: a tensor, a named tuple or a tuple, as the model declares."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, cast

import torch

Outputs = torch.Tensor | tuple[torch.Tensor, ...]


def outputs_type(names: tuple[str, ...]) -> type[tuple[torch.Tensor, ...]] | None:
    """The class of the result of a model with the outputs ``names``; None for one tensor."""
    return None if len(names) == 1 else _tuple_type(names)


@cache
def _tuple_type(names: tuple[str, ...]) -> type[tuple[torch.Tensor, ...]]:
    make: Any = namedtuple
    try:
        # TorchScript knows one class by each name.
        made: Any = make("Outputs_" + "_".join(names), names)
    except ValueError:  # these names cannot be Python's
        return tuple
    # Another process would not find the class by its name.
    made.__reduce__ = lambda self: (_outputs, (names, tuple(self)))
    return cast("type[tuple[torch.Tensor, ...]]", made)


def maker(cls: type[tuple[torch.Tensor, ...]]) -> Callable[[Iterable[torch.Tensor]], Any]:
    """What makes a ``cls`` of a sequence of tensors."""
    return getattr(cls, "_make", cls)


def _outputs(names: tuple[str, ...], tensors: tuple[torch.Tensor, ...]) -> Any:
    return maker(_tuple_type(names))(tensors)
