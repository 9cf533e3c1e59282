"""Cases: a model runs, tensors in and tensors out."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from types import ModuleType

import models
import numpy as np
import onnxruntime
import through_torch
import torch
from case import FLOOR, OURS, STOCK, Case, Excess, Goal
from onnxruntime import OrtValue
from onnxruntime.capi import onnxruntime_pybind11_state
from sources import Tensors, feeds, made, new_binding
from torch._C import _to_dlpack as to_dlpack
from torch.utils.dlpack import from_dlpack

import ortdl_torch

Goals = Sequence[Goal | Excess]

BY_TORCH = ("torch.ops", "TorchScript", "compiled")
"""The ways through PyTorch's dispatcher."""

SMALL: Goals = [
    *(Goal("at most", 1.1, f"empty op, {way}, then ours", f"ours, {way}") for way in BY_TORCH),
    Excess(1500, "OnnxModule"),
]
"""Of models that do next to nothing: what PyTorch's ways add is PyTorch's own cost."""
LARGE: Goals = [Goal("at most", 1.02, STOCK)]
"""Of models whose own work is nearly all: no slower, but for the noise of two minima."""


class Runs:
    """A model, its tensors, and the case to which routes are added.

    Args:
        title: what the case is called.
        model: an ONNX file's bytes, whose outputs are float32 and of fixed sizes for `inputs`.
        inputs: every input by its name.
        goals: what is to be reached.
    """

    def __init__(self, title: str, model: bytes, inputs: Tensors, goals: Goals) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = ortdl_torch.InferenceSession(model, options)
        stock = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        arrays = {name: x.numpy() for name, x in inputs.items()}
        names = [node.name for node in stock.get_outputs()]
        expected = [torch.from_numpy(y) for y in stock.run(None, arrays)]
        self.model, self.options, self.session, self.stock = model, options, session, stock
        self.module = ortdl_torch.OnnxModule(model, options)
        self.answer = through_torch.answer_of(expected)
        self.inputs, self.outputs = inputs, dict(zip(names, expected, strict=True))
        scope: dict[str, object] = {
            **inputs,
            "C": onnxruntime_pybind11_state,
            "OrtValue": OrtValue,
            "answer": self.answer,
            "c_session": stock._sess,
            "from_dlpack": from_dlpack,
            "names": names,
            "numpy": np,
            "script_session": session.script_object,
            "session": session,
            "stock": stock,
            "to_dlpack": to_dlpack,
            "torch": torch,
        }
        self.case = Case(title, goals, scope, expected)
        self.tensors = ", ".join(inputs)

    def new_outputs(self) -> list[torch.Tensor]:
        """Tensors for a run to write into."""
        return [torch.zeros_like(y) for y in self.outputs.values()]

    def add_floor(self, floor: ModuleType) -> None:
        """Add the bare C calls."""
        given = (list(self.inputs), list(self.inputs.values()))
        targets = self.new_outputs()
        bare = floor.BareSession(self.model, *given, list(self.outputs), targets)
        self.case.add_bare(FLOOR, "prebound RunWithBinding", bare.time_prebound, targets)
        code = "owning C calls, Run, ReleaseValue"
        self.case.add_bare("floor, values new", code, bare.time_run)

    def add_ours(self) -> None:
        """Add the ways that a session of ours has."""
        case, scope, call = self.case, self.case.scope, f"session({self.tensors})"
        case.add(OURS, call)
        # A session may keep what it made for the last tensors, so others are measured too.
        size = sum(x.nbytes for x in (*self.inputs.values(), *self.outputs.values()))
        ring = max(2, min(64, (256 << 20) // size))
        sets = [tuple(x.clone() for x in self.inputs.values()) for _ in range(ring)]
        scope["turn"] = itertools.cycle(sets).__next__
        case.add(f"ours, {ring} inputs in turn", "session(*turn())")
        scope["kept"] = kept = deque[tuple[torch.Tensor, ...]](maxlen=ring)
        scope["keep"] = kept.append
        case.add(f"ours, {ring} outputs kept", f"keep({call})", "kept[-1]")
        case.add("ours, run", f"session.run(None, {feeds(list(self.inputs), '{}')})")
        scope["targets"] = self.new_outputs()
        scope["given"] = tuple(self.inputs.values())
        case.add("ours, run_into", "session.run_into(targets, given)", "targets")
        scope["bound"] = bound = self.session.io_binding()
        for name, x in self.inputs.items():
            bound.bind_input(name, x)
        scope["bound_targets"] = targets = self.new_outputs()
        for name, y in zip(self.outputs, targets, strict=True):
            bound.bind_output(name, y)
        case.add("ours, IOBinding kept", "session.run_with_iobinding(bound)", "bound_targets")
        scope["module"] = self.module
        case.add("OnnxModule", f"module({self.tensors})")
        scope["plain_module"] = through_torch.Calls(self.session)
        case.add("ours, in a plain module", f"plain_module({self.tensors})")

    def add_dispatched(self, with_empty: bool) -> None:
        """Add `torch.ops` and TorchScript, and perhaps the same with the op that does nothing."""
        case, scope, tensors = self.case, self.case.scope, self.tensors
        scope["scripted"] = torch.jit.script(through_torch.Scripted(self.session.script_object))
        scope["scripted_module"] = torch.jit.script(self.module)
        case.add("ours, torch.ops", f"torch.ops.ortdl.run(script_session, [{tensors}])")
        case.add("ours, TorchScript", f"scripted([{tensors}])")
        case.add("OnnxModule, TorchScript", f"scripted_module({tensors})")
        if with_empty:
            scope["scripted_empty"] = torch.jit.script(through_torch.ScriptedEmpty(self.answer))
            self._add_empty("torch.ops", f"torch.ops.ortdl_floor.run(answer, [{tensors}])")
            self._add_empty("TorchScript", f"scripted_empty([{tensors}])")

    def add_compiled(self, with_empty: bool) -> None:
        """Add torch.compile, and perhaps the same with the op that does nothing."""
        case, scope, call = self.case, self.case.scope, through_torch.CallsOp
        run, empty = torch.ops.ortdl.run.default, torch.ops.ortdl_floor.run.default
        scope["compiled"] = through_torch.compiled(call(run, self.session.script_object))
        scope["compiled_module"] = through_torch.compiled(through_torch.Calls(self.module))
        case.add("ours, compiled", f"compiled({self.tensors})")
        case.add("OnnxModule, compiled", f"compiled_module({self.tensors})")
        if with_empty:
            scope["compiled_empty"] = through_torch.compiled(call(empty, self.answer))
            self._add_empty("compiled", f"compiled_empty({self.tensors})")

    def _add_empty(self, way: str, code: str) -> None:
        # One after the other, since each finds the CPU's caches full of the other's code, as their
        # parts do in one call.
        call = f"session({self.tensors})"
        self.case.add(f"empty op, {way}", code)
        self.case.add(f"empty op, {way}, then ours", f"{code}; {call}", call)

    def add_stock(self) -> None:
        """Add the ways of onnxruntime's own Python, and of the C objects inside."""
        case, scope, stock = self.case, self.case.scope, self.stock
        names, count = list(self.inputs), len(self.outputs)
        run = f"stock.run(None, {feeds(names, '{}.numpy()')})"
        case.add(STOCK, made(run, count, "torch.from_numpy({})"))
        scope["binding"] = binding = stock.io_binding()
        scope["stock_targets"] = targets = self.new_outputs()
        for name, x in self.inputs.items():
            dtype = x.numpy().dtype.type
            binding.bind_input(name, "cpu", 0, dtype, tuple(x.shape), x.data_ptr())
        for name, y in zip(self.outputs, targets, strict=True):
            binding.bind_output(name, "cpu", 0, np.float32, tuple(y.shape), y.data_ptr())
        case.add("stock, IOBinding kept", "stock.run_with_iobinding(binding)", "stock_targets")
        results = f"[{', '.join(self.outputs)}]"
        case.add("stock, IOBinding new", new_binding(self.inputs, self.outputs), results)
        values = feeds(names, "OrtValue.from_dlpack({})")
        run = f"stock.run_with_ort_values(None, {values})"
        case.add("stock, OrtValues", made(run, count, "torch.from_dlpack({})"))
        values = feeds(names, "C.OrtValue.from_dlpack(to_dlpack({}))")
        run = f"c_session.run_with_ort_values({values}, names, None)"
        case.add("stock, expert", made(run, count, "from_dlpack({}.to_dlpack())"))


def cases(floor: ModuleType) -> list[Case]:
    """Every route to run every model, from small to large."""
    torch.manual_seed(0)
    one, pair = {"x": torch.rand(1)}, {"a": torch.rand(1), "b": torch.rand(1)}
    ten = {name: torch.rand(1) for name in models.TEN}
    sound = {"input": torch.rand(1, 576), "state": torch.zeros(2, 1, 128)}
    sound["sr"] = torch.tensor(16000)
    ends = {"bytes": torch.randint(256, (1, 2048), dtype=torch.int32)}
    square, whole = {"x": torch.rand(256, 256)}, {"x": torch.rand(1 << 22)}

    add = [Goal("faster than", 2.5, STOCK), Goal("at most", 1.4, FLOOR), *SMALL]
    of_ten = [Goal("at most", 1.5, FLOOR), *SMALL]
    mlp = [Goal("at most", 1.3, FLOOR), *SMALL]
    all_runs = [
        Runs("run, Identity of 1 element", models.identity(1), one, SMALL),
        Runs("run, Add of 1 element", models.add(), pair, add),
        Runs("run, 10 tiny inputs", models.ten_inputs(), ten, of_ten),
        Runs("run, 32 outputs", models.many_outputs(32), {"x": torch.rand(32)}, SMALL),
        Runs("run, MLP 64-64-8", models.mlp(), {"x": torch.rand(1, 64)}, mlp),
        Runs("run, silero-vad", models.silero_vad(), sound, LARGE),
        Runs("run, MatMul 256", models.matmul(256), square, LARGE),
        Runs("run, magika", models.magika(), ends, LARGE),
        Runs("run, Identity of 16 MB", models.identity(1 << 22), whole, LARGE),
    ]
    for runs in all_runs:
        runs.add_floor(floor)
        runs.add_ours()
        runs.add_dispatched(with_empty=runs.case.goals is not LARGE)
        runs.add_compiled(with_empty=runs.case.goals is not LARGE)
        runs.add_stock()
    return [runs.case for runs in all_runs]
