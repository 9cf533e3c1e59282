"""What no input of strings, a sequence, a map or an optional value can be is told, by name."""

from typing import Any

import numpy as np
import pytest
import torch
from models import subtract, unary, with_other_output
from nested_models import (
    STRING,
    identity,
    map_type,
    one_node,
    optional_type,
    sequence_type,
    strings,
    tensor_type,
    zip_map,
)
from onnx import TensorProto
from support import refused

import ortdl_torch
from ortdl_torch import InferenceSession

INT64 = TensorProto.INT64


def nested(depth: int) -> Any:
    """A string in so many lists."""
    value: Any = "s"
    for _ in range(depth):
        value = [value]
    return value


def holding_itself() -> list[Any]:
    """A list whose first item is the list."""
    value: list[Any] = []
    value.append(value)
    return value


class Uneven(list[str]):
    """A list that says something else of its length."""

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: Any) -> Any:
        raise RuntimeError("asked")


# the object, the exception, what the message names beside the input
NO_STRINGS = {
    "None": (None, TypeError, ["NoneType"]),
    "int": (3, TypeError, ["int"]),
    "list of int": ([1, 2], TypeError, ["int", "str"]),
    "mixed": (["a", 2], TypeError, ["int"]),
    "None in a list": (["a", None], TypeError, ["NoneType"]),
    "dict": ({"a": 1}, TypeError, ["dict"]),
    "set": ({"a"}, TypeError, ["set"]),
    "generator": ((c for c in "ab"), TypeError, ["generator"]),
    "tensor": (torch.ones(2), TypeError, ["Tensor", "str"]),
    "bytearray": (bytearray(b"a"), TypeError, ["bytearray"]),
    "array in a list": ([np.array(["a"])], TypeError, ["ndarray"]),
    "array of numbers": (np.ones(2), TypeError, ["float64"]),
    "array of objects": (np.array(["a", 2], object), TypeError, ["int"]),
    "array of lists": (np.array([["a"], ["b", "c"]], object), ValueError, ["ragged"]),
    "value": (ortdl_torch.to_ortvalue, TypeError, ["builtin"]),
    "ragged": ([["a", "b"], ["c"]], ValueError, ["ragged", "[2, 2]", "1"]),
    "ragged with an empty list": ([[], ["c"]], ValueError, ["ragged"]),
    "string for a list": ([["a"], "b"], ValueError, ["ragged", "string"]),
    "list for a string": (["a", ["b"]], ValueError, ["ragged"]),
    "deep": (nested(65), ValueError, ["64"]),
    "bottomless": (holding_itself(), ValueError, ["64"]),
}


@pytest.mark.parametrize("name", NO_STRINGS)
def test_no_strings(name: str) -> None:
    session = InferenceSession(strings())
    value, kind, words = NO_STRINGS[name]
    with refused(kind, "'x'", "tensor(string)", "inputs are", *words):
        session(value)
    with refused(kind, "'x'", *words):
        session.run(None, {"x": value})
    assert session("works") == ("works",)


def test_a_deep_list_that_is_not_too_deep() -> None:
    assert InferenceSession(strings())(nested(8)) == (nested(8),)


def test_subclasses_are_read_as_the_lists_that_they_are() -> None:
    assert InferenceSession(strings())(Uneven(["a", "b"])) == (["a", "b"],)


@pytest.mark.parametrize("text", ["\ud800", "a\udc80b"])
def test_surrogates_have_no_utf_8(text: str) -> None:
    session = InferenceSession(strings())
    for value in (text, [["a", text]], np.array([text], object)):
        with refused(UnicodeEncodeError, "surrogates", "the input 'x', a tensor(string)"):
            session(value)
        with refused(UnicodeEncodeError, "surrogates", "the input 'x', a tensor(string)"):
            session.run(None, {"x": value})
    assert session("works") == ("works",)


