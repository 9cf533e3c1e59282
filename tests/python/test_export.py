"""Models inside torch.export and AOTInductor: saved, loaded, run in another process."""

from pathlib import Path

import pytest
import torch
from models import difference_and_total, info, model, positive, reshaped, subtract, unary
from onnx import helper
from stock import same_as_stock
from support import in_new_process
from torch.export import Dim

from ortdl_torch import OnnxModule

pytestmark = [
    # PyTorch's own compilers still script some of their parts.
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning"),
    pytest.mark.usefixtures("fresh_compilers", "nothing_exported"),
]

strictness = pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])


class Around(torch.nn.Module):
    """A model between PyTorch's operators."""

    def __init__(self, graph: bytes) -> None:
        super().__init__()
        self.inner = OnnxModule(graph)
        self.weight = torch.nn.Parameter(torch.rand(3), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        outputs = self.inner(x * self.weight, right=x + 1)
        return outputs[0] * 2


def exported(
    module: torch.nn.Module, *tensors: torch.Tensor, strict: bool
) -> torch.export.ExportedProgram:
    rows = Dim("rows")
    shapes = tuple({0: rows} for _ in tensors)
    return torch.export.export(module, tensors, dynamic_shapes=shapes, strict=strict)


def saved_and_loaded(
    program: torch.export.ExportedProgram, folder: Path
) -> torch.export.ExportedProgram:
    torch.export.save(program, folder / "program.pt2")
    return torch.export.load(folder / "program.pt2")


@strictness
@pytest.mark.parametrize("make", [subtract, difference_and_total])
def test_program_gives_what_stock_gives(make: object, strict: bool, tmp_path: Path) -> None:
    graph = make(["n", 3])
    program = exported(OnnxModule(graph), torch.rand(2, 3), torch.rand(2, 3), strict=strict)
    for runs in (program, saved_and_loaded(program, tmp_path)):
        for rows in (5, 2, 1):
            left, right = torch.rand(rows, 3), torch.rand(rows, 3)
            got = runs.module()(left, right)
            assert same_as_stock(got, graph, left, right)
    targets = [node.target for node in program.graph.nodes if node.op == "call_function"]
    assert targets[0] is torch.ops.ortdl.run.default


@strictness
def test_program_of_a_module_around_it(strict: bool, tmp_path: Path) -> None:
    module = Around(difference_and_total())
    program = exported(module, torch.rand(2, 3), strict=strict)
    x = torch.rand(7, 3)
    for runs in (program, saved_and_loaded(program, tmp_path), program.run_decompositions()):
        assert torch.equal(runs.module()(x), module(x))


@strictness
def test_inputs_by_name(strict: bool) -> None:
    module = OnnxModule(subtract(["n", 3]))
    left, right = torch.rand(4, 3), torch.rand(4, 3)
    rows = Dim("rows")
    program = torch.export.export(
        module,
        (),
        {"left": left, "right": right},
        dynamic_shapes={"left": {0: rows}, "right": {0: rows}},
        strict=strict,
    )
    got = program.module()(left=left[:3], right=right[:3])
    assert same_as_stock(got, subtract(["n", 3]), left[:3], right[:3])


def weird_names() -> bytes:
    """difference = input.1 - class, whose names are none of Python's."""
    return model(
        [helper.make_node("Sub", ["input.1", "class"], ["difference"])],
        [info("input.1", ["n"]), info("class", ["n"])],
        [info("difference", ["n"])],
    )


class ByName(torch.nn.Module):
    """Calls a module of `weird_names` by the model's names."""

    def __init__(self, inner: OnnxModule) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return self.inner(**{"class": b, "input.1": a})


@strictness
def test_inputs_by_names_that_had_to_be_changed(strict: bool, tmp_path: Path) -> None:
    module = OnnxModule(weird_names())
    a, b = torch.rand(4), torch.rand(4)
    n = Dim("n")
    shapes = {"input_1": {0: n}, "_class": {0: n}}
    named = {"input_1": a, "_class": b}
    program = torch.export.export(module, (), named, dynamic_shapes=shapes, strict=strict)
    for runs in (program, saved_and_loaded(program, tmp_path)):
        got = runs.module()(input_1=a[:3], _class=b[:3])
        assert torch.equal(got, a[:3] - b[:3])
    mixed = torch.export.export(module, (a,), {"_class": b}, strict=strict)
    assert torch.equal(mixed.module()(a, _class=b), a - b)
    around = torch.export.export(ByName(module), (a, b), strict=strict)
    assert torch.equal(around.module()(a, b), a - b)
    with pytest.raises(TypeError, match="input_1"):
        torch.export.export(module, (), {"input.1": a, "class": b}, strict=strict)


@strictness
@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        (
            ({0: Dim("first")}, {0: Dim("second")}),
            r"second.*and first.* must always be equal",
        ),
        (({1: Dim("columns")}, {1: Dim("columns")}), r"columns.*3"),
    ],
    ids=["one name", "fixed"],
)
def test_dimensions_are_as_free_as_the_model_declares(
    shapes: object, words: str, strict: bool
) -> None:
    module = OnnxModule(subtract(["n", 3]))
    with pytest.raises(Exception, match=words):
        torch.export.export(
            module,
            (torch.rand(4, 3), torch.rand(4, 3)),
            dynamic_shapes=shapes,
            strict=strict,
        )
    # PyTorch keeps a module whose export failed.
    del module.__dict__["_bound"], module.__dict__["script_object"]


