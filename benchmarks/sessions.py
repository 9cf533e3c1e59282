"""Cases: a model runs, tensors in and tensors out."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import models
import numpy as np
import onnxruntime
import torch
from case import FLOOR, OURS, STOCK, Case, Goal
from onnxruntime import OrtValue
from onnxruntime.capi import onnxruntime_pybind11_state
from torch._C import _to_dlpack as to_dlpack
from torch.utils.dlpack import from_dlpack

import ortdl_torch

Tensors = dict[str, torch.Tensor]


class Scripted(torch.nn.Module):
    """A session in TorchScript, called once per call from Python."""

    def __init__(self, session: torch.ScriptObject) -> None:
        super().__init__()
        self.session = session

    def forward(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """All the model's outputs."""
        outputs: list[torch.Tensor] = torch.ops.ortdl.run(self.session, inputs)
        return outputs


def feeds(names: Sequence[str], value: str) -> str:
    """The source of a dict of the inputs; `value` is an expression with {} for the tensor."""
    return "{" + ", ".join(f"'{name}': {value.format(name)}" for name in names) + "}"


def new_binding(inputs: Tensors, output: torch.Tensor) -> str:
    """The source of a run whose binding is made for it, over the tensors' memory."""
    bind = "binding.bind_{}put('{}', 'cpu', 0, numpy.float32, {}, {}.data_ptr())".format
    lines = [
        "binding = stock.io_binding()",
        *(bind("in", name, tuple(x.shape), name) for name, x in inputs.items()),
        f"y = torch.empty({tuple(output.shape)})",
        bind("out", "y", tuple(output.shape), "y"),
        "stock.run_with_iobinding(binding)",
    ]
    return "; ".join(lines)


def case_of(
    title: str, model: bytes, inputs: Tensors, goals: Sequence[Goal], floor: ModuleType
) -> Case:
    """Every route to run `model`, which has one output, y, all of it float32."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = ortdl_torch.InferenceSession(model, options)
    stock = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    arrays = {name: x.numpy() for name, x in inputs.items()}
    expected = torch.from_numpy(stock.run(None, arrays)[0])
    scope: dict[str, object] = {
        **inputs,
        "C": onnxruntime_pybind11_state,
        "OrtValue": OrtValue,
        "from_dlpack": from_dlpack,
        "numpy": np,
        "script_session": session.script_object,
        "scripted": torch.jit.script(Scripted(session.script_object)),
        "session": session,
        "stock": stock,
        "c_session": stock._sess,
        "to_dlpack": to_dlpack,
        "torch": torch,
    }
    case = Case(title, goals, scope, expected)
    names = list(inputs)
    tensors = ", ".join(names)

    bare_output = torch.empty_like(expected)
    bare = floor.BareSession(model, inputs, {"y": bare_output})
    case.add_bare(FLOOR, "prebound RunWithBinding", bare.time_prebound, bare_output)
    case.add_bare("floor, values new", "owning C calls, Run, ReleaseValue", bare.time_run)

    case.add(OURS, f"session({tensors})[0]")
    case.add("ours, run", f"session.run(None, {feeds(names, '{}')})[0]")
    case.add("ours, torch.ops", f"torch.ops.ortdl.run(script_session, [{tensors}])[0]")
    case.add("ours, TorchScript", f"scripted([{tensors}])[0]")

    case.add(STOCK, f"torch.from_numpy(stock.run(None, {feeds(names, '{}.numpy()')})[0])")
    scope["bound_output"] = bound_output = torch.empty_like(expected)
    scope["binding"] = binding = stock.io_binding()
    for name, x in inputs.items():
        binding.bind_input(name, "cpu", 0, np.float32, tuple(x.shape), x.data_ptr())
    shape = tuple(bound_output.shape)
    binding.bind_output("y", "cpu", 0, np.float32, shape, bound_output.data_ptr())
    case.add("stock, IOBinding kept", "stock.run_with_iobinding(binding)", "bound_output")
    case.add("stock, IOBinding new", new_binding(inputs, expected), "y")
    values = feeds(names, "OrtValue.from_dlpack({})")
    case.add("stock, OrtValues", f"torch.from_dlpack(stock.run_with_ort_values(None, {values})[0])")
    values = feeds(names, "C.OrtValue.from_dlpack(to_dlpack({}))")
    run = f"c_session.run_with_ort_values({values}, ['y'], None)"
    case.add("stock, expert", f"from_dlpack({run}[0].to_dlpack())")
    return case


def cases(floor: ModuleType) -> list[Case]:
    """The models of the goals."""
    torch.manual_seed(0)
    pair = {"a": torch.rand(1), "b": torch.rand(1)}
    ten = {name: torch.rand(1) for name in models.TEN}
    features = {"x": torch.rand(1, 64)}
    add_goals = [Goal("faster than", 2.5, STOCK), Goal("at most", 1.4, FLOOR)]
    return [
        case_of("run, Add of 1 element", models.add(), pair, add_goals, floor),
        case_of(
            "run, 10 tiny inputs", models.ten_inputs(), ten, [Goal("at most", 1.5, FLOOR)], floor
        ),
        case_of("run, MLP 64-64-8", models.mlp(), features, [Goal("at most", 1.3, FLOOR)], floor),
    ]
