#!/usr/bin/env python3
"""Writes inputs for each fuzz target to begin with.

tests/fuzz/seeds.py FOLDER    a folder for each target there
"""

import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import dlpack_seeds
from dlpack_seeds import number
from onnx import TensorProto, helper

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

import models

ELEMENT_TYPES = 23
RARE = 240


def packed_seeds() -> Iterator[bytes]:
    shapes = ((), (6,), (3, 4), (5,), (0, 3), (2, 2, 3), (-1,), (1 << 40, 1 << 40), (0, 1 << 62))
    for kind in range(ELEMENT_TYPES):
        for shape in shapes:
            for size in (0, 1, 2, 3, 6):
                dims = b"".join(map(number, shape))
                yield bytes([4 * kind, 0]) + number(size) + bytes([1, 0, len(shape)]) + dims
    for oddity in range(128, 138):
        for size in (0, 3):
            yield bytes([4, oddity]) + number(size) + bytes([1, 2, 1]) + number(2 * size)
    yield bytes([4, 0]) + number(1) + bytes([1, 3, 250]) + number(1) * 70
    yield bytes([4, 0]) + number(3) + bytes([2, 3, 1]) + number(6)


def shadowed(sizes: list[int]) -> bytes:
    """y = x * w, and in a branch that is never taken another w, of these sizes."""
    weights = [
        helper.make_tensor("w", models.FLOAT, [2], [1.0, 2.0]),
        helper.make_tensor("flag", TensorProto.BOOL, [], [True]),
    ]
    inner = helper.make_tensor("w", models.FLOAT, sizes, [3.0] * math.prod(sizes))
    outputs = [models.info("y", [2])]
    taken = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["y"])], "a", [], outputs)
    other = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])], "b", [], outputs, [inner]
    )
    node = helper.make_node("If", ["flag"], ["y"], then_branch=taken, else_branch=other)
    return models.model([node], [models.info("x", [2])], outputs, weights)


def all_models() -> list[bytes]:
    """The models of the Python tests."""
    shapes: tuple[models.Shape, ...] = ((None,), None, (), (3,), ("n", 3), ("n", "n"))
    kinds = ("sequence", "optional", "map", "string")
    return [
        *(models.unary("Relu", shape) for shape in shapes),
        *(models.unary("Cast", ("n",), to=kind) for kind in (1, 7, 9, 10, 16)),
        *(models.passthrough(kind) for kind in (1, 2, 7, 8, 9, 10, 16, 17, 22, 23)),
        models.subtract(),
        models.difference_and_total(),
        models.positive(),
        models.reshaped(("k",)),
        *map(models.weights_as_outputs, ("initializer", "constant")),
        models.without_inputs(),
        *map(models.with_other_output, kinds),
        models.counting_loop(),
        models.with_adapter_inputs(),
        models.scaled(),
        *(shadowed(sizes) for sizes in ([2], [1])),
        *(models.external_weight("w.bin", where) for where in ("graph", "subgraph", "function")),
        *(models.external_weight(place) for place in ("out", "../w.bin", "/etc/passwd", "")),
    ]


def model_seeds() -> Iterator[bytes]:
    for index, model in enumerate(all_models()):
        yield bytes([index]) + model
        yield bytes([60 + index % 4]) + model
        yield bytes([0]) + model[:-1]
    # An initializer's name that ends a byte after the model.
    yield b"\x00\x3a\x06\x2a\x04\x42\x02w"


def state_seeds() -> Iterator[bytes]:
    # The choice of model and of its way into the state, and then what is seldom otherwise.
    for checked in range(2):
        for choice in range(12):
            yield bytes([checked, choice])
            for place in range(40):
                yield bytes([checked, choice]) + bytes(place) + bytes([RARE]) + bytes(range(9))
    for tensor in range(160, 172):
        for choice in (0, 4, 8):
            yield bytes([1, choice, 0, 0, tensor])


TARGETS: dict[str, Callable[[], Iterator[bytes] | list[bytes]]] = {
    "dlpack_import": dlpack_seeds.all_seeds,
    "from_packed": packed_seeds,
    "model": model_seeds,
    "session": model_seeds,
    "session_state": state_seeds,
}


def write(folder: Path, target: str) -> None:
    """Fills `folder` with a target's seeds; what the fuzzer found there before stays."""
    folder.mkdir(parents=True, exist_ok=True)
    for index, content in enumerate(TARGETS[target]()):
        (folder / f"seed-{index:04}").write_bytes(content)


if __name__ == "__main__":
    for name in TARGETS:
        write(Path(sys.argv[1]) / name, name)
