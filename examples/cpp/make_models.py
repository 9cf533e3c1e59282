"""Make the files that the C++ programs beside this one run, and print what they have to print.

    python examples/cpp/make_models.py FOLDER

`classifier.onnx` is an ONNX model, `classifier.pt` a PyTorch module round it as TorchScript, and
`classifier.pt2` the same module compiled by AOTInductor. The last two contain the model.
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path

import onnx
import onnx.parser
import torch

import ortdl_torch

MODEL = """
<ir_version: 10, opset_import: ["" : 21]>
classify (float[n, 3] features) => (float[n, 4] probabilities)
<float[3, 4] weight = {0.3, -1.1, 0.7, 0.2, 1.9, 0.4, -0.6, 0.1, -0.8, 0.5, 1.3, -0.2}>
{
  scores = MatMul(features, weight) probabilities = Softmax(scores)
}
"""


class Classifier(torch.nn.Module):
    """PyTorch before and after an ONNX model."""

    def __init__(self, model: Path) -> None:
        super().__init__()
        self.mean = torch.nn.Buffer(torch.tensor([0.1, 0.2, 0.3]))
        self.scale = torch.nn.Buffer(torch.tensor([1.7, 0.9, 2.3]))
        self.model = ortdl_torch.OnnxModule(str(model))

    def forward(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return each row's highest probability and its class."""
        probabilities = self.model((features - self.mean) * self.scale)
        return probabilities.amax(dim=1), probabilities.argmax(dim=1)


def show(name: str, tensor: torch.Tensor) -> None:
    """Print a tensor as the programs do."""
    print(name, list(tensor.shape), *(f"{x:.9g}" for x in tensor.flatten().tolist()))


def main(folder: Path) -> None:
    """Make the files in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(onnx.parser.parse_model(MODEL), folder / "classifier.onnx")

    classifier = Classifier(folder / "classifier.onnx").eval()
    # Scripting puts what it made into the module that it is given.
    torch.jit.save(torch.jit.script(copy.deepcopy(classifier)), folder / "classifier.pt")

    features = torch.arange(6.0).reshape(2, 3) / 7
    rows = {"features": {0: torch.export.Dim("rows")}}
    program = torch.export.export(classifier, (features,), dynamic_shapes=rows)
    torch._inductor.aoti_compile_and_package(program, package_path=str(folder / "classifier.pt2"))

    show("probabilities", classifier.model(features))
    for _ in ("classifier.pt", "classifier.pt2"):
        probability, label = classifier(features)
        show("probability", probability)
        show("class", label)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
