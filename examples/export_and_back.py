"""Export a part of a PyTorch model to ONNX, and put the ONNX model in that part's place.

A small classifier learns to tell two spirals apart. Its body is exported with `torch.onnx.export`
and comes back into the same program as an `OnnxModule`; the head stays PyTorch. The program gives
the answers that it gave before, and the body those of stock onnxruntime.

    python examples/export_and_back.py

It prints:

    Learned: 200 of 200 points
    Same answer with the ONNX body: 200 of 200 points
    Scores within 1e-05: yes
    ONNX body equal to stock onnxruntime, to the bit: yes

Exit code 0: all as it has to be; 1: a difference.
"""

from __future__ import annotations

import math
import sys
import tempfile
import warnings

import onnxruntime
import torch

import ortdl_torch

# PyTorch and ONNX Runtime add up in another order, so that the last digits of float32 may differ.
TOLERANCE = 1e-5


def spirals(points: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two spirals, one inside the other.

    Returns:
        Points, float32 of shape (2 * points, 2), and which spiral they are on, int64.
    """
    turn = torch.linspace(1.0, 3.0, points) * math.pi
    arm = torch.stack([turn * turn.cos(), turn * turn.sin()], dim=1) / 10
    return torch.cat([arm, -arm]), torch.arange(2).repeat_interleave(points)


class Classifier(torch.nn.Module):
    """Tells which spiral a point is on."""

    def __init__(self) -> None:
        super().__init__()
        self.body: torch.nn.Module = torch.nn.Sequential(
            torch.nn.Linear(2, 64), torch.nn.SiLU(), torch.nn.Linear(64, 32), torch.nn.SiLU()
        )
        self.head = torch.nn.Linear(32, 2)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        """The scores of both spirals, float32 of shape (points, 2)."""
        scores: torch.Tensor = self.head(self.body(points))
        return scores


def learn(classifier: Classifier, points: torch.Tensor, spiral: torch.Tensor) -> None:
    """Train a classifier on all points at once."""
    optimizer = torch.optim.Adam(classifier.parameters(), lr=0.02)
    for _ in range(200):
        optimizer.zero_grad()
        torch.autograd.backward(torch.nn.functional.cross_entropy(classifier(points), spiral))
        optimizer.step()


def exported(module: torch.nn.Module, example: torch.Tensor) -> bytes:
    """The ONNX model of a module with one input, for any number of rows."""
    # PyTorch has two exporters. The newer one, dynamo=True, needs the package onnxscript.
    with (
        tempfile.NamedTemporaryFile(suffix=".onnx") as file,
        warnings.catch_warnings(action="ignore", category=DeprecationWarning),
    ):
        torch.onnx.export(
            module,
            (example,),
            file.name,
            dynamo=False,
            input_names=["points"],
            output_names=["features"],
            dynamic_axes={"points": {0: "rows"}, "features": {0: "rows"}},
        )
        return file.read()


def main() -> int:
    """Run the example; the exit code."""
    torch.manual_seed(0)
    classifier = Classifier()
    points, spiral = spirals(100)
    learn(classifier, points, spiral)
    classifier.eval()

    # ONNX Runtime computes no gradients: the program is used from here on, not trained.
    with torch.inference_mode():
        before = classifier(points)

    model = exported(classifier.body, points)
    classifier.body = ortdl_torch.OnnxModule(model)
    with torch.inference_mode():
        after = classifier(points)
        body = classifier.body(points)

    stock = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    body_of_stock = torch.from_numpy(stock.run(None, {"points": points.numpy()})[0])

    right = int((before.argmax(1) == spiral).sum())
    same = int((before.argmax(1) == after.argmax(1)).sum())
    close = torch.allclose(before, after, rtol=TOLERANCE, atol=TOLERANCE)
    equal = torch.equal(body, body_of_stock)
    print(f"Learned: {right} of {len(points)} points")
    print(f"Same answer with the ONNX body: {same} of {len(points)} points")
    print(f"Scores within {TOLERANCE}: {'yes' if close else 'NO'}")
    print(f"ONNX body equal to stock onnxruntime, to the bit: {'yes' if equal else 'NO'}")
    return 0 if close and equal and same == len(points) else 1


if __name__ == "__main__":
    sys.exit(main())
