"""Models inside torch.compile: results of stock, one graph for every size, and what is refused."""

import copy
from collections.abc import Callable

import pytest
import torch
from models import (
    FLOAT,
    difference_and_total,
    info,
    model,
    positive,
    reshaped,
    subtract,
    unary,
)
from onnx import helper
from stock import same_as_stock
from support import live, refused
from torch._dynamo.testing import CompileCounterWithBackend

from ortdl_torch import InferenceSession, OnnxModule, from_ortvalue, to_ortvalue

pytestmark = [
    # PyTorch's own compilers still script some of their parts.
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.usefixtures("fresh_compilers"),
]

BACKENDS = ["eager", "aot_eager", "inductor"]
backends = pytest.mark.parametrize("backend", BACKENDS)


class Around(torch.nn.Module):
    """A model between PyTorch's operators, which a compiler fuses and whose memory it reuses."""

    def __init__(self, graph: bytes) -> None:
        super().__init__()
        self.inner = OnnxModule(graph)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2 + 1
        first = self.inner(y, right=x)
        return (first.difference * 2).relu() + self.inner(first.total, y).difference


def counted(module: Callable, **options: object) -> tuple[Callable, CompileCounterWithBackend]:
    counter = CompileCounterWithBackend(options.pop("backend", "inductor"))
    return torch.compile(module, fullgraph=True, backend=counter, **options), counter


@backends
def test_results_are_those_of_stock(backend: str) -> None:
    compiled = torch.compile(OnnxModule(subtract(["n", 3])), fullgraph=True, backend=backend)
    for rows in (4, 2, 7):
        left, right = torch.rand(rows, 3), torch.rand(rows, 3)
        assert same_as_stock(compiled(left, right), subtract(["n", 3]), left, right)
        assert same_as_stock(compiled(right=right, left=left), subtract(["n", 3]), left, right)


@backends
def test_a_named_tuple_comes_out(backend: str) -> None:
    compiled = torch.compile(OnnxModule(difference_and_total()), fullgraph=True, backend=backend)
    left, right = torch.rand(4, 3), torch.rand(4, 3)
    got = compiled(left, right)
    assert got._fields == ("difference", "total")
    assert same_as_stock(got, difference_and_total(), left, right)


@backends
@pytest.mark.parametrize("dynamic", [True, None])
def test_between_operators_and_without_recompiling_per_size(
    backend: str, dynamic: bool | None
) -> None:
    module = Around(difference_and_total())
    compiled, counter = counted(module, backend=backend, dynamic=dynamic)
    for rows in (4, 2, 7, 5, 100, 3):
        x = torch.randn(rows, 3)
        assert torch.equal(compiled(x), module(x))
    # Without being told, PyTorch first takes a size for fixed: once.
    assert counter.frame_count == (1 if dynamic else 2)


@backends
def test_sizes_that_only_running_tells(backend: str) -> None:
    module = OnnxModule(positive())

    def doubled(x: torch.Tensor) -> torch.Tensor:
        return module(x) * 2

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled, counter = counted(doubled, backend=backend, dynamic=True)
        for x in (torch.tensor([1.0, -2, 3]), torch.tensor([-1.0, -2]), torch.rand(9) + 1):
            assert torch.equal(compiled(x), x[x > 0] * 2)
    assert counter.frame_count == 1


@backends
def test_two_models_do_not_share_what_was_compiled(backend: str) -> None:
    def applied(module: OnnxModule, x: torch.Tensor) -> torch.Tensor:
        return module(x) + 0

    compiled = torch.compile(applied, fullgraph=True, backend=backend)
    x = torch.tensor([-1.5, 2.5])
    modules = [
        OnnxModule(unary("Neg", ["n"])),
        OnnxModule(unary("Abs", ["n"])),
        OnnxModule(unary("Cast", ["n"], to=7)),
    ]
    for module in modules:
        assert torch.equal(compiled(module, x), module(x) + 0)
        assert compiled(module, x).dtype is module(x).dtype


