"""The ONNX models that the benchmark runs."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, parser

sys.path.append(str(Path(__file__).resolve().parent.parent / "examples"))
import packaged

HEADER = '<ir_version: 10, opset_import: ["": 21]>'
TEN = [f"x{i}" for i in range(10)]


def add() -> bytes:
    """y = a + b, one element each."""
    return parse("add (float[1] a, float[1] b) => (float[1] y) { y = Add(a, b) }")


def ten_inputs() -> bytes:
    """y = x0 + ... + x9, one element each."""
    inputs = ", ".join(f"float[1] {name}" for name in TEN)
    return parse(f"ten ({inputs}) => (float[1] y) {{ y = Sum({', '.join(TEN)}) }}")


def mlp() -> bytes:
    """y = relu(x w + b) v + c, from 64 features over 64 to 8."""
    random = np.random.default_rng(0)
    shapes = {"w": (64, 64), "b": (64,), "v": (64, 8), "c": (8,)}
    weights = {
        name: 0.1 * random.standard_normal(shape, np.float32) for name, shape in shapes.items()
    }
    return parse(
        "mlp (float[1, 64] x) => (float[1, 8] y)"
        "{ h = Gemm(x, w, b)  r = Relu(h)  y = Gemm(r, v, c) }",
        weights,
    )


def identity(elements: int) -> bytes:
    """y = x, which ONNX Runtime copies."""
    return parse(f"same (float[{elements}] x) => (float[{elements}] y) {{ y = Identity(x) }}")


def matmul(size: int) -> bytes:
    """y = x w, both square."""
    weights = np.random.default_rng(0).standard_normal((size, size), np.float32)
    shape = f"float[{size}, {size}]"
    return parse(f"matmul ({shape} x) => ({shape} y) {{ y = MatMul(x, w) }}", {"w": weights})


def many_outputs(count: int) -> bytes:
    """y0, y1, ... are the elements of x."""
    names = [f"y{i}" for i in range(count)]
    outputs = ", ".join(f"float[1] {name}" for name in names)
    split = f"Split<axis = 0, num_outputs = {count}>(x)"
    return parse(f"split (float[{count}] x) => ({outputs}) {{ {', '.join(names)} = {split} }}")


def silero_vad() -> bytes:
    """The model of the package silero-vad: speech in 32 ms of sound, with a state."""
    return packaged.file_in("silero_vad", "data/silero_vad.onnx", pypi="silero-vad").read_bytes()


def magika() -> bytes:
    """The model of the package magika: the type of a file by its two ends."""
    name = "models/standard_v3_3/model.onnx"
    return packaged.file_in("magika", name, pypi="magika").read_bytes()


def parse(graph: str, initializers: dict[str, np.ndarray] | None = None) -> bytes:
    """Serialise the model of a graph in ONNX's textual form.

    Args:
        graph: the graph.
        initializers: arrays by name, which the graph's nodes may use.
    """
    model: onnx.ModelProto = parser.parse_model(f"{HEADER} {graph}")
    for name, array in (initializers or {}).items():
        model.graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), name))
    serialised: bytes = model.SerializeToString()
    return serialised
