"""What errors say: what was asked, what was found and what to do, in whole sentences."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from models import difference_and_total, external_weight, subtract, unary, with_other_output
from nested_models import identity, optional_type, tensor_type

import ortdl_torch
from ortdl_torch import InferenceSession, OnnxModule, OrtValue, to_ortvalue

X = torch.ones(1)
SURROGATE = "a\ud800"


def said(kind: type[Exception], call: Callable[[], object]) -> str:
    """What the call's error of just that kind says."""
    with pytest.raises(kind) as caught:
        call()
    assert caught.type is kind
    return str(caught.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s(**{SURROGATE: X}),
        lambda s: s.run(None, {SURROGATE: X}),
        lambda s: s.run([SURROGATE], {"x": X}),
        lambda s: s.run_into({SURROGATE: X}, {"x": X}),
        lambda s: s.run_into({"y": X}, {SURROGATE: X}),
        lambda s: s.run_async(**{SURROGATE: X}),
        lambda s: s.io_binding().bind_input(SURROGATE, X),
        lambda s: s.io_binding().bind_output(SURROGATE, X),
        lambda _: InferenceSession(unary("Neg"), initializers={SURROGATE: X}),
    ],
)
def test_a_name_that_no_text_has(call: Callable[[InferenceSession], object]) -> None:
    message = said(ValueError, lambda: call(InferenceSession(unary("Neg"))))
    assert re.match(r"an (input|output|initializer)'s name must be text that UTF-8 has", message)
    assert r"'a\ud800' holds a lone surrogate" in message


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda s, value: s(value), "the input 'x'"),
        (lambda s, value: s.run(None, {"x": value}), "the input 'x'"),
        (lambda s, value: s.run_into([value], [X]), "the output 'y'"),
        (lambda s, value: s.run_into({"y": value}, [X]), "the output 'y'"),
        (lambda s, value: s.io_binding().bind_input("x", value), "the input 'x'"),
        (lambda s, value: s.io_binding().bind_ortvalue_output("y", value), "the output 'y'"),
    ],
)
@pytest.mark.parametrize("value", [3, [X], np.ones(1, np.float32)], ids=["int", "list", "array"])
def test_no_tensor_where_one_is_due(call: Callable[..., object], what: str, value: object) -> None:
    message = said(TypeError, lambda: call(InferenceSession(unary("Neg")), value))
    assert type(value).__name__ in message
    assert message.startswith(f"{what} must be a torch.Tensor or an OrtValue, not ")
    assert ("use torch.from_numpy(array)" in message) == isinstance(value, np.ndarray)


def test_none_among_the_targets() -> None:
    session = InferenceSession(unary("Neg"))
    message = said(TypeError, lambda: session.run_into([None], [X]))  # type: ignore[list-item]
    assert message == "the output 'y' must be a torch.Tensor or an OrtValue, not NoneType"


@pytest.mark.parametrize(
    ("tensor", "kind", "words"),
    [
        (torch.ones(4)[::2], ValueError, "shape [2] and strides [2] is not contiguous"),
        (torch.ones(2)._neg_view(), BufferError, "pending negation"),
        (
            torch.frombuffer(bytearray(9), dtype=torch.float32, offset=1),
            ValueError,
            "not aligned",
        ),
    ],
    ids=["strided", "negated", "misaligned"],
)
def test_what_cannot_be_used_in_place(tensor: torch.Tensor, kind: type, words: str) -> None:
    session = InferenceSession(unary("Neg"))
    binding = session.io_binding()
    for call in (
        lambda: session.run_into([tensor], [torch.ones(2)]),
        lambda: session.run_into({"y": tensor}, [torch.ones(2)]),
        lambda: binding.bind_input("x", tensor),
        lambda: binding.bind_output("y", tensor),
    ):
        message = said(kind, call)
        assert words in message
        assert "copy=" not in message
        assert "tensor.clone()" in message or "tensor.contiguous()" in message


