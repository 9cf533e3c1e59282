"""Gradients, autocast, vmap and torch.func: what works is right, the rest is refused by name."""

import pytest
import torch
from models import difference_and_total, subtract
from stock import same_as_stock
from support import refused
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

from ortdl_torch import InferenceSession, OnnxModule, to_ortvalue

# PyTorch's own forward mode scripts some of its formulas.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")

X = torch.rand(4, 3)


def through_the_op(graph: bytes) -> object:
    session = InferenceSession(graph).script_object
    return lambda *tensors: torch.ops.ortdl.run(session, list(tensors))[0]


ways = pytest.mark.parametrize("way", [OnnxModule, through_the_op], ids=["module", "op"])


@ways
def test_grad_is_refused_with_the_remedy(way: object) -> None:
    run = way(subtract(["n", 3]))
    needs = X.clone().requires_grad_()
    with refused(BufferError, "right", "grad", "detach", "no_grad"):
        run(X, needs)
    assert same_as_stock(run(X, needs.detach()), subtract(["n", 3]), X, X)


@ways
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_grad_mode_it_runs(way: object, mode: type) -> None:
    run = way(subtract(["n", 3]))
    needs = X.clone().requires_grad_()
    with mode():
        got = run(needs, X)
    assert not got.requires_grad
    assert same_as_stock(got, subtract(["n", 3]), X, X)


@ways
def test_a_result_of_a_layer_is_refused_like_any_other(way: object) -> None:
    run = way(subtract(["n", 3]))
    layer = torch.nn.Linear(3, 3)
    with refused(BufferError, "grad", "no_grad"):
        run(layer(X), X)
    with torch.no_grad():
        assert torch.equal(run(layer(X), X), layer(X) - X)


@ways
def test_forward_mode_tangents_are_refused(way: object) -> None:
    run = way(subtract(["n", 3]))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(X, torch.ones_like(X))
        with refused(BufferError, "grad"):
            run(dual, X)
        with refused(BufferError, "grad"):
            to_ortvalue(dual)
        primal = forward_ad.unpack_dual(dual).primal
        assert same_as_stock(run(primal, X), subtract(["n", 3]), X, X)


@ways
def test_a_tangent_that_a_view_has_by_its_base_is_refused(way: object) -> None:
    run = way(subtract(["n", 3]))
    for refuse in (lambda view: run(view, X[:1]), to_ortvalue):
        base = torch.zeros_like(X)
        view = base[:1]
        with forward_ad.dual_level():
            base.copy_(forward_ad.make_dual(X, torch.ones_like(X)))
            with refused(BufferError, "grad"):
                refuse(view)


@ways
@pytest.mark.parametrize("transform", ["grad", "jvp", "vjp", "jacrev", "hessian"])
def test_derivatives_by_torch_func_are_refused(way: object, transform: str) -> None:
    run = way(subtract(["n", 3]))

    def total(x: torch.Tensor) -> torch.Tensor:
        return run(x, x).sum()

    with refused(BufferError, "grad"):
        if transform == "jvp":
            torch.func.jvp(total, (X,), (X,))
        elif transform == "vjp":
            torch.func.vjp(total, X)
        else:
            getattr(torch.func, transform)(total)(X)


@ways
def test_vmap_runs_the_model_once_for_each_element(way: object) -> None:
    run = way(subtract(["n", 3]))
    batch = torch.rand(5, 4, 3)
    got = torch.vmap(run)(batch, batch + 1)
    assert same_as_stock(
        got.reshape(20, 3),
        subtract(["n", 3]),
        batch.reshape(20, 3),
        (batch + 1).reshape(20, 3),
    )
    got = torch.vmap(run, in_dims=(1, None), out_dims=2)(batch.transpose(0, 1), X)
    assert torch.equal(got, (batch - X).movedim(0, 2))


def test_vmap_of_several_outputs_and_in_itself() -> None:
    module = OnnxModule(difference_and_total())
    batch = torch.rand(2, 5, 4, 3)
    got = torch.vmap(torch.vmap(module))(batch, batch)
    assert got._fields == ("difference", "total")
    assert torch.equal(got.total, batch + batch)


@ways
def test_vmap_over_nothing_is_refused(way: object) -> None:
    run = way(subtract(["n", 3]))
    with pytest.raises((ValueError, RuntimeError), match="vmap"):
        torch.vmap(run)(torch.rand(0, 4, 3), torch.rand(0, 4, 3))


def test_vmap_of_a_conversion_is_refused_by_name() -> None:
    with refused(RuntimeError, "to_ortvalue"):
        torch.vmap(lambda x: torch.ops.ortdl.from_ortvalue(torch.ops.ortdl.to_ortvalue(x)))(X)


@ways
def test_functionalize(way: object) -> None:
    run = way(subtract(["n", 3]))
    got = torch.func.functionalize(lambda x: run(x.add_(1), X))(X.clone())
    assert same_as_stock(got, subtract(["n", 3]), X + 1, X)


class Recorded(TorchDispatchMode):
    """Notes the ops that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        self.names.append(func.name())
        return func(*args, **(kwargs or {}))


@ways
def test_a_dispatch_mode_sees_the_run(way: object) -> None:
    run = way(subtract(["n", 3]))
    with Recorded() as recorded:
        got = run(X, X)
    assert recorded.names == ["ortdl::run"]
    assert same_as_stock(got, subtract(["n", 3]), X, X)


@ways
def test_autocast_leaves_the_models_dtypes_alone(way: object) -> None:
    run = way(subtract(["n", 3]))
    layer = torch.nn.Linear(3, 3)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        half = layer(X)
        assert half.dtype is torch.bfloat16
        with refused(TypeError, "left", "bfloat16", "float32"):
            run(half, X)
        got = run(half.float(), X)
    assert same_as_stock(got, subtract(["n", 3]), half.float(), X)
