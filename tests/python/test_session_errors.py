"""A wrong call is told with the model's own list of inputs, and the session works after it."""

import gc
import threading
import weakref
from pathlib import Path

import onnxruntime
import pytest
import torch
from models import info, model, subtract, unary, with_other_output
from onnx import helper
from support import live, refused

import ortdl_torch
from ortdl_torch import InferenceSession

OK = torch.ones(2, 3)


def subtracting() -> InferenceSession:
    """difference = left - right, each of shape (any, 3)."""
    return InferenceSession(subtract([None, 3]))


def still_works(session: InferenceSession) -> None:
    """The session gives what it gave before."""
    assert torch.equal(session(OK, OK + 1)[0], torch.full((2, 3), -1.0))


# positional inputs, named inputs, the exception, what its message names
WRONG = {
    "no input": ([], {}, ValueError, ["left", "right"]),
    "one input": ([OK], {}, ValueError, ["left", "right"]),
    "three inputs": ([OK] * 3, {}, ValueError, ["left", "right", "3"]),
    "missing name": ([], {"left": OK}, ValueError, ["left", "right"]),
    "unknown name": ([], {"left": OK, "rihgt": OK}, ValueError, ["rihgt", "left", "right"]),
    "one name too many": ([OK, OK], {"more": OK}, ValueError, ["more", "left", "right"]),
    "position and name": ([OK, OK], {"left": OK}, ValueError, ["left", "right"]),
    "first by both": ([OK], {"left": OK}, ValueError, ["left", "right"]),
    "rank 1": ([torch.ones(3), OK], {}, ValueError, ["left", "right", "rank|dim|shape", "3"]),
    "rank 0": ([OK, torch.tensor(1.0)], {}, ValueError, ["left", "right", "rank|dim|shape"]),
    "rank 3": ([OK, torch.ones(1, 2, 3)], {}, ValueError, ["left", "right", "rank|dim|shape"]),
    "fixed dimension": ([OK, torch.ones(2, 4)], {}, ValueError, ["left", "right", "3", "4"]),
    "float64": ([OK.double(), OK], {}, TypeError, ["left", "right", "double|float64"]),
    "int64": ([OK, OK.long()], {}, TypeError, ["left", "right", "int64|long", "float"]),
    "bfloat16": ([], {"left": OK, "right": OK.bfloat16()}, TypeError, ["right", "bfloat16"]),
    "bool": ([OK > 0, OK], {}, TypeError, ["left", "bool"]),
    "complex": ([OK, OK + 1j], {}, TypeError, ["right", "complex"]),
    "None": ([None, OK], {}, TypeError, ["left", "None"]),
    "list": ([OK, [[1.0, 2.0, 3.0]]], {}, TypeError, ["right", "list"]),
    "array": ([OK, OK.numpy()], {}, TypeError, ["right", "ndarray"]),
    "number by name": ([OK], {"right": 3}, TypeError, ["right", "int"]),
    "grad": ([OK, OK.clone().requires_grad_()], {}, BufferError, ["right", "no_grad|detach"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_inputs(name: str) -> None:
    session = subtracting()
    tensors, named, kind, words = WRONG[name]
    with refused(kind, *words):
        session(*tensors, **named)
    still_works(session)
    if not tensors or not named:
        feeds = named or dict(zip(["left", "right", "more"], tensors, strict=False))
        with refused(kind, *words):
            session.run(None, feeds)
        still_works(session)


def test_error_lists_every_input_with_its_type_and_shape() -> None:
    session = InferenceSession(subtract(["rows", 3]))
    with refused(ValueError, "left", "right", "float", "rows", "3"):
        session(OK)
    long_ones = InferenceSession(unary("Neg", [2], 7))
    with refused(TypeError, "x", "int64", "float"):
        long_ones(torch.ones(2))


@pytest.mark.parametrize(
    "feeds",
    [None, 3, [OK, OK], "left", {3: OK}, {"left": OK, 4: OK}],
    ids=["None", "int", "list", "str", "dict of a number", "dict of a name and a number"],
)
def test_feeds_that_are_no_dict_of_names(feeds: object) -> None:
    session = subtracting()
    with refused(TypeError):
        session.run(None, feeds)
    still_works(session)


@pytest.mark.parametrize("names", [["nope"], ["difference", "nope"], ["left"]])
def test_unknown_output(names: list[str]) -> None:
    session = subtracting()
    with refused(ValueError, names[-1], "difference"):
        session.run(names, {"left": OK, "right": OK})
    still_works(session)


@pytest.mark.parametrize("names", [3, [3], [None], {"difference": 1}.values()], ids=str)
def test_output_names_that_are_none(names: object) -> None:
    session = subtracting()
    with refused(TypeError):
        session.run(names, {"left": OK, "right": OK})
    still_works(session)


def test_what_only_the_runtime_can_see_is_its_error() -> None:
    session = subtracting()
    with refused(ortdl_torch.OrtError, "broadcast|dimension|Sub"):
        session(torch.ones(2, 3), torch.ones(5, 3))
    still_works(session)


@pytest.mark.parametrize(
    ("kind", "word"),
    [("sequence", "seq"), ("optional", "optional"), ("map", "map"), ("string", "string")],
)
def test_output_that_is_no_tensor_is_named_where_tensors_are_due(kind: str, word: str) -> None:
    x = torch.ones(2)
    session = InferenceSession(with_other_output(kind))
    with refused(TypeError, "other", word):
        torch.ops.ortdl.run(session.script_object, [x])
    with refused(TypeError, "other", word):
        session.script_object.run([x])
    assert session.run(["y"], {"x": x})[0].tolist() == [1, 1]


@pytest.mark.parametrize(("number", "name"), [(22, "int4"), (21, "uint4")])
def test_output_of_a_packed_type_is_named(number: int, name: str) -> None:
    session = InferenceSession(unary("Cast", [3], to=number))
    with refused(TypeError, "y", name):
        session(torch.ones(3))


def test_input_that_is_no_tensor_in_the_model_is_named() -> None:
    tensor_type = helper.make_tensor_type_proto(1, [None])
    graph = model(
        [helper.make_node("SequenceLength", ["s"], ["n"])],
        [helper.make_value_info("s", helper.make_sequence_type_proto(tensor_type))],
        [info("n", [], 7)],
    )
    with refused(TypeError, "s", "seq"):
        InferenceSession(graph)(torch.ones(2))
    strings = model(
        [helper.make_node("Shape", ["t"], ["n"])], [info("t", [None], 8)], [info("n", [1], 7)]
    )
    with refused(TypeError, "t", "string"):
        InferenceSession(strings)(torch.ones(2))


RELU = unary("Relu")


@pytest.mark.parametrize(
    "source",
    [b"", b"not a model", RELU[: len(RELU) // 2], RELU[:-3], bytes(1000)],
    ids=["empty", "garbage", "half", "truncated", "zeros"],
)
@pytest.mark.parametrize("as_file", [False, True], ids=["bytes", "file"])
def test_model_that_is_none(
    source: bytes, as_file: bool, tmp_path: Path, options: onnxruntime.SessionOptions
) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(source)
    before = live()
    with refused(ortdl_torch.OrtError):
        InferenceSession(path if as_file else source, options)
    assert live() == before


def test_missing_file_is_named(tmp_path: Path) -> None:
    for missing in (tmp_path / "missing.onnx", str(tmp_path / "missing.onnx")):
        with pytest.raises(ortdl_torch.OrtError) as caught:
            InferenceSession(missing)
        assert caught.type is ortdl_torch.OrtError
        assert str(missing) in str(caught.value)
        assert caught.value.code == 3  # ORT_NO_SUCHFILE


def test_unknown_operator_is_the_runtime_s_error(options: onnxruntime.SessionOptions) -> None:
    with refused(ortdl_torch.OrtError, "NoSuchOperator"):
        InferenceSession(unary("NoSuchOperator"), options)


@pytest.mark.parametrize(
    "source", [None, 3, 2.5, object(), ["a"], torch.ones(2)], ids=lambda s: type(s).__name__
)
def test_model_of_a_wrong_kind(source: object) -> None:
    with refused(TypeError, type(source).__name__):
        InferenceSession(source)


@pytest.mark.parametrize(
    "providers",
    [["NopeExecutionProvider"], ["CPUExecutionProvider", ("Nope", {})], ["CUDAExecutionProvider"]],
)
def test_provider_that_is_not_offered(providers: list) -> None:
    if providers[0] in onnxruntime.get_available_providers()[:-1]:
        pytest.skip(f"this onnxruntime offers {providers[0]}")
    with refused(ValueError, "Nope|CUDAExecutionProvider", *onnxruntime.get_available_providers()):
        InferenceSession(RELU, providers=providers)


@pytest.mark.parametrize("providers", [3, [3], [("CPUExecutionProvider", 3)], [None]], ids=str)
def test_providers_of_a_wrong_kind(providers: object) -> None:
    with refused(TypeError):
        InferenceSession(RELU, providers=providers)


def test_provider_options_without_their_provider() -> None:
    with refused(ValueError, "provider_options"):
        InferenceSession(RELU, providers=["CPUExecutionProvider"], provider_options=[{}, {}])


def test_inputs_of_a_failed_run_are_released() -> None:
    session = subtracting()
    died = []
    for _ in range(20):
        x, y = torch.zeros(2, 4), torch.ones(5, 3)
        died += [weakref.ref(x), weakref.ref(y)]
        with refused(ValueError):
            session(x, x)
        with refused(ortdl_torch.OrtError):
            session(OK, y)
        del x, y
    gc.collect()
    assert not any(r() for r in died)


def test_error_of_a_worker_thread_stays_in_it() -> None:
    session = subtracting()
    caught: list[Exception] = []

    def work() -> None:
        try:
            session(OK.double(), OK)
        except TypeError as e:
            caught.append(e)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(caught) == 1
    assert "left" in str(caught[0])
    still_works(session)


def test_a_session_is_not_given_another_model() -> None:
    session = subtracting()
    for other in (unary("Neg"), InferenceSession(unary("Neg")).script_object):
        with refused(RuntimeError, "made already", "another InferenceSession"):
            session.__init__(other)
    with refused(RuntimeError, "made already"):
        session.__init__("no such file")
    still_works(session)
