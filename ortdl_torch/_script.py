"""The form of an ``OnnxModule`` that TorchScript compiles, which takes no ``*args``."""

from __future__ import annotations

import itertools
import keyword
import linecache
from functools import cache
from typing import Any

import torch

from ortdl_torch._outputs import outputs_type

# What generated code means something else by: that below, and that of torch.fx.
_TAKEN = {"self", "Outputs", "torch", "inf", "nan", "device", "NoneType", "fx_pytree", "pytree"}


def as_identifiers(names: tuple[str, ...]) -> list[str]:
    """Python names like ``names``, each different: those that may be are themselves."""
    made: list[str] = []
    for name in names:
        wanted = "".join(c if f"_{c}".isidentifier() else "_" for c in name)
        if not wanted.isidentifier() or keyword.iskeyword(wanted) or wanted in _TAKEN:
            wanted = f"_{wanted}"
        while wanted in made or (wanted != name and wanted in names):
            wanted += "_"
        made.append(wanted)
    return made


def scriptable(
    script_object: torch.ScriptObject, inputs: tuple[str, ...], outputs: tuple[str, ...]
) -> torch.nn.Module:
    """A module that runs the session, with the inputs as its arguments."""
    module: torch.nn.Module = _module_type(inputs, outputs)()
    module.session = script_object  # type: ignore[assignment]
    return module


_numbers = itertools.count()


# TorchScript keeps what it compiled for each class: one class serves all models of one signature.
@cache
def _module_type(inputs: tuple[str, ...], outputs: tuple[str, ...]) -> type[torch.nn.Module]:
    result = outputs_type(outputs)
    items = ", ".join(f"outputs[{i}]" for i in range(len(outputs)))
    if result is None:
        items = "outputs[0]"
    elif result is tuple:
        items = f"({items},)"
    else:
        items = f"Outputs({items})"
    names = as_identifiers(inputs)
    source = (
        f"def forward(self, {', '.join(f'{name}: Tensor' for name in names)}):\n"
        f"    outputs = self.session.run([{', '.join(names)}])\n"
        f"    return {items}\n"
    )
    # TorchScript reads a function's source, which it finds here.
    file = f"<ortdl_torch.OnnxModule {next(_numbers)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"Tensor": torch.Tensor, "Outputs": result, "__name__": __name__}
    exec(compile(source, file, "exec"), scope)
    return type("OnnxModule", (torch.nn.Module,), {"forward": scope["forward"]})
