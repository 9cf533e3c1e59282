"""A module's session is exchanged as a whole: calls under way, threads, and what is refused."""

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from unittest.mock import patch

import pytest
import torch
from models import difference_and_total, info, model, subtract, unary
from onnx import helper
from support import in_threads, refused

from ortdl_torch import InferenceSession, OnnxModule

LEFT, RIGHT = torch.tensor([[5.0, 6.0, 7.0]]), torch.tensor([[1.0, 2.0, 3.0]])


def total_and_difference() -> bytes:
    """As difference_and_total, with the outputs the other way round."""
    return model(
        [
            helper.make_node("Sub", ["left", "right"], ["difference"]),
            helper.make_node("Add", ["left", "right"], ["total"]),
        ],
        [info("left", ["n", 3]), info("right", ["n", 3])],
        [info("total", ["n", 3]), info("difference", ["n", 3])],
    )


def subtract_from() -> bytes:
    """difference = right - left."""
    return model(
        [helper.make_node("Sub", ["right", "left"], ["difference"])],
        [info("left", ["n", 3]), info("right", ["n", 3])],
        [info("difference", ["n", 3])],
    )


@pytest.fixture
def exchange(monkeypatch: pytest.MonkeyPatch) -> Callable[[OnnxModule, bytes], InferenceSession]:
    """Gives a module another session in each of its calls, as another thread may do."""

    def prepare(module: OnnxModule, graph: bytes) -> InferenceSession:
        other = InferenceSession(graph)

        def exchanged() -> bool:
            module.session = other
            return False

        monkeypatch.setattr("ortdl_torch.module.is_dynamo_compiling", exchanged)
        return other

    return prepare


@pytest.mark.parametrize("other", [total_and_difference, subtract, lambda: unary("Neg")])
@pytest.mark.parametrize("named", [False, True])
def test_a_call_ends_with_the_session_that_it_began_with(
    other: Callable[[], bytes], named: bool, exchange: Callable
) -> None:
    module = OnnxModule(difference_and_total())
    wanted = exchange(module, other())
    got = module(right=RIGHT, left=LEFT) if named else module(LEFT, RIGHT)
    assert got._fields == ("difference", "total")
    assert torch.equal(got.difference, LEFT - RIGHT)
    assert torch.equal(got.total, LEFT + RIGHT)
    assert module.session is wanted


@pytest.mark.usefixtures("fresh_compilers")
def test_copies_of_a_module_compiled_in_place_are_their_own() -> None:
    module = OnnxModule(subtract(["n", 3]))
    module.compile(backend="eager")
    assert torch.equal(module(LEFT, RIGHT), LEFT - RIGHT)
    for made in (copy.copy(module), copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        made.session = InferenceSession(subtract_from())
        assert torch.equal(made(LEFT, RIGHT), RIGHT - LEFT)
    assert torch.equal(module(LEFT, RIGHT), LEFT - RIGHT)


def test_one_output_stays_one_while_the_session_is_exchanged(exchange: Callable) -> None:
    module = OnnxModule(subtract(["n", 3]))
    exchange(module, difference_and_total())
    assert torch.equal(module(LEFT, RIGHT), LEFT - RIGHT)
    assert torch.equal(module(LEFT, RIGHT).total, LEFT + RIGHT)


class Doubled(InferenceSession):
    """Gives twice what the model gives."""

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(2 * y for y in super().__call__(*tensors))


class Named(InferenceSession):
    """A session that has a name, and runs as any."""

    name = "mine"


def test_a_session_that_is_called_in_its_own_way_is_refused() -> None:
    doubled = Doubled(unary("Neg"))
    with refused(TypeError, "Doubled", "__call__", "module of your own"):
        OnnxModule(doubled)
    module = OnnxModule(Named(unary("Neg")))
    with refused(TypeError, "Doubled", "__call__", "module of your own"):
        module.session = doubled
    assert module.session.name == "mine"
    assert module(torch.ones(1)).tolist() == [-1]


def test_threads_that_call_get_outputs_under_their_names() -> None:
    sessions = [InferenceSession(make()) for make in (difference_and_total, total_and_difference)]
    module = OnnxModule(sessions[0])
    wrong = []

    def work(number: int) -> None:
        for i in range(300):
            if number == 0:
                module.session = sessions[i % 2]
                continue
            got = module(LEFT, RIGHT)
            if not torch.equal(got.difference, LEFT - RIGHT):
                wrong.append(got)

    in_threads(work, range(4))
    assert not wrong


def test_a_session_cannot_be_deleted() -> None:
    module = OnnxModule(difference_and_total())
    with refused(AttributeError, "module.session", "assign another"):
        del module.session
    assert torch.equal(module(LEFT, RIGHT).total, LEFT + RIGHT)
    assert module.session.get_inputs()[0].name == "left"


@pytest.mark.parametrize("value", [torch.nn.Linear(1, 1), torch.nn.Parameter(torch.ones(1))])
def test_what_pytorch_would_register_is_not_assigned(value: object) -> None:
    module = OnnxModule(unary("Neg"))
    with refused(TypeError, "module.session", type(value).__name__):
        module.session = value
    assert list(module.children()) == list(module.parameters()) == []
    assert module(torch.ones(1)).tolist() == [-1]


def test_modules_of_like_models_have_one_class_and_others_do_not() -> None:
    first, same = OnnxModule(unary("Neg")), OnnxModule(unary("Abs"))
    other = OnnxModule(unary("Neg", [3]))
    copies = [copy.copy(first), copy.deepcopy(first), pickle.loads(pickle.dumps(first))]
    assert {type(m) for m in (same, *copies)} == {type(first)}
    assert type(other) is not type(first)
    assert type(first).forward.__code__ is not type(other).forward.__code__
    assert isinstance(other, OnnxModule)
    other.session = same.session
    assert type(other) is type(first)


def test_a_class_of_modules_goes_with_the_last_of_them() -> None:
    module = OnnxModule(unary("Neg", [1, 2, 3, 4]))
    made = weakref.ref(type(module))
    again = OnnxModule(unary("Abs", [1, 2, 3, 4]))
    del module
    gc.collect()
    assert made() is type(again)
    del again
    gc.collect()
    assert made() is None


def test_the_script_object_is_not_assigned_by_itself() -> None:
    module = OnnxModule(unary("Neg"))
    before = module.script_object
    for value in (InferenceSession(unary("Abs")).script_object, None, torch.nn.Linear(1, 1)):
        with refused(AttributeError, "module.script_object", "module.session"):
            module.script_object = value
    module.script_object = before
    assert module.script_object is before
    with refused(AttributeError, "module.script_object", "module.session"):
        del module.script_object
    assert module.script_object is before
    assert module(torch.ones(1)).tolist() == [-1]


def test_a_call_that_the_session_gets_later_holds() -> None:
    class Derived(InferenceSession):
        pass

    module = OnnxModule(Derived(subtract()))
    with patch.object(Derived, "__call__", lambda self, left, right: (right,)):
        for result in (module(LEFT[0], RIGHT[0]), module(LEFT[0], right=RIGHT[0])):
            assert result.tolist() == [1.0, 2.0, 3.0]
    assert module(LEFT[0], RIGHT[0]).tolist() == [4.0, 4.0, 4.0]
