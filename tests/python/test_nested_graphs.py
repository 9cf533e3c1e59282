"""Models with inputs or outputs that are no tensors: modules in eager code, refused in graphs."""

import copy
import logging
import pickle
from typing import Any

import pytest
import torch
from models import with_other_output
from nested_models import identity, optional_type, sequence_type, strings, tensor_type, zip_map
from support import refused
from torch._subclasses import FakeTensorMode

from ortdl_torch import InferenceSession, OnnxModule

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")

INPUTS = {
    "string": (strings(), ["a", "b"], "tensor(string)"),
    "sequence": (identity(sequence_type()), [torch.ones(2)], "seq(tensor(float))"),
    "optional": (identity(optional_type(tensor_type())), torch.ones(2), "optional"),
}
KINDS = ["string", "sequence", "optional", "map"]


@pytest.fixture(autouse=True)
def unlogged(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch logs each refusal with its traceback, and pytest would keep that and its session."""
    monkeypatch.setattr(logging.getLogger("torch._subclasses.fake_tensor"), "disabled", True)


def test_a_module_works_as_its_session() -> None:
    assert OnnxModule(strings())(["a", "b"]) == ["a", "b"]
    assert OnnxModule(strings())(x=[["a"]]) == [["a"]]
    assert OnnxModule(identity(optional_type(tensor_type())))(None) is None
    (got,) = OnnxModule(identity(sequence_type()))([torch.ones(2)])
    assert got.tolist() == [1, 1]
    result = OnnxModule(zip_map(["a", "b"]))(torch.ones(1, 2))
    assert result.scores == [{"a": 1.0, "b": 1.0}]
    assert result.twice.tolist() == [[2, 2]]
    with refused(TypeError, "'x'", "int"):
        OnnxModule(strings())(3)


def test_a_module_is_copied_and_pickled() -> None:
    module = OnnxModule(strings())
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert other(["a"]) == ["a"]


@pytest.mark.parametrize("kind", INPUTS)
def test_inputs_are_refused_in_script(kind: str) -> None:
    source, _, name = INPUTS[kind]
    with refused(TypeError, "input 'x'", name, "eager"):
        torch.jit.script(OnnxModule(source))


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_are_refused_in_script(kind: str) -> None:
    with refused(TypeError, "output 'other'", "eager"):
        torch.jit.script(OnnxModule(with_other_output(kind)))


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_are_refused_in_a_trace(kind: str) -> None:
    with refused(TypeError, "output 'other'", "eager"):
        torch.jit.trace(OnnxModule(with_other_output(kind)), (torch.ones(2),))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("fresh_compilers", "nothing_exported")
def test_outputs_are_refused_in_compiled_code(kind: str) -> None:
    compiled = torch.compile(OnnxModule(with_other_output(kind)), fullgraph=True, backend="eager")
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"output 'other'.*eager"):
        compiled(torch.ones(2))


@pytest.mark.usefixtures("fresh_compilers", "nothing_exported")
def test_compiled_code_breaks_its_graph_for_them() -> None:
    @torch.compile(backend="eager")
    def shout(module: OnnxModule, x: torch.Tensor) -> Any:
        return module(x + 1), x + 2

    result, after = shout(OnnxModule(with_other_output("string")), torch.ones(1))
    assert result.other == ["2"]
    assert after.tolist() == [3]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("fresh_compilers", "nothing_exported")
def test_outputs_are_refused_in_exported_programs(kind: str, strict: bool) -> None:
    with pytest.raises((TypeError, torch._dynamo.exc.Unsupported), match=r"output 'other'.*eager"):
        torch.export.export(OnnxModule(with_other_output(kind)), (torch.ones(2),), strict=strict)


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.usefixtures("fresh_compilers", "nothing_exported")
def test_inputs_are_refused_in_compiled_and_exported_code(kind: str) -> None:
    source, value, name = INPUTS[kind]
    wanted = (TypeError, torch._dynamo.exc.Unsupported)
    with pytest.raises(wanted, match=r"input 'x'.*eager") as caught:
        torch.compile(OnnxModule(source), fullgraph=True, backend="eager")(value)
    assert name in str(caught.value)
    with pytest.raises(wanted, match=r"input 'x'.*eager"):
        torch.export.export(OnnxModule(source), (value,), strict=False)


@pytest.mark.parametrize("kind", KINDS)
def test_the_op_refuses_outputs(kind: str) -> None:
    session = InferenceSession(with_other_output(kind)).script_object
    with refused(TypeError, "output 'other'", "eager"):
        torch.ops.ortdl.run(session, [torch.ones(2)])
    with refused(TypeError, "output 'other", "eager"):
        session.run([torch.ones(2)])
    with FakeTensorMode(), refused(TypeError, "output 'other", "eager"):
        torch.ops.ortdl.run(session, [torch.ones(2)])


@pytest.mark.parametrize("kind", INPUTS)
def test_the_op_refuses_inputs(kind: str) -> None:
    source, _, name = INPUTS[kind]
    session = InferenceSession(source).script_object
    with refused(TypeError, "input 'x", name, "eager"):
        torch.ops.ortdl.run(session, [torch.ones(2)])
    with FakeTensorMode(), refused(TypeError, "input 'x", name, "eager"):
        torch.ops.ortdl.run(session, [torch.ones(2)])
