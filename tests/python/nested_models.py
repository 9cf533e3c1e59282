"""Models with strings, sequences, maps and optional values, and the stock route for them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
import torch
from models import FLOAT, Shape, info, model
from onnx import TensorProto, TypeProto, helper

STRING = TensorProto.STRING


def tensor_type(element: int = FLOAT, shape: Shape = None) -> TypeProto:
    """The type of a tensor."""
    return helper.make_tensor_type_proto(element, shape)


def sequence_type(element: int = FLOAT) -> TypeProto:
    """The type of a sequence of tensors."""
    return helper.make_sequence_type_proto(tensor_type(element))


def optional_type(inner: TypeProto) -> TypeProto:
    """The type of an optional value."""
    return helper.make_optional_type_proto(inner)


def map_type(key: int, value: int = FLOAT) -> TypeProto:
    """The type of a map."""
    made = TypeProto()
    made.map_type.key_type = key
    made.map_type.value_type.CopyFrom(tensor_type(value, None))
    return made


def one_node(
    op: str,
    inputs: dict[str, TypeProto],
    outputs: dict[str, TypeProto],
    domain: str = "",
    **attributes: Any,
) -> bytes:
    """A model of one operator."""
    node = helper.make_node(op, list(inputs), list(outputs), domain=domain, **attributes)
    return model(
        [node],
        [helper.make_value_info(name, kind) for name, kind in inputs.items()],
        [helper.make_value_info(name, kind) for name, kind in outputs.items()],
    )


def identity(kind: TypeProto) -> bytes:
    """y = x, through a node."""
    return one_node("Identity", {"x": kind}, {"y": kind})


def strings(shape: Shape = None) -> bytes:
    """y = x, of strings."""
    return identity(tensor_type(STRING, shape))


def zip_map(labels: Sequence[int] | Sequence[str] | Sequence[bytes]) -> bytes:
    """scores = the rows of x as maps from the labels, and x itself doubled."""
    attribute = "classlabels_int64s" if isinstance(labels[0], int) else "classlabels_strings"
    key = TensorProto.INT64 if isinstance(labels[0], int) else STRING
    scores = TypeProto()
    scores.sequence_type.elem_type.CopyFrom(map_type(key))
    node = helper.make_node("ZipMap", ["x"], ["scores"], domain="ai.onnx.ml", **{attribute: labels})
    return model(
        [helper.make_node("Add", ["x", "x"], ["twice"]), node],
        [info("x", [None, len(labels)])],
        [info("twice", [None, len(labels)]), helper.make_value_info("scores", scores)],
    )


def to_stock(value: Any) -> Any:
    """An input as onnxruntime's own session takes it."""
    if isinstance(value, torch.Tensor):
        return value.numpy()
    if isinstance(value, (list, tuple)):
        return [to_stock(item) for item in value]
    return value


def from_stock(value: Any) -> Any:
    """An output of onnxruntime's own session as ours gives it."""
    if isinstance(value, np.ndarray):
        return value.tolist() if value.dtype == object else torch.from_numpy(value)
    if isinstance(value, list):
        return [from_stock(item) for item in value]
    return value


def stock(source: bytes, *values: Any) -> list[Any]:
    """The outputs of onnxruntime's own session, as ours gives them."""
    session = onnxruntime.InferenceSession(source)
    names = [node.name for node in session.get_inputs()]
    feeds = {name: to_stock(value) for name, value in zip(names, values, strict=True)}
    return [from_stock(value) for value in session.run(None, feeds)]


def same(got: Any, wanted: Any) -> bool:
    """Whether two outputs are of one type, with tensors that are bit-equal."""
    if type(got) is not type(wanted):
        return False
    if isinstance(got, torch.Tensor):
        return got.dtype is wanted.dtype and torch.equal(got, wanted)
    if isinstance(got, list):
        return len(got) == len(wanted) and all(map(same, got, wanted))
    if isinstance(got, dict):
        return list(got) == list(wanted) and all(map(same, got.values(), wanted.values()))
    return bool(got == wanted)
