"""An ONNX model as a module: what it takes and gives, eager, scripted, traced, copied and saved."""

import copy
import inspect
import io
import multiprocessing
import pickle
from pathlib import Path
from typing import ClassVar

import onnxruntime
import pytest
import torch
from models import difference_and_total, info, model, subtract, unary, without_inputs
from onnx import helper
from stock import same_as_stock
from support import in_new_process, live, refused
from torch.utils.data import DataLoader

from ortdl_torch import InferenceSession, OnnxModule, OrtValue, to_ortvalue

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.usefixtures("fresh_compilers"),
]

LEFT, RIGHT = torch.rand(4, 3), torch.rand(4, 3)


def weird_names() -> bytes:
    """Inputs and outputs whose names are none of Python's."""
    return model(
        [
            helper.make_node("Sub", ["input.1", "class"], ["a/b"]),
            helper.make_node("Add", ["input.1", "class"], ["def"]),
        ],
        [info("input.1", ["n"]), info("class", ["n"])],
        [info("a/b", ["n"]), info("def", ["n"])],
    )


class Around(torch.nn.Module):
    """A model between PyTorch's operators."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return self.inner(left * 2, right + 1)[0] * 3


def saved_and_loaded(scripted: torch.jit.ScriptModule) -> torch.jit.ScriptModule:
    buffer = io.BytesIO()
    torch.jit.save(scripted, buffer)
    buffer.seek(0)
    return torch.jit.load(buffer)


def test_one_output_is_a_tensor() -> None:
    module = OnnxModule(subtract(["n", 3]))
    assert isinstance(module, torch.nn.Module)
    got = module(LEFT, RIGHT)
    assert isinstance(got, torch.Tensor)
    assert same_as_stock(got, subtract(["n", 3]), LEFT, RIGHT)


def test_several_outputs_are_a_named_tuple() -> None:
    got = OnnxModule(difference_and_total())(LEFT, RIGHT)
    assert got._fields == ("difference", "total")
    assert same_as_stock(got, difference_and_total(), LEFT, RIGHT)
    assert got.total is got[1]


def test_outputs_of_other_names_are_a_tuple() -> None:
    got = OnnxModule(weird_names())(LEFT[0], RIGHT[0])
    assert type(got) is tuple
    assert same_as_stock(got, weird_names(), LEFT[0], RIGHT[0])


@pytest.mark.parametrize(
    ("tensors", "named"),
    [
        ([LEFT, RIGHT], {}),
        ([LEFT], {"right": RIGHT}),
        ([], {"right": RIGHT, "left": LEFT}),
    ],
    ids=["position", "both", "name"],
)
def test_inputs_by_position_and_by_name(tensors: list[torch.Tensor], named: dict) -> None:
    got = OnnxModule(subtract(["n", 3]))(*tensors, **named)
    assert same_as_stock(got, subtract(["n", 3]), LEFT, RIGHT)


def test_names_that_are_none_of_pythons_as_keywords() -> None:
    got = OnnxModule(weird_names())(**{"class": RIGHT[0], "input.1": LEFT[0]})
    assert same_as_stock(got, weird_names(), LEFT[0], RIGHT[0])


@pytest.mark.usefixtures("nothing_exported")
@pytest.mark.parametrize("name", ["self", "torch", "device", "inf", "Outputs"])
def test_names_that_generated_code_uses(name: str) -> None:
    graph = model(
        [
            helper.make_node("Sub", ["x", name], ["difference"]),
            helper.make_node("Add", ["x", name], ["total"]),
        ],
        [info("x", [2]), info(name, [2])],
        [info("difference", [2]), info("total", [2])],
    )
    module = OnnxModule(graph)
    left, right = torch.tensor([1.0, 2]), torch.tensor([4.0, 8])
    for runs in (
        module,
        torch.jit.script(module),
        torch.compile(module, fullgraph=True, backend="eager"),
        torch.export.export(module, (left, right), strict=False).module(),
        torch.export.export(module, (left, right), strict=True).module(),
    ):
        assert same_as_stock(runs(left, right), graph, left, right)


def test_signature_says_the_inputs() -> None:
    assert list(inspect.signature(OnnxModule(subtract()).forward).parameters) == ["left", "right"]
    weird = inspect.signature(OnnxModule(weird_names()).forward)
    assert list(weird.parameters) == ["input_1", "_class"]


def test_no_input() -> None:
    assert OnnxModule(without_inputs())().tolist() == [4, 5]


def test_an_ort_value_is_an_input() -> None:
    got = OnnxModule(subtract(["n", 3]))(to_ortvalue(LEFT), RIGHT)
    assert same_as_stock(got, subtract(["n", 3]), LEFT, RIGHT)
    packed = OrtValue.from_packed(torch.zeros(2, dtype=torch.uint8), 22, [4])
    with refused(TypeError, "left", "int4"):
        OnnxModule(subtract())(packed, packed)


WRONG = {
    "too few": ([LEFT], {}, ValueError, ["left", "right"]),
    "too many": ([LEFT] * 3, {}, ValueError, ["left", "right"]),
    "unknown": ([LEFT], {"rihgt": RIGHT}, ValueError, ["rihgt", "right"]),
    "twice": ([LEFT, RIGHT], {"left": LEFT}, ValueError, ["left"]),
    "dtype": ([LEFT, RIGHT.int()], {}, TypeError, ["right", "int32"]),
    "rank": ([LEFT, RIGHT[0]], {}, ValueError, ["right", "3"]),
    "size": ([LEFT, RIGHT[:, :2]], {}, ValueError, ["right", "3", "2"]),
    "kind": ([LEFT, 3], {}, TypeError, ["right", "int"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_inputs_are_what_a_session_says(name: str) -> None:
    tensors, named, kind, words = WRONG[name]
    module = OnnxModule(subtract(["n", 3]))
    with refused(kind, *words):
        module(*tensors, **named)
    assert same_as_stock(module(LEFT, RIGHT), subtract(["n", 3]), LEFT, RIGHT)


def test_a_module_has_no_state_of_pytorchs() -> None:
    module = OnnxModule(subtract())
    assert list(module.parameters()) == list(module.buffers()) == []
    assert module.state_dict() == {}
    assert repr(module) == "OnnxModule(inputs=(left, right), outputs=(difference))"


def test_options_and_providers_are_the_sessions(options: onnxruntime.SessionOptions) -> None:
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    module = OnnxModule(subtract(), options, ["CPUExecutionProvider"])
    assert module.session.get_providers() == ["CPUExecutionProvider"]
    with refused(ValueError, "NoSuchProvider"):
        OnnxModule(subtract(), providers=["NoSuchProvider"])


def test_a_module_of_a_session_shares_it() -> None:
    session = InferenceSession(subtract())
    assert OnnxModule(session).session is session
    assert live()["sessions"] == 1
    with refused(ValueError, "session", "providers"):
        OnnxModule(session, providers=["CPUExecutionProvider"])


def test_a_subclass_keeps_its_own_forward() -> None:
    class Doubled(OnnxModule):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x * 2, right=x)

    module = Doubled(subtract(["n", 3]))
    assert type(module) is Doubled
    assert torch.equal(module(LEFT), LEFT * 2 - LEFT)


def test_hooks_are_called() -> None:
    module = OnnxModule(subtract(["n", 3]))
    module.register_forward_hook(lambda _module, _inputs, output: output + 1)
    assert torch.equal(module(LEFT, RIGHT), LEFT - RIGHT + 1)


@pytest.mark.parametrize("make", [subtract, difference_and_total, weird_names])
@pytest.mark.parametrize("how", ["script", "trace"])
def test_torchscript_gives_what_stock_gives(make: object, how: str) -> None:
    graph = make()
    shape = (4, 3) if make is difference_and_total else (4,)
    left, right = torch.rand(shape), torch.rand(shape)
    module = OnnxModule(graph)
    example = (torch.rand(2, *shape[1:]), torch.rand(2, *shape[1:]))
    scripted = torch.jit.script(module) if how == "script" else torch.jit.trace(module, example)
    for runs in (scripted, saved_and_loaded(scripted)):
        for _ in range(3):  # the first two runs profile
            assert same_as_stock(runs(left, right), graph, left, right)
    # A file of TorchScript holds a named tuple's names; a trace records plain tuples.
    if make is difference_and_total and how == "script":
        assert saved_and_loaded(scripted)(left, right)._fields == ("difference", "total")


@pytest.mark.parametrize("how", ["script", "trace"])
def test_torchscript_of_a_module_around_it(how: str) -> None:
    module = Around(OnnxModule(difference_and_total()))
    wanted = module(LEFT, RIGHT)
    if how == "script":
        scripted = torch.jit.script(module)
    else:
        scripted = torch.jit.trace(module, (LEFT[:1], RIGHT[:1]))
    loaded = saved_and_loaded(scripted)
    # PyTorch keeps what it freezes as long as the module, or for ever unless that was loaded.
    for runs in (scripted, loaded, torch.jit.freeze(loaded.eval())):
        assert torch.equal(runs(LEFT, RIGHT), wanted)


def test_scripted_file_runs_in_a_fresh_process(tmp_path: Path) -> None:
    file = tmp_path / "module.pt"
    torch.jit.script(OnnxModule(difference_and_total(["n"]))).save(file)
    done = in_new_process(
        f"import torch, ortdl_torch\nnet = torch.jit.load({str(file)!r})\n"
        "print(net(torch.tensor([5.0]), torch.tensor([2.0])).total.tolist())\n"
    )
    assert (done.returncode, done.stdout) == (0, "[7.0]\n"), done.stderr


@pytest.mark.parametrize(
    "again",
    [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))],
    ids=["copy", "deepcopy", "pickle"],
)
@pytest.mark.parametrize("make", [subtract, difference_and_total])
def test_copies_give_what_stock_gives(again: object, make: object) -> None:
    graph = make(["n", 3])
    module = again(Around(OnnxModule(graph).eval()))
    assert type(module.inner) is type(OnnxModule(graph))
    assert not module.inner.training
    assert same_as_stock(module.inner(LEFT, right=RIGHT), graph, LEFT, RIGHT)


def test_copies_share_the_session_and_pickles_do_not() -> None:
    module = OnnxModule(subtract(["n", 3]))
    copied = copy.deepcopy(module)
    assert live()["sessions"] == 1
    again = pickle.loads(pickle.dumps(module))
    assert live()["sessions"] == 2
    del module, again
    assert same_as_stock(copied(LEFT, RIGHT), subtract(["n", 3]), LEFT, RIGHT)


def test_a_changed_copy_of_the_saved_form_is_not_taken_for_the_session() -> None:
    scripted = OnnxModule(unary("Neg")).script_object
    same = copy.deepcopy(scripted)
    assert same == scripted
    assert live()["sessions"] == 1
    state, name = scripted.__getstate__()
    state[1][0][2][:] = torch.frombuffer(bytearray(unary("Abs")), dtype=torch.uint8)
    other = torch.ScriptObject.__new__(torch.ScriptObject)
    other.__setstate__((state, name))
    assert torch.ops.ortdl.run(other, [torch.tensor([1.0])])[0].tolist() == [1]


def test_torch_save(tmp_path: Path) -> None:
    torch.save(OnnxModule(difference_and_total()), tmp_path / "module.pt")
    module = torch.load(tmp_path / "module.pt", weights_only=False)
    assert same_as_stock(module(LEFT, RIGHT), difference_and_total(), LEFT, RIGHT)


def test_outputs_pickle() -> None:
    got = OnnxModule(difference_and_total())(LEFT, RIGHT)
    again = pickle.loads(pickle.dumps(got))
    assert type(again) is type(got)
    assert torch.equal(again.total, got.total)


class Differences(torch.utils.data.Dataset):
    """Items that a model makes."""

    def __init__(self, module: OnnxModule) -> None:
        self.module = module

    def __len__(self) -> int:
        return 6

    def __getitem__(self, i: int) -> torch.Tensor:
        return self.module(torch.full((2,), float(i)), torch.ones(2)).total


def test_data_loader_workers_run_a_module() -> None:
    loader = DataLoader(
        Differences(OnnxModule(difference_and_total(["n"]))),
        batch_size=3,
        num_workers=2,
        multiprocessing_context=multiprocessing.get_context("spawn"),
    )
    assert torch.cat(list(loader))[:, 0].tolist() == [1, 2, 3, 4, 5, 6]


def test_models_with_other_names_are_scripted_in_one_process() -> None:
    modules = [OnnxModule(difference_and_total()), OnnxModule(renamed())]
    for module in modules:
        scripted = torch.jit.script(module)
        first, second = scripted(LEFT, RIGHT)
        assert torch.equal(first, LEFT - RIGHT)
        assert torch.equal(second, LEFT + RIGHT)


def renamed() -> bytes:
    """The difference and the total under other names."""
    return model(
        [
            helper.make_node("Sub", ["left", "right"], ["less"]),
            helper.make_node("Add", ["left", "right"], ["more"]),
        ],
        [info("left", ["n", 3]), info("right", ["n", 3])],
        [info("less", ["n", 3]), info("more", ["n", 3])],
    )


def test_a_module_can_move_its_inputs() -> None:
    assert OnnxModule(subtract(["n", 3]), move_inputs=True)(LEFT, RIGHT).equal(LEFT - RIGHT)
    with refused(ValueError, "other options"):
        OnnxModule(InferenceSession(subtract()), move_inputs=True)


class Tripled(OnnxModule):
    """Three times what the model gives."""

    def forward(self, *tensors: torch.Tensor, **named: torch.Tensor) -> torch.Tensor:
        return super().forward(*tensors, **named) * 3


def test_what_script_would_leave_out_is_refused() -> None:
    x = torch.tensor([-1.0, 2.0])
    tripled, hooked = Tripled(unary("Relu")), OnnxModule(unary("Relu"))
    hooked.register_forward_hook(lambda _module, _inputs, output: output * 5)
    assert tripled(x).tolist() == [0, 6]
    assert hooked(x).tolist() == [0, 10]
    for module, word in ((tripled, "forward of its own"), (hooked, "hooks")):
        with refused(TypeError, "torch.jit.script", word, "torch.jit.trace"):
            torch.jit.script(module)
        assert torch.jit.trace(module, (x,))(x).tolist() == module(x).tolist()


def test_names_as_programs_have_them() -> None:
    module = OnnxModule(weird_names())
    a, b = torch.rand(3), torch.rand(3)
    wanted = (a - b, a + b)
    for named in (
        {"input.1": a, "class": b},
        {"input_1": a, "_class": b},
        {"input_1": a, "class": b},
    ):
        assert all(map(torch.equal, module(**named), wanted))
    assert all(map(torch.equal, module(a, _class=b), wanted))
    with refused(ValueError, "class", "twice"):
        module(a, b, _class=b)
    with refused(ValueError, "input_2", "input.1"):
        module(input_2=a)
    with refused(ValueError, "'input.1', 'input_1', 'class'", "once"):
        module(**{"input.1": a, "input_1": b, "class": b})


class WithIgnored(OnnxModule):
    """A model with something of its own that TorchScript is to leave alone."""

    __jit_ignored_attributes__: ClassVar[list[str]] = [
        *OnnxModule.__jit_ignored_attributes__,
        "own",
        "later",
    ]

    def __init__(self, model: bytes) -> None:
        super().__init__(model)
        self.own = "kept"


def test_what_a_subclass_ignores_is_saved_all_the_same() -> None:
    module = WithIgnored(subtract())
    for made in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert made.own == "kept"
        assert torch.equal(made(LEFT[0], RIGHT[0])[0], module(LEFT[0], RIGHT[0])[0])


@pytest.mark.usefixtures("nothing_exported")
def test_another_session_is_followed_everywhere() -> None:
    module = OnnxModule(difference_and_total())
    before = torch.jit.script(module)
    module.session = InferenceSession(unary("Neg"))
    x = torch.rand(4)
    assert module.script_object is not before.session
    assert list(inspect.signature(module.forward).parameters) == ["x"]
    assert repr(module) == "OnnxModule(inputs=(x), outputs=(y))"
    program = torch.export.export(module, (x,)).module()
    for made in (
        module,
        torch.jit.script(module),
        torch.jit.trace(module, (x,)),
        torch.compile(module, fullgraph=True, backend="eager"),
        program,
        copy.deepcopy(module),
        pickle.loads(pickle.dumps(module)),
    ):
        assert torch.equal(made(x), -x)
    assert torch.equal(module(x=x), -x)
    # What was scripted before keeps its own.
    assert torch.equal(before(LEFT, RIGHT).total, LEFT + RIGHT)
    module.session = InferenceSession(difference_and_total())
    assert torch.equal(module(LEFT, right=RIGHT).difference, LEFT - RIGHT)


def test_a_subclass_follows_another_session_too() -> None:
    tripled = Tripled(unary("Relu"))
    tripled.session = InferenceSession(unary("Neg"))
    assert type(tripled) is Tripled
    assert tripled(torch.ones(2)).tolist() == [-3, -3]


@pytest.mark.parametrize("value", [None, b"model", "path.onnx", 3])
def test_what_is_no_session_is_not_assigned(value: object) -> None:
    module = OnnxModule(unary("Neg"))
    with refused(TypeError, "module.session", "InferenceSession", type(value).__name__):
        module.session = value
    assert module(torch.ones(1)).tolist() == [-1]
