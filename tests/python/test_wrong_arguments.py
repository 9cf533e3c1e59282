"""An argument of a wrong kind is an error that says which one, what it must be and what it is."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from models import scaled, subtract
from support import refused

from ortdl_torch import InferenceSession, OnnxModule

X = torch.ones(2, 3)
FEEDS = {"left": X, "right": X}
MODEL = subtract(["n", 3])
CPU = "CPUExecutionProvider"


def name_of(value: object) -> str:
    return type(value).__name__


@pytest.mark.parametrize("make", [InferenceSession, OnnxModule])
@pytest.mark.parametrize(
    "providers", [3, 0, 2.5, {CPU: {}}, {CPU}, b"CPU", iter([CPU]), object()], ids=name_of
)
def test_providers(make: Callable[..., object], providers: object) -> None:
    with refused(TypeError, "providers must be a list or tuple of names", name_of(providers)):
        make(MODEL, providers=providers)


@pytest.mark.parametrize("provider", [3, None, [CPU, {}], (CPU,), (CPU, 3), (3, {})], ids=str)
def test_one_of_the_providers(provider: object) -> None:
    with refused(TypeError, "expected a provider's name", repr(provider)):
        InferenceSession(MODEL, providers=[provider])


@pytest.mark.parametrize("options", [3, "options", {}, {"a": "b"}, iter([{}])], ids=name_of)
def test_provider_options(options: object) -> None:
    with refused(TypeError, "provider_options must be a list or tuple of dicts", name_of(options)):
        InferenceSession(MODEL, providers=[CPU], provider_options=options)


@pytest.mark.parametrize("options", [3, None, "ab", [("a", "b")]], ids=name_of)
def test_the_options_of_one_provider(options: object) -> None:
    with refused(TypeError, "provider_options[0]", "dict", CPU, name_of(options)):
        InferenceSession(MODEL, providers=[CPU], provider_options=[options])


def test_as_many_options_as_providers() -> None:
    with refused(ValueError, "provider_options holds 1 dict, and there are 0 providers"):
        InferenceSession(MODEL, provider_options=[{}])
    with refused(ValueError, "provider_options holds 2 dicts, and there is 1 provider:"):
        InferenceSession(MODEL, providers=[CPU], provider_options=({}, {}))


@pytest.mark.parametrize("providers", [None, [], (), [CPU], (CPU,), [(CPU, {})]], ids=str)
def test_what_providers_may_be(providers: Any) -> None:
    session = InferenceSession(MODEL, providers=providers)
    assert session.get_providers() == [CPU]
    assert torch.equal(session(X, X)[0], torch.zeros(2, 3))


@pytest.mark.parametrize("path", ["a\ud800", "a\0b", b"a\0b".decode()], ids=ascii)
def test_a_path_that_no_file_can_have(path: str) -> None:
    with refused(ValueError, "no file can have the path", repr(path)):
        InferenceSession(path)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("sess_options", 3),
        ("move_inputs", 1),
        ("embed", None),
        ("initializers", [X]),
        ("initializers", {"w": 3}),
        ("initializers", {3: X}),
    ],
    ids=repr,
)
def test_other_arguments_of_a_session(argument: str, value: Any) -> None:
    found = repr(value) if argument in ("move_inputs", "embed") else "int|list"
    with refused(TypeError, argument.removesuffix("s"), found):
        InferenceSession(scaled(), **{argument: value})


@pytest.mark.parametrize(
    "names",
    [3, 0, "", "difference", b"", {"difference"}, set(), {}, X, np.array(["difference"]), [3]],
    ids=name_of,
)
def test_output_names(names: Any) -> None:
    session = InferenceSession(MODEL)
    with refused(TypeError, "output_names must", "int" if names == [3] else name_of(names)):
        session.run(names, FEEDS)
    for every in (None, [], ()):
        assert len(session.run(every, FEEDS)) == 1


def test_run_into_needs_an_output() -> None:
    session = InferenceSession(MODEL)
    with refused(ValueError, "no output was given", "difference: tensor(float)[n, 3]"):
        session.run_into({}, FEEDS)
    y = torch.ones(2, 3)
    session.run_into({"difference": y}, FEEDS)
    assert torch.equal(y, torch.zeros(2, 3))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s: s.run(None, 3), ["feeds", "int"]),
        (lambda s: s.run(None, [X, X]), ["feeds", "list"]),
        (lambda s: s.run(None, {3: X}), ["input's name", "int"]),
        (lambda s: s.run(None, FEEDS, 3), ["run_options", "int"]),
        (lambda s: s.run(None, FEEDS, onnxruntime.SessionOptions()), ["run_options", "Session"]),
        (lambda s: s.run_into(3, FEEDS), ["outputs", "int"]),
        (lambda s: s.run_into(X, FEEDS), ["outputs", "Tensor"]),
        (lambda s: s.run_into({3: X}, FEEDS), ["output's name", "int"]),
        (lambda s: s.run_into([X], 3), ["inputs", "int"]),
        (lambda s: s.run_into([X], {3: X}), ["input's name", "int"]),
        (lambda s: s.run_into([X.clone()], FEEDS, 3), ["run_options", "int"]),
        (lambda s: s([X, X]), ["'left'", "list"]),
        (lambda s: s(X, None), ["'right'", "NoneType"]),
        (lambda s: s.run_async(X, 3), ["'right'", "int"]),
        (lambda s: s.run_async(X, X, run_options=3), ["run_options", "int"]),
        (lambda s: s.run_with_iobinding(3), ["iobinding", "int"]),
        (lambda s: s.run_with_iobinding(s.io_binding(), 3), ["run_options", "int"]),
        (lambda s: s.io_binding().bind_input(3, X), ["input's name", "int"]),
        (lambda s: s.io_binding().bind_output(None, X), ["output's name", "NoneType"]),
        (lambda s: s.io_binding().bind_cpu_input("left", X), ["numpy.ndarray", "Tensor"]),
    ],
)
def test_arguments_of_methods(call: Callable[[InferenceSession], object], words: list[str]) -> None:
    session = InferenceSession(MODEL)
    with refused(TypeError, *words):
        call(session)
    assert torch.equal(session(X, X)[0], torch.zeros(2, 3))
