"""Cases: a tensor becomes an OrtValue, and an OrtValue a tensor."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from case import FLOOR, OURS, STOCK, Case, Goal, Verdict
from onnxruntime import OrtValue
from onnxruntime.capi import onnxruntime_pybind11_state
from torch._C import _to_dlpack as to_dlpack
from torch.utils.dlpack import from_dlpack

from ortdl_torch import from_ortvalue, from_ortvalues, to_ortvalue, to_ortvalues

if TYPE_CHECKING:
    ScriptValue = Any
else:
    ScriptValue = torch.classes.ortdl.OrtValue

COUNTS = {"4 B": 1, "16 B": 4, "4 KB": 1 << 10, "4 MB": 1 << 20, "16 MB": 1 << 22, "64 MB": 1 << 24}
"""Elements of float32."""
SMALL = "ours, 16 B"


@torch.jit.script
def scripted_to(x: torch.Tensor) -> ScriptValue:
    """`to_ortvalue` in TorchScript, called once per call from Python."""
    return torch.ops.ortdl.to_ortvalue(x, False)


@torch.jit.script
def scripted_from(value: ScriptValue) -> torch.Tensor:
    """`from_ortvalue` in TorchScript, called once per call from Python."""
    tensor: torch.Tensor = torch.ops.ortdl.from_ortvalue(value)
    return tensor


SCOPE: dict[str, object] = {
    "C": onnxruntime_pybind11_state,
    "OrtValue": OrtValue,
    "from_dlpack": from_dlpack,
    "from_ortvalue": from_ortvalue,
    "from_ortvalues": from_ortvalues,
    "scripted_from": scripted_from,
    "scripted_to": scripted_to,
    "to_dlpack": to_dlpack,
    "to_ortvalue": to_ortvalue,
    "to_ortvalues": to_ortvalues,
    "torch": torch,
}


def to_value(floor: ModuleType) -> Case:
    """A tensor of 16 bytes becomes an OrtValue, which is dropped."""
    x = torch.arange(4.0)
    goals = [Goal("faster than", 6, STOCK), Goal("at most", 2.2, FLOOR)]
    case = Case("tensor -> OrtValue, 16 B", goals, {**SCOPE, "x": x}, x)
    code = "owning C call, ReleaseValue"
    case.add_bare(FLOOR, code, lambda calls: floor.time_to_values([x], calls))
    case.add(OURS, code := "to_ortvalue(x)", f"from_ortvalue({code})")
    code = "torch.ops.ortdl.to_ortvalue(x)"
    case.add("ours, torch.ops", code, f"torch.ops.ortdl.from_ortvalue({code})")
    case.add("ours, TorchScript", code := "scripted_to(x)", f"scripted_from({code})")
    case.add(STOCK, code := "OrtValue.from_dlpack(x)", f"torch.from_dlpack({code})")
    code = "OrtValue.ortvalue_from_numpy(x.numpy())"
    case.add("stock, numpy", code, f"torch.from_dlpack({code})")
    code = "C.OrtValue.from_dlpack(to_dlpack(x))"
    case.add("stock, expert", code, f"from_dlpack({code}.to_dlpack())")
    return case


def from_value(floor: ModuleType) -> Case:
    """An OrtValue of 16 bytes becomes a tensor, which is dropped."""
    x = torch.arange(4.0)
    goals = [Goal("faster than", 4, STOCK), Goal("at most", 1.8, FLOOR)]
    value, stock_value = to_ortvalue(x), OrtValue.from_dlpack(x)
    scope = {
        **SCOPE,
        "c_value": stock_value._get_c_value(),
        "script_value": value.script_object,
        "stock_value": stock_value,
        "value": value,
    }
    case = Case("OrtValue -> tensor, 16 B", goals, scope, x)
    code = "C reads, at::from_blob, THPVariable_Wrap"
    case.add_bare(FLOOR, code, lambda calls: floor.time_from_values([x], calls))
    case.add(OURS, "from_ortvalue(value)")
    case.add("ours, torch.ops", "torch.ops.ortdl.from_ortvalue(script_value)")
    case.add("ours, TorchScript", "scripted_from(script_value)")
    case.add(STOCK, "torch.from_dlpack(stock_value)")
    case.add("stock, numpy", "torch.from_numpy(stock_value.numpy())")
    case.add("stock, expert", "from_dlpack(c_value.to_dlpack())")
    return case


def batch_to_values(floor: ModuleType, count: int) -> Case:
    """Many tensors become OrtValues."""
    xs = [torch.full((4,), float(i)) for i in range(count)]
    goals = [Goal("faster than", 6, STOCK), Goal("at most", 2.2, FLOOR)]
    case = Case(f"{count} tensors -> OrtValues, 16 B each", goals, {**SCOPE, "xs": xs}, xs)
    code = "owning C calls, ReleaseValue"
    case.add_bare(FLOOR, code, lambda calls: floor.time_to_values(xs, calls))
    case.add(OURS, code := "to_ortvalues(xs)", f"from_ortvalues({code})")
    code = "[to_ortvalue(x) for x in xs]"
    case.add("ours, one by one", code, f"from_ortvalues({code})")
    code = "[OrtValue.from_dlpack(x) for x in xs]"
    case.add(STOCK, code, f"[torch.from_dlpack(value) for value in {code}]")
    code = "[C.OrtValue.from_dlpack(to_dlpack(x)) for x in xs]"
    case.add("stock, expert", code, f"[from_dlpack(value.to_dlpack()) for value in {code}]")
    return case


def batch_from_values(floor: ModuleType, count: int) -> Case:
    """Many OrtValues become tensors."""
    xs = [torch.full((4,), float(i)) for i in range(count)]
    goals = [Goal("faster than", 4, STOCK), Goal("at most", 1.8, FLOOR)]
    stock_values = [OrtValue.from_dlpack(x) for x in xs]
    scope = {
        **SCOPE,
        "c_values": [value._get_c_value() for value in stock_values],
        "stock_values": stock_values,
        "values": to_ortvalues(xs),
    }
    case = Case(f"{count} OrtValues -> tensors, 16 B each", goals, scope, xs)
    code = "C reads, at::from_blob, THPVariable_Wrap"
    case.add_bare(FLOOR, code, lambda calls: floor.time_from_values(xs, calls))
    case.add(OURS, "from_ortvalues(values)")
    case.add("ours, one by one", "[from_ortvalue(value) for value in values]")
    case.add(STOCK, "[torch.from_dlpack(value) for value in stock_values]")
    case.add("stock, expert", "[from_dlpack(value.to_dlpack()) for value in c_values]")
    return case


def sizes() -> Case:
    """There and back, from one element to 16 M: the size must not show."""
    tensors = {name: torch.arange(float(count)) for name, count in COUNTS.items()}
    goals = [Goal("at most", 1.1, SMALL, f"ours, {name}") for name in COUNTS if name != "16 B"]
    scope = {**SCOPE, **{f"x{count}": tensors[name] for name, count in COUNTS.items()}}
    case = Case("tensor -> OrtValue -> tensor, 4 B to 64 MB", goals, scope, torch.zeros(1))
    shared = True
    for name, count in COUNTS.items():
        case.add(f"ours, {name}", code := f"from_ortvalue(to_ortvalue(x{count}))", f"({code})[:1]")
        code = f"torch.from_dlpack(OrtValue.from_dlpack(x{count}))"
        case.add(f"stock, {name}", code, f"({code})[:1]")
        code = f"torch.from_numpy(OrtValue.ortvalue_from_numpy(x{count}.numpy()).numpy())"
        case.add(f"stock, numpy, {name}", code, f"({code})[:1]")
        x, value = tensors[name], to_ortvalue(tensors[name])
        shared &= x.data_ptr() == value.data_ptr() == from_ortvalue(value).data_ptr()
    measured = "same pointer" if shared else "other pointer"
    case.facts.append(Verdict("0 bytes copied", measured, shared))
    return case


def cases(floor: ModuleType) -> list[Case]:
    """One tensor, many, and large ones."""
    batches = [make(floor, n) for n in (8, 64) for make in (batch_to_values, batch_from_values)]
    return [to_value(floor), from_value(floor), *batches, sizes()]