@strictness
def test_sizes_that_only_running_tells(strict: bool, tmp_path: Path) -> None:
    program = exported(OnnxModule(positive()), torch.tensor([1.0, -1, 2]), strict=strict)
    for runs in (program, saved_and_loaded(program, tmp_path)):
        assert runs.module()(torch.tensor([1.0, -2, -3, 4])).tolist() == [1, 4]
        assert runs.module()(torch.tensor([-1.0, -2])).tolist() == []


@strictness
def test_a_model_whose_shapes_lie_is_caught_at_the_first_run(strict: bool) -> None:
    x, shape = torch.rand(4), torch.tensor([2, 2])
    program = torch.export.export(OnnxModule(reshaped(["n"])), (x, shape), strict=strict)
    with pytest.raises(RuntimeError, match=r"y.*\[n\].*\[2, 2\]"):
        program.module()(x, shape)


@strictness
def test_grad_is_refused_and_no_grad_exports(strict: bool) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), OnnxModule(unary("Neg", ["n", 3])))
    x = torch.rand(4, 3)
    with pytest.raises(Exception, match=r"requires grad.*no_grad"):
        torch.export.export(module, (x,), strict=strict)
    with torch.no_grad():
        program = torch.export.export(module, (x,), strict=strict)
        assert torch.equal(program.module()(x), module(x))


@strictness
def test_loaded_program_runs_in_a_fresh_process(strict: bool, tmp_path: Path) -> None:
    file = tmp_path / "program.pt2"
    module = OnnxModule(difference_and_total(["n", 3]))
    torch.export.save(exported(module, torch.rand(2, 3), torch.rand(2, 3), strict=strict), file)
    done = in_new_process(
        f"import torch, ortdl_torch\nprogram = torch.export.load({str(file)!r}).module()\n"
        "print([y.tolist() for y in program(torch.ones(1, 3), torch.ones(1, 3))])\n"
    )
    assert (done.returncode, done.stdout) == (0, "[[[0.0, 0.0, 0.0]], [[2.0, 2.0, 2.0]]]\n"), (
        done.stderr
    )


@pytest.mark.filterwarnings("ignore")  # what the package's loader warns of changes with PyTorch
def test_aotinductor_package(tmp_path: Path) -> None:
    package = tmp_path / "package.pt2"
    module = Around(difference_and_total())
    program = exported(module, torch.rand(2, 3), strict=False)
    torch._inductor.aoti_compile_and_package(program, package_path=str(package))
    runner = torch._inductor.aoti_load_package(str(package))
    for rows in (5, 1):
        x = torch.rand(rows, 3)
        assert torch.equal(runner(x), module(x))
    weight = module.weight.tolist()
    del runner
    done = in_new_process(
        "import torch, ortdl_torch\n"
        f"runner = torch._inductor.aoti_load_package({str(package)!r})\n"
        f"x, weight = torch.ones(2, 3), torch.tensor({weight})\n"
        "print(torch.equal(runner(x), (x * weight - 2) * 2))\n"
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
