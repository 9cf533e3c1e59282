"""Strings, sequences, maps and optional values go into a session and come out as in stock runs."""

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from models import info, model, subtract
from nested_models import (
    FLOAT,
    STRING,
    identity,
    map_type,
    one_node,
    optional_type,
    same,
    sequence_type,
    stock,
    strings,
    tensor_type,
    zip_map,
)
from onnx import TensorProto, helper
from support import KINDS, Kind, bits, in_threads

import ortdl_torch
from ortdl_torch import InferenceSession

INT64 = TensorProto.INT64
BOOL = TensorProto.BOOL


def through(source: bytes, value: Any) -> Any:
    """The one output for the one input, by position and by name alike."""
    session = InferenceSession(source)
    (got,) = session(value)
    (named,) = session(x=value)
    (by_run,) = session.run(None, {"x": value})
    assert same(got, named)
    assert same(got, by_run)
    return got


class Text(str):
    """A str of another class."""


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ("one", "one"),
        ("", ""),
        (b"one", "one"),
        (["a", "b"], ["a", "b"]),
        (("a", "b"), ["a", "b"]),
        ([["a", "b"], ("c", "d")], [["a", "b"], ["c", "d"]]),
        ([[["a"]]], [[["a"]]]),
        ([], []),
        ([[], []], [[], []]),
        (["zürich", "日本", "🦆", b"\xc3\xa9"], ["zürich", "日本", "🦆", "é"]),
        (["a\0b", "\0", ""], ["a\0b", "\0", ""]),
        ([Text("s"), np.str_("t")], ["s", "t"]),
        (np.array(["a", "bc"]), ["a", "bc"]),
        (np.array([["a"], ["bc"]], object), [["a"], ["bc"]]),
        (np.array([b"a", b"\xc3\xa9"]), ["a", "é"]),
        (np.array("a"), "a"),
        (np.array(["a", "b", "c", "d"])[::2], ["a", "c"]),
        (np.array([["a", "b"], ["c", "d"]]).T, [["a", "c"], ["b", "d"]]),
        (np.empty((2, 0), object), [[], []]),
        (np.array(["a\0b"], object), ["a\0b"]),
    ],
    ids=repr,
)
def test_strings(value: Any, result: Any) -> None:
    assert same(through(strings(), value), result)


@pytest.mark.parametrize(
    "array",
    [
        np.array([["a", "é"], ["", "日本"]], object),
        np.array("x", object),
        np.empty((2, 0, 3), object),
        np.array(["a", "bc"]),
        np.array(["a\0b"], object),
    ],
    ids=repr,
)
def test_arrays_of_strings_are_stock_s(array: np.ndarray) -> None:
    source = strings()
    assert same([through(source, array)], stock(source, array))


def test_an_array_has_its_shape_where_lists_have_none() -> None:
    shape = one_node("Shape", {"x": tensor_type(STRING)}, {"y": tensor_type(INT64)})
    assert InferenceSession(shape)(np.empty((0, 3), object))[0].tolist() == [0, 3]
    assert InferenceSession(shape)([[], []])[0].tolist() == [2, 0]
    assert InferenceSession(shape)("")[0].tolist() == []


def test_strings_of_two_inputs() -> None:
    kind = tensor_type(STRING)
    source = one_node("StringConcat", {"a": kind, "b": kind}, {"y": kind})
    a, b = [["a", "b"], ["c", "d"]], ["é", "\0"]
    (got,) = InferenceSession(source)(a, b=b)
    assert got == [["aé", "b\0"], ["cé", "d\0"]]
    assert same([got], stock(source, np.array(a, object), np.array(b, object)))


def test_strings_in_and_tensors_out() -> None:
    source = one_node(
        "StringNormalizer",
        {"x": tensor_type(STRING, [None])},
        {"y": tensor_type(STRING, [None])},
        case_change_action="UPPER",
        stopwords=["and"],
        locale="C",
    )
    assert through(source, ["one", "and", "two"]) == ["ONE", "TWO"]
    assert same([through(source, ["one"])], stock(source, np.array(["one"], object)))
    length = one_node("Size", {"x": tensor_type(STRING)}, {"y": tensor_type(INT64, [])})
    assert torch.equal(through(length, ["a", "b"]), torch.tensor(2))


def test_a_million_strings() -> None:
    values = [f"é{i}" for i in range(1_000_000)]
    assert InferenceSession(strings())(values)[0] == values


@pytest.mark.parametrize(
    "kind", [k for k in KINDS if k.dtype.itemsize > 1 and k.name != "bfloat16"], ids=str
)
def test_sequences_of_every_type(kind: Kind) -> None:
    tensors = [torch.ones(2, dtype=kind.dtype), torch.zeros(1, 3, dtype=kind.dtype)]
    (got,) = InferenceSession(identity(sequence_type(kind.number)))(tensors)
    assert [t.dtype for t in got] == [kind.dtype] * 2
    assert all(torch.equal(bits(a), bits(b)) for a, b in zip(got, tensors, strict=True))
    (empty,) = InferenceSession(identity(sequence_type(kind.number)))([])
    assert empty == []


