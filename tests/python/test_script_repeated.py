"""TorchScript takes no two runs, and no two conversions, for one."""

from collections.abc import Callable

import pytest
import torch
from models import info, model
from onnx import helper

from ortdl_torch import InferenceSession, OnnxModule

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")


def noise() -> bytes:
    """Other normal numbers in each run."""
    return model(
        [helper.make_node("RandomNormalLike", ["x"], ["y"])], [info("x", ["n"])], [info("y", ["n"])]
    )


class ByOp(torch.nn.Module):
    """The difference of two runs of the op."""

    def __init__(self) -> None:
        super().__init__()
        self.session = InferenceSession(noise()).script_object

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = torch.ops.ortdl.run(self.session, [x])[0]
        return first - torch.ops.ortdl.run(self.session, [x])[0]


class ByMethod(ByOp):
    """The difference of two runs of the session's method."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.session.run([x])[0] - self.session.run([x])[0]


class ByModule(torch.nn.Module):
    """The difference of two runs of a module."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = OnnxModule(noise())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) - self.inner(x)


def traced(module: torch.nn.Module, x: torch.Tensor) -> Callable:
    return torch.jit.trace(module, (x,), check_trace=False)


def scripted(module: torch.nn.Module, x: torch.Tensor) -> Callable:
    return torch.jit.script(module)


@pytest.mark.parametrize(
    ("kind", "prepare"),
    [
        (ByOp, traced),
        (ByOp, scripted),
        (ByMethod, scripted),
        (ByModule, traced),
        (ByModule, scripted),
    ],
)
def test_two_runs_that_draw_random_numbers_stay_two(kind: type, prepare: Callable) -> None:
    x = torch.zeros(16)
    module = prepare(kind(), x)
    for _ in range(5):  # the first few are profiled, the others optimised by that
        assert torch.count_nonzero(module(x)) > 0


def one_of_two_copies(x: torch.Tensor) -> torch.Tensor:
    first = torch.ops.ortdl.from_ortvalue(torch.ops.ortdl.to_ortvalue(x, True))
    second = torch.ops.ortdl.from_ortvalue(torch.ops.ortdl.to_ortvalue(x, True))
    first += 1
    return second


def written_through_a_twin(x: torch.Tensor) -> torch.Tensor:
    before = x + 0
    twin = torch.ops.ortdl.from_ortvalue(torch.ops.ortdl.to_ortvalue(x, False))
    twin += 1
    return x + 0 - before


@pytest.mark.parametrize("function", [one_of_two_copies, written_through_a_twin])
def test_conversions_stay_apart(function: Callable) -> None:
    compiled = torch.jit.script(function)
    for _ in range(5):
        x = torch.zeros(4)
        assert compiled(x).tolist() == function(torch.zeros(4)).tolist()
