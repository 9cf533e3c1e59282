"""Ways to call an op through PyTorch: a session's, or the empty one that it is held against."""

from __future__ import annotations

import json
import os
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch._inductor.config
from torch._library.fake_class_registry import register_fake_class

ROOT = Path(__file__).resolve().parent.parent


class Scripted(torch.nn.Module):
    """A session in TorchScript, called once per call from Python."""

    def __init__(self, session: torch.ScriptObject) -> None:
        super().__init__()
        self.session = session

    def forward(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """All the model's outputs."""
        outputs: list[torch.Tensor] = torch.ops.ortdl.run(self.session, inputs)
        return outputs


class ScriptedEmpty(torch.nn.Module):
    """The empty op in the same form."""

    def __init__(self, answer: torch.ScriptObject) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """The answer's tensors."""
        outputs: list[torch.Tensor] = torch.ops.ortdl_floor.run(self.answer, inputs)
        return outputs


class CallsOp(torch.nn.Module):
    """Calls an op with a session, or what stands for one."""

    def __init__(self, op: Any, target: torch.ScriptObject) -> None:
        super().__init__()
        self.op = op
        self.target = target

    def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """What the op gives."""
        outputs: list[torch.Tensor] = self.op(self.target, list(inputs))
        return outputs


class Calls(torch.nn.Module):
    """Calls another module, or a session, and does nothing else."""

    def __init__(self, inner: Callable[..., Any]) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *inputs: torch.Tensor) -> Any:
        """What `inner` gives."""
        return self.inner(*inputs)


def compiled(module: torch.nn.Module) -> Callable[..., Any]:
    """The module, compiled as one graph, for itself.

    torch.compile keeps what it compiled at the code of `forward`, eight times at most, and looks
    through that before each call. So a module gets code of its own.
    """
    shared: Any = type(module).forward
    own = types.FunctionType(shared.__code__.replace(co_name="forward"), shared.__globals__)
    module.__class__ = type(type(module).__name__, (type(module),), {"forward": own})
    result: Callable[..., Any] = torch.compile(module, fullgraph=True)
    return result


class FakeAnswer:
    """Stands for an answer while PyTorch traces."""

    def __init__(self, shapes: str) -> None:
        self.shapes = shapes

    @classmethod
    def __obj_unflatten__(cls, flat: tuple[tuple[str, str], ...]) -> FakeAnswer:
        return cls(**dict(flat))

    def __obj_flatten__(self) -> tuple[tuple[str, str], ...]:
        return (("shapes", self.shapes),)

    def __len__(self) -> int:
        return 0

    def tracing_mode(self) -> str:
        return "fake"


def prepare() -> None:
    """Make torch.compile fit for the models, and tell it of the empty op; the floor is loaded."""
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(ROOT / "build" / "inductor"))
    # Only running tells the sizes of some models' outputs: they declare none.
    torch._dynamo.config.capture_dynamic_output_shape_ops = True
    # The benchmark has one CPU.
    torch._inductor.config.compile_threads = 1
    register_fake_class("ortdl_floor::Answer")(FakeAnswer)
    torch.library._register_effectful_op("ortdl_floor::run", None)

    @torch.library.register_fake("ortdl_floor::run")  # type: ignore[untyped-decorator]
    def _(answer: Any, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        ((_, shapes),) = getattr(answer, "wrapped_obj", answer).__obj_flatten__()
        return [torch.empty(shape) for shape in json.loads(shapes)]


def answer_of(outputs: Sequence[torch.Tensor]) -> torch.ScriptObject:
    """An object that the empty op answers with `outputs`, all of float32."""
    shapes = json.dumps([list(output.shape) for output in outputs])
    answer: torch.ScriptObject = torch.classes.ortdl_floor.Answer(list(outputs), shapes)
    return answer