@pytest.mark.parametrize(
    "tensors",
    [
        [],
        [torch.tensor(2.0)],
        [torch.rand(2, 3), torch.rand(0), torch.rand(1, 1, 1)],
        [torch.arange(12.0).view(3, 4).t(), torch.arange(6.0)[::2], torch.ones(1).expand(3)],
    ],
    ids=["empty", "0-d", "shapes", "layouts"],
)
def test_sequences_are_stock_s(tensors: list[torch.Tensor]) -> None:
    source = identity(sequence_type())
    got = through(source, tensors)
    assert same([got], stock(source, tensors))
    assert same(through(source, tuple(tensors)), got)
    assert same(through(source, [ortdl_torch.to_ortvalue(t.contiguous()) for t in tensors]), got)


def test_a_sequence_s_items_are_copies() -> None:
    x = torch.zeros(3)
    (got,) = InferenceSession(identity(sequence_type()))([x, x])
    got[0].fill_(1)
    assert x.tolist() == got[1].tolist() == [0, 0, 0]


def test_an_item_of_a_sequence_is_a_copy() -> None:
    source = one_node(
        "SequenceAt",
        {"s": sequence_type(), "i": tensor_type(INT64, [])},
        {"y": tensor_type()},
    )
    x = torch.rand(4)
    (got,) = InferenceSession(source)([torch.rand(2), x], torch.tensor(1))
    assert torch.equal(got, x)
    assert got.data_ptr() != x.data_ptr()
    assert same([got], stock(source, [torch.rand(2), x], torch.tensor(1)))


def test_sequences_are_built_and_taken_apart() -> None:
    built = one_node(
        "SequenceConstruct", {"a": tensor_type(), "b": tensor_type()}, {"y": sequence_type()}
    )
    a, b = torch.rand(2), torch.rand(2, 2)
    (sequence,) = InferenceSession(built)(a, b)
    assert same([sequence], stock(built, a, b))
    inserted = one_node(
        "SequenceInsert", {"s": sequence_type(), "t": tensor_type()}, {"y": sequence_type()}
    )
    assert same(list(InferenceSession(inserted)(sequence, a)), stock(inserted, sequence, a))
    assert same(InferenceSession(inserted)([], a)[0], [a])
    split = one_node("SplitToSequence", {"t": tensor_type()}, {"y": sequence_type()}, axis=0)
    assert same(list(InferenceSession(split)(b)), stock(split, b))
    made = one_node("SequenceEmpty", {}, {"y": sequence_type()})
    assert InferenceSession(made)() == ([],)


def test_sequences_of_strings() -> None:
    source = identity(sequence_type(STRING))
    value = [["a", "b"], [["c\0"]], "d", []]
    assert through(source, value) == value
    arrays = [np.array(["a", "b"], object), np.array([["c"]], object)]
    assert same([through(source, arrays)], stock(source, arrays))
    assert through(source, ()) == []


@pytest.mark.parametrize(
    ("inner", "value"),
    [
        (tensor_type(), torch.rand(2, 3)),
        (sequence_type(), [torch.rand(2), torch.rand(3)]),
        (sequence_type(), []),
        (tensor_type(), None),
        (sequence_type(), None),
        (tensor_type(STRING), None),
        (sequence_type(STRING), None),
    ],
    ids=lambda v: "" if not isinstance(v, (list, torch.Tensor, type(None))) else type(v).__name__,
)
def test_optional_values(inner: Any, value: Any) -> None:
    source = identity(optional_type(inner))
    assert same([through(source, value)], stock(source, value))
    has = one_node("OptionalHasElement", {"x": optional_type(inner)}, {"y": tensor_type(BOOL, [])})
    assert bool(through(has, value)) is (value is not None)


def test_optional_strings() -> None:
    assert through(identity(optional_type(tensor_type(STRING))), [["a"]]) == [["a"]]
    assert through(identity(optional_type(sequence_type(STRING))), [["a"], "b"]) == [["a"], "b"]