def test_an_output_that_is_no_utf_8() -> None:
    session = InferenceSession(strings())
    for value in (b"\xff", [b"a", b"\xc3"], np.array([b"\x80"])):
        with refused(UnicodeDecodeError, "utf-8", "the output 'y', a tensor(string)"):
            session(value)
        with refused(UnicodeDecodeError, "utf-8", "the output 'y', a tensor(string)"):
            session.run(["y"], {"x": value})
    assert session(b"works") == ("works",)


def test_text_within_others_is_named_by_what_holds_it() -> None:
    sequence = InferenceSession(identity(sequence_type(STRING)))
    with refused(UnicodeEncodeError, "the input 'x', a seq(tensor(string))"):
        sequence([["a"], ["\ud800"]])
    with refused(UnicodeDecodeError, "the output 'y', a seq(tensor(string))"):
        sequence([["a"], [b"\xff"]])
    given = one_node(
        "DictVectorizer",
        {"x": map_type(STRING, INT64)},
        {"y": tensor_type(INT64, [1, 1])},
        "ai.onnx.ml",
        string_vocabulary=["a"],
    )
    with refused(UnicodeEncodeError, "the input 'x', a map(string,tensor(int64))"):
        InferenceSession(given)({"\ud800": 1})
    made = InferenceSession(zip_map([b"\xff", b"a"]))
    with refused(UnicodeDecodeError, "the output 'scores', a seq(map(string,tensor(float)))"):
        made(torch.ones(1, 2))


def test_other_errors_of_python_stay_as_they_are() -> None:
    class Failing(np.ndarray):
        def ravel(self, *_order: object) -> Any:  # numpy.asarray leaves it out
            raise AssertionError

    session = InferenceSession(strings())
    array = np.array([b"\xff"]).view(Failing)
    with pytest.raises(UnicodeDecodeError) as caught:
        session(array)
    assert caught.value.object == b"\xff"
    assert (caught.value.start, caught.value.end) == (0, 1)


def test_shapes_of_strings_are_held_against_the_model() -> None:
    session = InferenceSession(strings([None, 2]))
    assert session([["a", "b"]]) == ([["a", "b"]],)
    with refused(ValueError, "'x'", "2 dimensions", "[2]"):
        session(["a", "b"])
    with refused(ValueError, "'x'", "size 2 in dimension 1", "[1, 3]"):
        session([["a", "b", "c"]])
    with refused(ValueError, "'x'", "given twice"):
        session([["a", "b"]], x=[["a", "b"]])
    with refused(ValueError, "'x'", "not given"):
        session()


NO_SEQUENCE = {
    "None": (None, TypeError, ["list", "NoneType"]),
    "tensor": (torch.ones(2), TypeError, ["list", "Tensor"]),
    "generator": ((t for t in [torch.ones(1)]), TypeError, ["generator"]),
    "numbers": ([1.0], TypeError, ["Tensor", "float"]),
    "lists": ([[torch.ones(1)]], TypeError, ["Tensor", "list"]),
    "None in a list": ([torch.ones(1), None], TypeError, ["NoneType"]),
    "array": ([np.ones(1, np.float32)], TypeError, ["from_numpy"]),
    "dtype": ([torch.ones(1), torch.ones(1).double()], TypeError, ["tensor(double)", "to(dtype)"]),
    "value": ([ortdl_torch.to_ortvalue(torch.ones(1).long())], TypeError, ["tensor(int64)"]),
    "complex": ([torch.ones(1) + 1j], TypeError, ["complex"]),
    "meta": ([torch.ones(1, device="meta")], BufferError, ["meta"]),
    "grad": ([torch.ones(1, requires_grad=True)], BufferError, ["grad", "detach|no_grad"]),
    "sparse": ([torch.ones(1).to_sparse()], BufferError, ["sparse"]),
}


