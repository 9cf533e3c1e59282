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

from ortdl_torch import from_ortvalue, to_ortvalue

if TYPE_CHECKING:
    ScriptValue = Any
else:
    ScriptValue = torch.classes.ortdl.OrtValue

SMALL, LARGE = "ours, 16 B", "ours, 16 MB"


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
    "scripted_from": scripted_from,
    "scripted_to": scripted_to,
    "to_dlpack": to_dlpack,
    "to_ortvalue": to_ortvalue,
    "torch": torch,
}


def to_value(floor: ModuleType) -> Case:
    """A tensor of 16 bytes becomes an OrtValue, which is dropped."""
    x = torch.arange(4.0)
    goals = [Goal("faster than", 6, STOCK), Goal("at most", 2.2, FLOOR)]
    case = Case("tensor -> OrtValue, 16 B", goals, {**SCOPE, "x": x}, x)
    code = "owning C call, ReleaseValue"
    case.add_bare(FLOOR, code, lambda calls: floor.time_to_value(x, calls))
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
    case.add_bare(FLOOR, code, lambda calls: floor.time_from_value(x, calls))
    case.add(OURS, "from_ortvalue(value)")
    case.add("ours, torch.ops", "torch.ops.ortdl.from_ortvalue(script_value)")
    case.add("ours, TorchScript", "scripted_from(script_value)")
    case.add(STOCK, "torch.from_dlpack(stock_value)")
    case.add("stock, numpy", "torch.from_numpy(stock_value.numpy())")
    case.add("stock, expert", "from_dlpack(c_value.to_dlpack())")
    return case


def sizes() -> Case:
    """There and back, for a small and a large tensor: the size must not show."""
    small, large = torch.arange(4.0), torch.arange(4.0 * (1 << 20))
    goals = [Goal("at most", 1.1, SMALL, LARGE)]
    scope = {**SCOPE, "small": small, "large": large}
    case = Case("tensor -> OrtValue -> tensor, 16 MB beside 16 B", goals, scope, small)
    case.add(SMALL, "from_ortvalue(to_ortvalue(small))")
    case.add(LARGE, code := "from_ortvalue(to_ortvalue(large))", f"({code})[:4]")
    value = to_ortvalue(large)
    shared = large.data_ptr() == value.data_ptr() == from_ortvalue(value).data_ptr()
    measured = "same pointer" if shared else "other pointer"
    case.facts.append(Verdict("0 bytes of 16 MB copied", measured, shared))
    return case
