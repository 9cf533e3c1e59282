"""The ops and classes of PyTorch's own registry: eager, scripted, traced, saved and loaded."""

import copy
import io
import pickle
from pathlib import Path

import pytest
import torch
from models import subtract, unary
from support import in_new_process, refused

from ortdl_torch import InferenceSession, OrtValue, from_ortvalue, to_ortvalue

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")


class AddRelu(torch.nn.Module):
    """relu(x) + x, relu by a session."""

    def __init__(self) -> None:
        super().__init__()
        self.session = InferenceSession(unary("Relu")).script_object

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.ortdl.run(self.session, [x])[0] + x


def there_and_back(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.ortdl.from_ortvalue(torch.ops.ortdl.to_ortvalue(x, False))


def shape_type_and_pointer(x: torch.Tensor) -> tuple[list[int], int, int]:
    value = torch.ops.ortdl.to_ortvalue(x, False)
    return value.shape(), value.element_type(), value.data_ptr()


def shape_of(value: torch.classes.ortdl.OrtValue) -> list[int]:
    return value.shape()


def copied(x: torch.Tensor) -> list[torch.Tensor]:
    some = torch.ops.ortdl.to_ortvalue(x, None)
    always = torch.ops.ortdl.to_ortvalue(x, True)
    return [torch.ops.ortdl.from_ortvalue(some), torch.ops.ortdl.from_ortvalue(always)]


both = pytest.mark.parametrize("prepare", [lambda f: f, torch.jit.script], ids=["eager", "script"])


@both
def test_there_and_back(prepare: object) -> None:
    x = torch.arange(6.0).reshape(2, 3)
    y = prepare(there_and_back)(x)
    assert y.data_ptr() == x.data_ptr()
    assert torch.equal(y, x)


@both
def test_methods_of_a_value(prepare: object) -> None:
    x = torch.zeros(2, 3, dtype=torch.bfloat16)
    assert prepare(shape_type_and_pointer)(x) == ([2, 3], 16, x.data_ptr())


@both
def test_value_as_argument(prepare: object) -> None:
    value = to_ortvalue(torch.ones(2, 3))
    assert prepare(shape_of)(value.script_object) == [2, 3]


@both
def test_copies(prepare: object) -> None:
    x = torch.arange(6.0).reshape(2, 3)
    some, always = prepare(copied)(x)
    assert some.data_ptr() == x.data_ptr() != always.data_ptr()
    some, always = prepare(copied)(x.t())
    assert torch.equal(some, x.t())
    assert torch.equal(always, x.t())
    assert len({x.data_ptr(), some.data_ptr(), always.data_ptr()}) == 3


def test_op_without_copy_argument_shares() -> None:
    x = torch.arange(3.0)
    value = torch.ops.ortdl.to_ortvalue(x)
    assert isinstance(value, torch.ScriptObject)
    assert OrtValue(value).data_ptr() == x.data_ptr() == from_ortvalue(value).data_ptr()


def test_schemas() -> None:
    value, session = (
        "__torch__.torch.classes.ortdl.OrtValue",
        "__torch__.torch.classes.ortdl.InferenceSession",
    )
    assert {
        name: str(getattr(torch.ops.ortdl, name).default._schema)
        for name in ("to_ortvalue", "from_ortvalue", "run")
    } == {
        "to_ortvalue": f"ortdl::to_ortvalue(Tensor self, bool? copy=False) -> {value}",
        "from_ortvalue": f"ortdl::from_ortvalue({value} value) -> Tensor",
        "run": f"ortdl::run({session} session, Tensor[] inputs) -> Tensor[]",
    }


def test_run_op() -> None:
    session = InferenceSession(subtract())
    got = torch.ops.ortdl.run(session.script_object, [torch.ones(2) * 3, torch.ones(2)])
    assert type(got) is list
    assert got[0].tolist() == [2, 2]


def test_ops_raise_what_the_functions_raise() -> None:
    x = torch.ones(3, 4)
    with refused(ValueError, "copy"):
        torch.ops.ortdl.to_ortvalue(x.t(), False)
    with refused(TypeError, "complex"):
        torch.ops.ortdl.to_ortvalue(x + 1j, False)
    with refused(BufferError, "no_grad|detach"):
        torch.ops.ortdl.to_ortvalue(x.clone().requires_grad_(), False)
    with refused(TypeError, "int4", "packed"):
        raw = OrtValue.from_packed(torch.zeros(2, dtype=torch.uint8), 22, [4])
        torch.ops.ortdl.from_ortvalue(raw.script_object)
    session = InferenceSession(subtract()).script_object
    for wrong, kind in (
        ([], ValueError),
        ([torch.ones(2)] * 3, ValueError),
        ([torch.ones(2), torch.ones(2, 2)], ValueError),
        ([torch.ones(2), torch.ones(2).int()], TypeError),
        ([torch.ones(2), torch.ones(2).requires_grad_()], BufferError),
    ):
        with refused(kind, "left", "right"):
            torch.ops.ortdl.run(session, wrong)
    with pytest.raises(RuntimeError, match="Sub"):
        torch.ops.ortdl.run(session, [torch.ones(2), torch.ones(3)])


@pytest.mark.parametrize("how", ["eager", "script", "trace", "freeze"])
def test_module_with_a_session(how: str) -> None:
    net = AddRelu()
    if how in ("script", "freeze"):
        net = torch.jit.script(net)
    if how == "trace":
        net = torch.jit.trace(net, (torch.tensor([-1.0, 2.0]),), check_trace=False)
    if how == "freeze":
        # What PyTorch freezes it keeps with the code: for a scripted module until the process
        # ends, for a loaded one as long as the module.
        buffer = io.BytesIO()
        torch.jit.save(net, buffer)
        buffer.seek(0)
        net = torch.jit.freeze(torch.jit.load(buffer).eval())
    for _ in range(3):
        assert net(torch.tensor([5.0, -6.0, 1.0])).tolist() == [10, -6, 2]
    assert net(torch.tensor([-1.0])).tolist() == [-1]


@pytest.mark.parametrize("loads", ["import ortdl_torch", "import onnxruntime, ortdl_torch"])
@pytest.mark.parametrize("traced", [False, True], ids=["script", "trace"])
def test_saved_module_runs_in_a_fresh_process(loads: str, traced: bool, tmp_path: Path) -> None:
    net = AddRelu()
    example = (torch.tensor([-1.0, 2.0]),)
    made = torch.jit.trace(net, example, check_trace=False) if traced else torch.jit.script(net)
    file = tmp_path / "net.pt"
    made.save(file)
    done = in_new_process(
        f"import torch\n{loads}\nnet = torch.jit.load({str(file)!r})\n"
        "print(net(torch.tensor([5.0, -6.0])).tolist())\n"
    )
    assert (done.returncode, done.stdout) == (0, "[10.0, -6.0]\n"), done.stderr


def test_saved_module_of_a_model_file_needs_the_file_no_more(tmp_path: Path) -> None:
    path = tmp_path / "relu.onnx"
    path.write_bytes(unary("Relu"))
    net = AddRelu()
    net.session = InferenceSession(path).script_object
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(net), buffer)
    path.unlink()
    buffer.seek(0)
    assert torch.jit.load(buffer)(torch.tensor([5.0, -6.0])).tolist() == [10, -6]


@pytest.mark.parametrize(
    "again",
    [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))],
    ids=["deepcopy", "pickle"],
)
def test_module_is_copied_and_pickled(again: object) -> None:
    net = again(AddRelu())
    assert net(torch.tensor([5.0, -6.0])).tolist() == [10, -6]
    assert list(net.state_dict()) == []


def test_outputs_of_the_op_are_its_own() -> None:
    session = InferenceSession(unary("Identity")).script_object
    x = torch.arange(4.0)
    (y,) = torch.ops.ortdl.run(session, [x])
    x.fill_(-1)
    assert y.tolist() == [0, 1, 2, 3]