def test_numbers_of_inputs_and_outputs() -> None:
    one, two = InferenceSession(unary("Neg")), InferenceSession(difference_and_total([None]))
    for call, words in (
        (lambda: one(), "the model takes 1 input, but the input 'x' was not given"),
        (lambda: one(X, X), "the model takes 1 input, but 2 were given"),
        (lambda: two(X), "the model takes 2 inputs, but the input 'right' was not given"),
        (lambda: two(X, X, X), "the model takes 2 inputs, but 3 were given"),
        (lambda: one.run_into([X, X], [X]), "the model has 1 output, but 2 were given"),
        (lambda: two.run_into([X], [X, X]), "the model has 2 outputs, but 1 was given"),
        (lambda: one(torch.ones(1, 1)), "must have 1 dimension, but one of shape [1, 1]"),
    ):
        assert words in said(ValueError, call)
    assert "takes 2 inputs, but 1 was given" in said(ValueError, lambda: two.script_object.run([X]))
    fake = torch.empty(1, device="meta")
    for session, given, words in (
        (one, [], "the model takes 1 input, but 0 were given"),
        (two, [fake], "the model takes 2 inputs, but 1 was given"),
        (one, [fake[None]], "must have 1 dimension, but one of shape (1, 1)"),
    ):
        message = said(
            ValueError, lambda s=session, g=given: torch.ops.ortdl.run(s.script_object, g)
        )
        assert words in message


def test_articles() -> None:
    session = InferenceSession(identity(optional_type(tensor_type())))
    for call in (
        lambda: session(to_ortvalue(torch.ones(1, dtype=torch.int64))),
        lambda: OnnxModule(session).__prepare_scriptable__(),
        lambda: InferenceSession(with_other_output("optional")).script_object.run([X]),
        lambda: torch.ops.ortdl.run(session.script_object, [X]),
    ):
        with pytest.raises((TypeError, RuntimeError)) as caught:
            call()
        message = str(caught.value)
        assert " an optional(" in message
        assert " a optional(" not in message
    packed = said(
        ValueError, lambda: OrtValue.from_packed(torch.zeros(9, dtype=torch.uint8), 22, [2])
    )
    assert packed.startswith("an int4 value of shape [2]")
    assert " a uint4" in said(
        TypeError,
        lambda: ortdl_torch.from_ortvalue(
            OrtValue.from_packed(torch.zeros(1, dtype=torch.uint8), 21, [2])
        ),
    )


def test_what_is_no_sequence() -> None:
    for call, what in (
        (ortdl_torch.to_ortvalues, "tensors"),
        (ortdl_torch.from_ortvalues, "OrtValues"),
    ):
        for value in (5, None, 2.5):
            message = said(TypeError, lambda c=call, v=value: c(v))
            name = type(value).__name__
            assert message == f"{call.__name__} takes a list or tuple of {what}, not {name}"


def test_pairs_of_another_length() -> None:
    value = to_ortvalue(X)
    for call, role in (
        (lambda pair: ortdl_torch.to_dlpack(value, max_version=pair), "max_version"),
        (lambda pair: value.__dlpack__(max_version=pair), "max_version"),
        (lambda pair: value.__dlpack__(dl_device=pair), "dl_device"),
    ):
        for pair in ((1,), (1, 0, 0), ()):
            message = said(TypeError, lambda c=call, p=pair: c(p))
            assert message == f"{role} must be a tuple of two integers, not a tuple of {len(pair)}"
        assert "must be a tuple of two integers, not list" in said(
            TypeError, lambda c=call: c([1, 0])
        )


@pytest.mark.parametrize("which", ["model.onnx", "weight.bin"])
def test_a_folder_where_a_saved_file_was(which: str, tmp_path: Path) -> None:
    weight, path = tmp_path / "weight.bin", tmp_path / "model.onnx"
    weight.write_bytes(np.ones(4, np.float32).tobytes())
    path.write_bytes(external_weight())
    session = InferenceSession(path, embed=False)
    saved: Any = session.__reduce_ex__(4)
    found = tmp_path / which
    found.unlink()
    for make, words in (
        (lambda: None, ("there is none", "is gone (there is none)")),
        (found.mkdir, ("a folder is there", "is gone (a folder is there)")),
    ):
        make()
        loading = said(RuntimeError, lambda: saved[0](*saved[1]))
        assert f"'{found}', and {words[0]}: put the file there" in loading
        assert f"'{found}' {words[1]}" in said(RuntimeError, lambda: session.__reduce_ex__(4))


def test_arguments_of_other_kinds() -> None:
    session = InferenceSession(subtract())
    for call, words in (
        (lambda: session.run(None, 5), "feeds must map names to tensors, not int"),
        (lambda: session.run_into(5, [X]), "or map names to them, not int"),
        (
            lambda: InferenceSession(subtract(), initializers=5),
            "initializers must map names to tensors, not int",
        ),
        (
            lambda: InferenceSession(subtract(), sess_options=onnxruntime.RunOptions()),
            "sess_options must be an onnxruntime.SessionOptions",
        ),
    ):
        assert words in said(TypeError, call)
