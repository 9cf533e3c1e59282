"""Names that are no UTF-8 in models, or given with NULs: keys, and errors that can be printed."""

import pickle
from collections.abc import Callable

import numpy as np
import onnx.parser
import pytest
import torch
from models import subtract
from support import refused

from ortdl_torch import InferenceSession, OnnxModule, OrtValue, to_ortvalue

CPU = "CPUExecutionProvider"
TEXT = """<ir_version: 10, opset_import: ["" : 21]>
g (float[nnnn, 3] xxxx) => (float[nnnn, 3] yyyy) { yyyy = Add(xxxx, xxxx) }"""
X_NAME, Y_NAME, SYMBOL = "x\udcffxx", "y\udcffyy", "n\udcffnn"
X = torch.ones(2, 3)


def made() -> InferenceSession:
    model: bytes = onnx.parser.parse_model(TEXT).SerializeToString()
    for letter in (b"x", b"y", b"n"):
        model = model.replace(letter * 4, letter + b"\xff" + letter * 2)
    return InferenceSession(model)


def test_names_are_given_as_file_names_are() -> None:
    session = made()
    for held in (session, pickle.loads(pickle.dumps(session))):
        (taken,), (given,) = held.get_inputs(), held.get_outputs()
        assert (taken.name, taken.shape) == (X_NAME, [SYMBOL, 3])
        assert (given.name, given.shape) == (Y_NAME, [SYMBOL, 3])


def test_names_are_keys() -> None:
    session = made()
    twice = [[2.0] * 3] * 2
    assert session(**{X_NAME: X})[0].tolist() == twice
    assert session.run([Y_NAME], {X_NAME: X})[0].tolist() == twice
    y = torch.zeros(2, 3)
    session.run_into({Y_NAME: y}, {X_NAME: X})
    assert y.tolist() == twice
    binding = session.io_binding()
    binding.bind_input(X_NAME, X)
    binding.bind_output(Y_NAME, y.zero_())
    session.run_with_iobinding(binding)
    assert y.tolist() == twice


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        (ValueError, lambda s: s()),
        (ValueError, lambda s: s(X, X)),
        (ValueError, lambda s: s(torch.ones(2))),
        (TypeError, lambda s: s(X.double())),
        (TypeError, lambda s: s(3)),
        (ValueError, lambda s: s.run(None, {"z": X})),
        (ValueError, lambda s: s.run(None, {"z\udcfe": X})),
        (BufferError, lambda s: s(X.clone().requires_grad_())),
    ],
)
def test_errors_escape_the_names(
    kind: type[Exception], call: Callable[[InferenceSession], object]
) -> None:
    session = made()
    with pytest.raises(kind, match=r"x\\xffxx") as caught:
        call(session)
    assert caught.type is kind
    assert str(caught.value).isascii()


def test_errors_about_outputs_escape_the_names() -> None:
    session = made()
    with refused(ValueError, r"y\xffyy"):
        session.run(["z"], {X_NAME: X})
    with refused(ValueError, r"y\xffyy"):
        session.run_into({"z": X.clone()}, [X])
    with refused(TypeError, r"y\xffyy"):
        session.run_into([to_ortvalue(X.double())], [X])


def test_a_module_needs_names_that_graphs_can_hold() -> None:
    session = made()
    with refused(ValueError, r"'x\udcffxx'", "InferenceSession"):
        OnnxModule(session)


def test_a_module_needs_such_names_of_dimensions_too() -> None:
    model = onnx.parser.parse_model(TEXT).SerializeToString().replace(b"nnnn", b"n\xffnn")
    with refused(ValueError, r"'n\udcffnn'", "InferenceSession"):
        OnnxModule(model)
    module = OnnxModule(onnx.parser.parse_model(TEXT).SerializeToString())
    with refused(ValueError, r"'n\udcffnn'"):
        module.session = InferenceSession(model)
    assert module(X).tolist() == InferenceSession(model)(X)[0].tolist() == [[2.0] * 3] * 2


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s(X, **{"x\0y": X}),
        lambda s: s.run(None, {"x\0y": X}),
        lambda s: s.run(["x\0y"], {"left": X, "right": X}),
        lambda s: s.run_into({"x\0y": X}, [X, X]),
        lambda s: s.run_into([X.clone()], {"x\0y": X}),
        lambda s: s.run_async(X, **{"x\0y": X}),
        lambda s: s.io_binding().bind_input("x\0y", X),
        lambda s: s.io_binding().bind_output("x\0y", X),
        lambda s: OnnxModule(s)(X, **{"x\0y": X}),
        lambda s: InferenceSession(s.model, initializers={"x\0y": X}),
        lambda s: InferenceSession(s.model, providers=["x\0y"]),
        lambda s: InferenceSession(s.model, providers=[(CPU, {"x\0y": "1"})]),
        lambda s: InferenceSession(s.model, providers=[(CPU, {"key": "x\0y"})]),
        lambda s: InferenceSession(s.model, providers=[CPU], provider_options=[{"x\0y": "1"}]),
        lambda _: OrtValue.ortvalue_from_numpy(np.ones(2), "x\0y"),
        lambda _: OrtValue.ortvalue_from_shape_and_type([2], np.float32, "x\0y"),
    ],
)
def test_a_name_with_a_nul_is_refused_and_shown_whole(
    call: Callable[[InferenceSession], object],
) -> None:
    session = InferenceSession(subtract(["n", 3]))
    session.model = subtract(["n", 3])
    with refused(ValueError, r"x\x00y"):
        call(session)


def test_a_device_that_no_text_has() -> None:
    with refused(ValueError, r"'cpu\ud800:0' is no device"):
        OrtValue.ortvalue_from_numpy(np.ones(2), "cpu\ud800")


def test_an_error_says_what_follows_a_nul() -> None:
    session = InferenceSession(subtract(["n", 3]))
    with pytest.raises(ValueError, match=r"^the model has no input named 'a\\x00b\\x00'\. .*left"):
        session(**{"a\0b\0": X})


@pytest.mark.parametrize(
    "providers", [["C\udcff"], [(CPU, {"C\udcff": "1"})], [(CPU, {"key": "C\udcff"})]]
)
def test_a_provider_that_no_text_has(providers: list) -> None:
    with refused(ValueError, r"'C\udcff'", "surrogates", "provider"):
        InferenceSession(subtract(), providers=providers)