@backends
def test_the_op_and_the_method_in_a_function(backend: str) -> None:
    session = InferenceSession(subtract(["n"])).script_object

    @torch.compile(fullgraph=True, backend=backend)
    def by_op(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.ortdl.run(session, [x, x * 2])[0] + 1

    x = torch.rand(4)
    assert torch.equal(by_op(x), x - x * 2 + 1)


@backends
@pytest.mark.parametrize(
    ("graph", "declared"),
    [
        (reshaped(["n"]), r"y.*\[n\]"),
        (reshaped(["a", 3]), r"y.*\[a, 3\]"),
        (reshaped([]), r"y.*\[\]"),
        (reshaped(None), r"y.*\[\]"),
    ],
    ids=["named", "fixed", "0-d", "open rank"],
)
def test_a_model_whose_shapes_lie_is_caught_at_the_first_run(
    backend: str, graph: bytes, declared: str
) -> None:
    module = OnnxModule(graph)
    x, shape = torch.rand(4), torch.tensor([2, 2])
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(
            lambda x, shape: module(x, shape) + 1, fullgraph=True, backend=backend
        )
        with pytest.raises(RuntimeError, match=rf"{declared}.*\[2, 2\]"):
            compiled(x, shape)
    # Eager code relies on nothing that is declared.
    assert same_as_stock(module(x, shape), graph, x, shape)
    assert torch.equal(torch.jit.script(module)(x, shape), x.reshape(2, 2))


def test_wrong_inputs_are_refused_while_tracing() -> None:
    compiled = torch.compile(OnnxModule(subtract(["n", 3])), fullgraph=True)
    x = torch.rand(4, 3)
    for wrong, word in ((x[:, :2], "right"), (x[0], "right"), (x.int(), "int32"), (x[:2], "right")):
        with pytest.raises(Exception, match=word):
            compiled(x, wrong)
    assert torch.equal(compiled(x, x), x - x)


@backends
def test_grad_is_refused_and_no_grad_runs(backend: str) -> None:
    layer = torch.nn.Linear(3, 3)
    module = OnnxModule(subtract(["n", 3]))

    @torch.compile(fullgraph=True, backend=backend)
    def run(x: torch.Tensor) -> torch.Tensor:
        return module(layer(x), x)

    x = torch.rand(4, 3)
    with pytest.raises(Exception, match=r"requires grad.*no_grad"):
        run(x)
    with torch.no_grad():
        assert torch.allclose(run(x), layer(x) - x)


def test_vmap_in_compiled_code_is_refused_by_name() -> None:
    module = OnnxModule(subtract(["n"]))
    with pytest.raises(Exception, match="ortdl"):
        torch.compile(torch.vmap(module), fullgraph=True)(torch.rand(2, 3), torch.rand(2, 3))


@backends
def test_conversions_break_the_graph_or_are_refused_by_name(backend: str) -> None:
    def there_and_back(x: torch.Tensor) -> torch.Tensor:
        value = torch.ops.ortdl.to_ortvalue(x * 2, False)
        return torch.ops.ortdl.from_ortvalue(value) + 1

    x = torch.rand(4)
    with pytest.raises(Exception, match=r"to_ortvalue\(tensor, copy=False\) cannot be traced"):
        torch.compile(there_and_back, fullgraph=True, backend=backend)(x)
    assert torch.equal(torch.compile(there_and_back, backend=backend)(x), x * 2 + 1)


@pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace")
@backends
def test_the_functions_of_python_break_the_graph(backend: str) -> None:
    @torch.compile(backend=backend)
    def there_and_back(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        return y + from_ortvalue(to_ortvalue(y))

    x = torch.rand(4)
    assert torch.equal(there_and_back(x), x * 2 + x * 2)


def test_compiling_loads_the_model_once() -> None:
    module = OnnxModule(subtract(["n", 3]))
    for backend in BACKENDS:
        compiled = torch.compile(module, fullgraph=True, backend=backend)
        compiled(torch.rand(2, 3), torch.rand(2, 3))
        compiled(torch.rand(5, 3), torch.rand(5, 3))
    assert live()["sessions"] == 1


def test_a_copy_of_a_module_is_compiled_too() -> None:
    module = copy.deepcopy(Around(difference_and_total()))
    x = torch.rand(4, 3)
    assert torch.equal(torch.compile(module, fullgraph=True)(x), module(x))


def test_a_backward_pass_beside_the_model() -> None:
    module = OnnxModule(subtract(["n"]))

    @torch.compile(fullgraph=True)
    def run(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return module(x, x * 2) * weight

    x, weight = torch.rand(4), torch.rand(4, requires_grad=True)
    run(x, weight).sum().backward()
    assert torch.equal(weight.grad, x - x * 2)
    with refused(BufferError, "grad"):
        module(weight, x)


def scaled_by(i: int, shape: list[int | str | None]) -> bytes:
    """y = i * x."""
    factor = helper.make_tensor("factor", FLOAT, [], [float(i)])
    node = helper.make_node("Mul", ["x", "factor"], ["y"])
    return model([node], [info("x", shape)], [info("y", shape)], [factor])


def test_more_kinds_of_models_than_the_recompile_limit() -> None:
    count = 2 * torch._dynamo.config.recompile_limit
    for i in range(count):
        module = OnnxModule(scaled_by(i, [i + 1]))
        compiled = torch.compile(module, fullgraph=True, backend="eager")
        assert compiled(torch.ones(i + 1)).tolist() == [i] * (i + 1)


def test_models_of_one_kind_are_compiled_once() -> None:
    counter = CompileCounterWithBackend("eager")
    modules = [OnnxModule(scaled_by(i, ["n"])) for i in range(10)]
    for i, module in enumerate(modules):
        compiled = torch.compile(module, fullgraph=True, backend=counter)
        assert compiled(torch.ones(2)).tolist() == [i, i]
    assert counter.frame_count == 1


def test_a_module_that_holds_many_kinds_of_models() -> None:
    modules = torch.nn.Sequential(*(OnnxModule(scaled_by(i, [2] + [1] * i)) for i in range(1, 11)))

    def product(x: torch.Tensor) -> torch.Tensor:
        for i, inner in enumerate(modules, 1):
            x = inner(x.reshape([2] + [1] * i))
        return x.reshape(2)

    compiled, counter = counted(product, backend="eager")
    assert compiled(torch.tensor([1.0, 2.0])).tolist() == [3628800, 7257600]
    assert counter.frame_count == 1


def test_a_compiled_module_follows_another_session() -> None:
    module = OnnxModule(scaled_by(2, ["n"]))
    compiled = torch.compile(module, fullgraph=True, backend="eager")
    assert compiled(torch.ones(3)).tolist() == [2, 2, 2]
    module.session = InferenceSession(scaled_by(3, ["n"]))
    assert compiled(torch.ones(3)).tolist() == [3, 3, 3]
    module.session = InferenceSession(difference_and_total())
    assert compiled(torch.ones(1, 3), torch.ones(1, 3)).total.tolist() == [[2, 2, 2]]