@pytest.mark.parametrize("name", NO_SEQUENCE)
def test_no_sequence(name: str) -> None:
    session = InferenceSession(identity(sequence_type()))
    value, kind, words = NO_SEQUENCE[name]
    with refused(kind, "'x'", "seq(tensor(float))", "inputs are", *words):
        session(value)
    assert session([torch.ones(1)])[0][0].tolist() == [1]


def test_no_sequence_of_strings() -> None:
    session = InferenceSession(identity(sequence_type(STRING)))
    with refused(TypeError, "'x'", "seq(tensor(string))", "str"):
        session("a")
    with refused(TypeError, "'x'", "Tensor"):
        session([torch.ones(1)])


def test_no_optional_value() -> None:
    session = InferenceSession(identity(optional_type(tensor_type())))
    for value, word in ((3, "int"), ([torch.ones(1)], "list"), (torch.ones(1).long(), "int64")):
        with refused(TypeError, "'x'", "optional(tensor(float))", word):
            session(value)
    with refused(TypeError, "'x'", "tensor(int64)"):
        session(ortdl_torch.to_ortvalue(torch.ones(1).long()))
    with refused(BufferError, "'x'", "grad"):
        session(torch.ones(1, requires_grad=True))
    assert session(None) == (None,)


def test_an_empty_sequence_that_onnx_runtime_cannot_make() -> None:
    source = one_node(
        "SequenceLength",
        {"x": sequence_type(TensorProto.FLOAT8E5M2)},
        {"y": tensor_type(INT64, [])},
    )
    try:
        session = InferenceSession(source)
    except ortdl_torch.OrtError:
        pytest.skip("this onnxruntime has no sequences of float8")
    with refused(ortdl_torch.OrtError, "SequenceEmpty", "'x'"):
        session([])


@pytest.mark.parametrize(
    ("value", "kind", "words"),
    [
        ([("a", 1)], TypeError, ["dict", "list"]),
        (None, TypeError, ["dict"]),
        ({1: 1}, TypeError, ["str", "int"]),
        ({("a",): 1}, TypeError, ["strings"]),
        ({"a": "b"}, TypeError, ["integer", "str"]),
        ({"a": 1.5}, TypeError, ["integer", "float"]),
        ({"a": 2**64}, ValueError, ["64 bits"]),
    ],
    ids=repr,
)
def test_no_map(value: Any, kind: type[Exception], words: list[str]) -> None:
    source = one_node(
        "DictVectorizer",
        {"x": map_type(STRING, INT64)},
        {"y": tensor_type(INT64, [1, 1])},
        "ai.onnx.ml",
        string_vocabulary=["a"],
    )
    session = InferenceSession(source)
    with refused(kind, "'x'", "map(string,tensor(int64))", *words):
        session(value)
    assert session({"a": 3})[0].tolist() == [[3]]


def test_arrays_for_tensors_say_what_to_use() -> None:
    with refused(TypeError, "left", "torch.from_numpy", "ndarray"):
        InferenceSession(subtract())(np.ones(2, np.float32), torch.ones(2))


def test_nothing_is_no_tensor() -> None:
    with refused(TypeError, "'x'", "NoneType"):
        InferenceSession(unary("Relu"))(None)


@pytest.mark.parametrize("kind", ["sequence", "optional", "map", "string"])
def test_conversions_refuse_what_sessions_take(kind: str) -> None:
    session = InferenceSession(with_other_output(kind)).script_object
    with refused(TypeError, "other", "eager"):
        torch.ops.ortdl.run(session, [torch.ones(2)])


def test_strings_of_too_many_dimensions() -> None:
    graph = one_node(
        "Reshape",
        {"x": tensor_type(STRING), "s": tensor_type(7, [None])},
        {"y": tensor_type(STRING)},
    )
    session = InferenceSession(graph)
    with refused(ValueError, "200000 dimensions", "64"):
        session(["a"], torch.ones(200000, dtype=torch.int64))
    assert session(["a"], torch.ones(2, dtype=torch.int64))[0] == [["a"]]
