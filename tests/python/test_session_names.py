"""Models whose names are no UTF-8: what Python gets are keys, and errors can be printed."""

import pickle
from collections.abc import Callable

import onnx.parser
import pytest
import torch
from support import refused

from ortdl_torch import InferenceSession, OnnxModule, to_ortvalue

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
