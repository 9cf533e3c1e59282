"""Cases: memory goes to another library and comes from it, by DLPack."""

from __future__ import annotations

import jax
import numpy as np
import torch
import tvm_ffi
from case import OURS, STOCK, Case
from onnxruntime import OrtValue
from torch._C import _to_dlpack as to_capsule
from torch.utils.dlpack import from_dlpack as from_capsule

import ortdl_torch

TAKES = {
    "torch": "torch.from_dlpack({})",
    "numpy": "numpy.from_dlpack({})",
    "tvm_ffi": "tvm_ffi.from_dlpack({})",
    "jax": "jax.dlpack.from_dlpack({})",
}
"""How each library takes what has DLPack's protocol."""

PEER = "torch's tensor"
"""The route of an exchange in which ONNX Runtime has no part."""


def scope() -> tuple[torch.Tensor, dict[str, object]]:
    """A tensor, and the names that the statements use."""
    x = torch.arange(16.0)  # 64-aligned, as JAX wants it
    names: dict[str, object] = {
        "OrtValue": OrtValue,
        "from_capsule": from_capsule,
        "jax": jax,
        "numpy": np,
        "ortdl_torch": ortdl_torch,
        "stock_value": OrtValue.from_dlpack(x),
        "to_capsule": to_capsule,
        "torch": torch,
        "tvm_ffi": tvm_ffi,
        "value": ortdl_torch.to_ortvalue(x),
        "x": x,
    }
    names["c_value"] = OrtValue.from_dlpack(x)._get_c_value()
    return x, names


def outwards() -> list[Case]:
    """An OrtValue goes to each library, which makes an array of it and drops that."""
    cases = []
    for library, take in TAKES.items():
        x, names = scope()
        case = Case(f"OrtValue -> {library}, DLPack's protocol", [], names, x)
        for name, source in ((OURS, "value"), (STOCK, "stock_value"), (PEER, "x")):
            code = take.format(source)
            case.add(name, code, f"torch.from_dlpack({code})")
        cases.append(case)
    x, names = scope()
    case = Case("OrtValue -> capsule -> torch", [], names, x)
    case.add(OURS, "from_capsule(ortdl_torch.to_dlpack(value))")
    case.add(STOCK, "from_capsule(c_value.to_dlpack())")
    case.add(PEER, "from_capsule(to_capsule(x))")
    return [*cases, case]


def inwards() -> list[Case]:
    """An array of each library becomes an OrtValue, or torch's tensor, which is dropped."""
    cases = []
    for library, take in TAKES.items():
        x, names = scope()
        names["array"] = eval(take.format("x"), names)
        case = Case(f"{library} -> OrtValue, DLPack's protocol", [], names, x)
        case.add(OURS, code := "ortdl_torch.from_dlpack(array)", f"torch.from_dlpack({code})")
        case.add(STOCK, code := "OrtValue.from_dlpack(array)", f"torch.from_dlpack({code})")
        case.add(PEER, "torch.from_dlpack(array)")
        cases.append(case)
    x, names = scope()
    case = Case("torch -> capsule -> OrtValue", [], names, x)
    code = "ortdl_torch.from_dlpack(to_capsule(x))"
    case.add(OURS, code, f"torch.from_dlpack({code})")
    code = "OrtValue.from_dlpack(to_capsule(x))"
    case.add(STOCK, code, f"torch.from_dlpack({code})")
    case.add(PEER, "from_capsule(to_capsule(x))")
    return [*cases, case]


def by_numpy() -> Case:
    """PyTorch and NumPy by their own functions, beside an OrtValue's."""
    x, names = scope()
    case = Case("OrtValue -> numpy, by its own function", [], names, x)
    for name, source in ((OURS, "value"), (STOCK, "stock_value"), (PEER, "x")):
        case.add(name, code := f"{source}.numpy()", f"torch.from_numpy({code})")
    return case


def cases() -> list[Case]:
    """Both directions, and the peers among themselves."""
    return [*outwards(), by_numpy(), *inwards()]
