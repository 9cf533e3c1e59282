"""An input called self, which PyTorch's own functions have a parameter of, is given by its name."""

import copy

import pytest
import torch
from models import info, model, unary
from onnx import helper
from stock import same_as_stock
from support import refused

from ortdl_torch import InferenceSession, OnnxModule

pytestmark = pytest.mark.usefixtures("fresh_compilers")

LEFT, RIGHT = torch.rand(4, 3), torch.rand(4, 3)


def of_self(other: str) -> bytes:
    """Difference and total of inputs called "self" and `other`."""
    return model(
        [
            helper.make_node("Sub", ["self", other], ["difference"]),
            helper.make_node("Add", ["self", other], ["total"]),
        ],
        [info("self", ["n", 3]), info(other, ["n", 3])],
        [info("difference", ["n", 3]), info("total", ["n", 3])],
    )


@pytest.mark.parametrize(("other", "own"), [("x", "_self"), ("_self", "_self_")])
def test_an_input_called_self_is_given_by_name(other: str, own: str) -> None:
    module = OnnxModule(of_self(other))
    module.register_forward_pre_hook(lambda _module, _inputs: None)

    class Outer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
            return self.inner(**{"self": left, other: right})

    outer = Outer()
    for got in (
        module(**{"self": LEFT, other: RIGHT}),
        module(**{own: LEFT, other: RIGHT}),
        module(LEFT, **{other: RIGHT}),
        copy.deepcopy(module)(**{other: RIGHT, "self": LEFT}),
        torch.compile(module, fullgraph=True, backend="eager")(**{own: LEFT, other: RIGHT}),
        outer(LEFT, RIGHT),
        torch.compile(outer, fullgraph=True, backend="eager")(LEFT, RIGHT),
    ):
        assert same_as_stock(got, of_self(other), LEFT, RIGHT)
    with refused(ValueError, "'self'", f"'{own}'", "once"):
        module(**{"self": LEFT, own: LEFT, other: RIGHT})
    with refused(ValueError, "self", "was not given|already given|twice"):
        module(LEFT, self=LEFT)


class Wrapped(OnnxModule):
    """Is called in a way of its own."""

    def __call__(self, *tensors: torch.Tensor, **named: torch.Tensor) -> object:
        return "mine", super().__call__(*tensors, **named)


def test_an_input_called_self_leaves_a_class_its_own_call() -> None:
    mine, got = Wrapped(of_self("x"))(self=LEFT, x=RIGHT)
    assert mine == "mine"
    assert same_as_stock(got, of_self("x"), LEFT, RIGHT)


def test_a_session_exchanged_before_a_call_with_self_gets_it() -> None:
    module = OnnxModule(of_self("x"))

    def exchange(called: OnnxModule, _inputs: object) -> None:
        called.session = other

    module.register_forward_pre_hook(exchange)
    other = InferenceSession(of_self("_self"))
    with refused(ValueError, "'x'"):
        module(self=LEFT, x=RIGHT)
    module.session, other = InferenceSession(of_self("x")), InferenceSession(unary("Neg", ["n", 3]))
    with refused(ValueError, "'self'"):
        module(self=LEFT, x=RIGHT)