def test_an_optional_tensor_is_never_the_input_s_memory() -> None:
    x = torch.rand(3)
    wrapped = one_node("Optional", {"x": tensor_type()}, {"y": optional_type(tensor_type())})
    taken = one_node(
        "OptionalGetElement", {"x": optional_type(tensor_type())}, {"y": tensor_type()}
    )
    for source in (identity(optional_type(tensor_type())), wrapped, taken):
        for got in (InferenceSession(source)(x)[0], InferenceSession(source)(x=x)[0]):
            assert torch.equal(got, x)
            assert got.data_ptr() != x.data_ptr()
    passed = model([], *[[helper.make_value_info("x", optional_type(tensor_type()))]] * 2)
    (got,) = InferenceSession(passed)(x)
    assert got.data_ptr() != x.data_ptr()
    first, second = InferenceSession(wrapped).run(["y", "y"], {"x": x})
    assert torch.equal(first, second)
    assert first.data_ptr() != second.data_ptr()


@pytest.mark.parametrize("labels", [[3, -7, 2**40], ["b", "a", "é"]], ids=["int64", "string"])
@pytest.mark.parametrize("rows", [0, 1, 5])
def test_maps(labels: list[Any], rows: int) -> None:
    source = zip_map(labels)
    x = torch.rand(rows, 3)
    twice, scores = InferenceSession(source)(x)
    assert same([twice, scores], stock(source, x))
    assert len(scores) == rows
    for row, score in zip(x, scores, strict=True):
        assert score == dict(zip(labels, row.tolist(), strict=True))
    assert InferenceSession(source).run(["scores"], {"x": x}) == [scores]


@pytest.mark.parametrize(
    ("key", "value", "given"),
    [
        (STRING, INT64, {"b": 4, "c": 2**40}),
        (STRING, TensorProto.DOUBLE, {"b": 0.5, "x": 3}),
        (INT64, TensorProto.DOUBLE, {20: 0.1}),
        (INT64, FLOAT, {20: 0.5, 10: True}),
    ],
)
def test_maps_as_inputs(key: int, value: int, given: dict[Any, Any]) -> None:
    vocabulary: dict[str, Any] = (
        {"string_vocabulary": ["a", "b", "c"]}
        if key == STRING
        else {"int64_vocabulary": [10, 20, 30]}
    )
    source = one_node(
        "DictVectorizer",
        {"x": map_type(key, value)},
        {"y": tensor_type(value, [1, 3])},
        "ai.onnx.ml",
        **vocabulary,
    )
    words = next(iter(vocabulary.values()))
    (got,) = InferenceSession(source)(given)
    assert got.tolist() == [[given.get(word, 0) for word in words]]


def test_tensors_in_lists_live_as_long_as_the_run() -> None:
    session = InferenceSession(identity(sequence_type()))
    x = torch.rand(5)
    died = weakref.ref(x)
    (got,) = session([x, x + 1])
    del x
    gc.collect()
    assert died() is None
    assert got[0].shape == (5,)


def test_many_threads_share_a_session() -> None:
    session = InferenceSession(strings())
    wrong: list[object] = []

    def work(k: int) -> None:
        for i in range(50):
            value = [f"{k} {i} {j}" for j in range(i)]
            try:
                (got,) = session(value)
            except Exception as e:
                wrong.append(e)
            else:
                wrong.extend([] if got == value else [got])

    in_threads(work, range(4))
    assert wrong == []


def test_a_list_that_another_thread_changes() -> None:
    session = InferenceSession(identity(sequence_type()))
    # Not contiguous, so that each is copied without the GIL.
    items = [torch.arange(4096.0).view(64, 64).t() for _ in range(50)]
    running = True

    def change() -> None:
        while running:
            items.clear()
            items.extend(torch.zeros(64, 64).t() for _ in range(50))

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(20):
            (got,) = session(items)
            assert all(t.shape == (64, 64) for t in got)
    finally:
        running = False
        thread.join()


def test_outputs_outlive_the_session() -> None:
    session = InferenceSession(zip_map([1, 2]))
    twice, scores = session(torch.ones(2, 2))
    del session
    gc.collect()
    assert twice.tolist() == [[2, 2], [2, 2]]
    assert scores == [{1: 1.0, 2: 1.0}] * 2


def test_dense_models_give_what_they_gave() -> None:
    session = InferenceSession(subtract())
    got = session(torch.ones(2), torch.ones(2))
    assert type(got) is tuple
    assert got[0].tolist() == [0, 0]


def test_only_some_outputs() -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["text"], to=STRING),
        helper.make_node("Neg", ["x"], ["negative"]),
        helper.make_node("Cast", ["x"], ["packed"], to=TensorProto.INT4),
    ]
    outputs = [info("text", [None], STRING), info("negative"), info("packed", [None], 22)]
    session = InferenceSession(model(nodes, [info("x")], outputs))
    text, negative = session.run(["text", "negative"], {"x": torch.ones(1)})
    assert text == ["1"]
    assert negative.tolist() == [-1]
    assert session.run(["negative"], {"x": torch.ones(1)})[0].tolist() == [-1]
    with pytest.raises(TypeError, match="'packed' is a tensor\\(int4\\)"):
        session(torch.ones(1))
