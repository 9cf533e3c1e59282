"""The Python source of the routes that run a model: statements over the names of its tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch

Tensors = dict[str, torch.Tensor]


def feeds(names: Sequence[str], value: str) -> str:
    """A dict of the inputs; `value` is an expression with {} for the tensor."""
    return "{" + ", ".join(f"'{name}': {value.format(name)}" for name in names) + "}"


def made(run: str, count: int, tensor: str) -> str:
    """The tensors of a run's `count` outputs; `tensor` is an expression with {} for an output."""
    if count == 1:
        return tensor.format(f"{run}[0]")
    return f"[{tensor.format('y')} for y in {run}]"


def new_binding(inputs: Tensors, outputs: Tensors) -> str:
    """A run whose stock binding is made for it, over the tensors' memory, into new tensors.

    Args:
        inputs: by the model's names, which are those of the statement too.
        outputs: likewise, of the shapes and dtypes that come out.
    """

    def bind(direction: str, name: str, x: torch.Tensor) -> str:
        dtype = str(x.dtype).removeprefix("torch.")
        where = f"'{name}', 'cpu', 0, numpy.{dtype}, {tuple(x.shape)}, {name}.data_ptr()"
        return f"binding.bind_{direction}put({where})"

    lines = ["binding = stock.io_binding()"]
    lines += [bind("in", name, x) for name, x in inputs.items()]
    for name, y in outputs.items():
        lines += [f"{name} = torch.empty({tuple(y.shape)})", bind("out", name, y)]
    return "; ".join([*lines, "stock.run_with_iobinding(binding)"])
