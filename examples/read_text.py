"""Read the words in a picture: one ONNX model finds the lines of text, another one reads them.

The models are those inside the PyPI package `rapidocr`. The picture is drawn here. What is before,
between and behind the models is PyTorch: the colours become numbers, the finder's map of
probabilities becomes boxes, the boxes' pixels become one batch, and the reader's probabilities
become letters. The same is done with stock onnxruntime through NumPy, which has to say the same.

    python examples/read_text.py [--save PICTURE.png]

It prints:

    5 lines of text in a picture of 640 x 320 pixels:
      Tensors in, words out
      No copy on the way: 640 x 320 pixels
      Room 42
      opens at 9:30
      Please mind the gap!
    As drawn: yes
    Finder equal to stock onnxruntime, to the bit: yes
    Reader equal to stock onnxruntime, to the bit: yes

Exit code 0: all as it has to be; 1: misread, or a difference; 2: could not start.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import onnxruntime
import packaged
import torch
import torch.nn.functional as F  # noqa: N812 - as PyTorch's own documents call it

import ortdl_torch

try:
    from PIL import Image, ImageDraw, ImageFont
except ImportError:
    sys.exit("Pillow is not installed: `make demo` sets it up, or `pip install pillow`")

# The finder wants sides that are multiples of 32.
WIDTH, HEIGHT = 640, 320
# What is drawn: text, left, top, size of the letters, colour.
DRAWN = (
    ("Tensors in, words out", 40, 24, 44, "navy"),
    ("No copy on the way: 640 x 320 pixels", 40, 104, 26, "black"),
    ("Room 42", 60, 176, 60, "darkred"),
    ("opens at 9:30", 380, 192, 34, "darkgreen"),
    ("Please mind the gap!", 200, 264, 30, "dimgray"),
)
# A pixel of the map is text above PIXEL, a region of such pixels above REGION on average. The map
# shows the core of a line, which GROWTH makes a line again. All three are rapidocr's settings.
PIXEL, REGION, GROWTH = 0.3, 0.5, 1.6
# The size of the reader's pictures: the height always, the width at least.
LINE_HEIGHT, LINE_WIDTH = 48, 320

Model = Callable[[torch.Tensor], torch.Tensor]


def draw() -> Image.Image:
    """The picture, with the font that comes with Pillow."""
    image = Image.new("RGB", (WIDTH, HEIGHT), "ivory")
    pen = ImageDraw.Draw(image)
    for text, left, top, size, colour in DRAWN:
        pen.text((left, top), text, fill=colour, font=ImageFont.load_default(size))
    return image


def pixels_of(image: Image.Image) -> torch.Tensor:
    """A picture as both models want it: blue, green, red, each from -1 to 1.

    Returns:
        float32 of shape (3, height, width).
    """
    rgb = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    bgr = rgb.view(image.height, image.width, 3).permute(2, 0, 1).flip(0)
    return bgr / 127.5 - 1


@dataclass(frozen=True)
class Box:
    """A part of a picture: rows top to bottom, columns left to right, the ends not included."""

    top: int
    bottom: int
    left: int
    right: int

    def grown(self, height: int, width: int) -> Box:
        """The box of a line whose core this is, in a picture of that size."""
        tall, wide = self.bottom - self.top, self.right - self.left
        margin = round(GROWTH * tall * wide / (2 * (tall + wide)))
        return Box(
            max(self.top - margin, 0),
            min(self.bottom + margin, height),
            max(self.left - margin, 0),
            min(self.right + margin, width),
        )


def connected(mask: torch.Tensor) -> torch.Tensor:
    """Number the connected regions of a mask.

    Args:
        mask: bool of shape (height, width).

    Returns:
        float32 of that shape: 0 outside, and one number throughout each region.
    """
    numbers = torch.arange(1.0, mask.numel() + 1).view_as(mask) * mask
    while True:
        # Each pixel takes the greatest number near it, until a region has only its greatest.
        spread = F.max_pool2d(numbers[None], 3, stride=1, padding=1)[0] * mask
        if torch.equal(spread, numbers):
            return numbers
        numbers = spread


def boxes_in(probability: torch.Tensor) -> list[Box]:
    """Where the lines of text are.

    Args:
        probability: for each pixel that it is text's, float32 of shape (height, width).

    Returns:
        The boxes of lines, from top to bottom.
    """
    mask = probability > PIXEL
    numbers = connected(mask)
    boxes = []
    for number in set(numbers[mask].tolist()):
        region = numbers == number
        if probability[region].mean() > REGION:
            rows, columns = region.nonzero().unbind(1)
            core = Box(
                int(rows.min()), int(rows.max()) + 1, int(columns.min()), int(columns.max()) + 1
            )
            boxes.append(core.grown(*mask.shape))
    return sorted(boxes, key=lambda box: box.top + box.bottom)


def lines_of(pixels: torch.Tensor, boxes: list[Box]) -> torch.Tensor:
    """Cut the lines out of a picture, bring them to one height and pad them to one width.

    Args:
        pixels: float32 of shape (3, height, width).
        boxes: the lines, at least one.

    Returns:
        float32 of shape (lines, 3, LINE_HEIGHT, width of the longest).
    """
    lines = []
    for box in boxes:
        cut = pixels[None, :, box.top : box.bottom, box.left : box.right]
        size = (LINE_HEIGHT, math.ceil(LINE_HEIGHT * cut.shape[3] / cut.shape[2]))
        lines.append(F.interpolate(cut, size, mode="bilinear", antialias=True)[0])
    width = max(LINE_WIDTH, *(line.shape[2] for line in lines))
    return torch.stack([F.pad(line, (0, width - line.shape[2])) for line in lines])


def spelled(probabilities: torch.Tensor, letters: list[str]) -> str:
    """The text of one line: at each step the likeliest letter, repetitions and blanks left out.

    Args:
        probabilities: float32 of shape (steps, letters).
        letters: what they stand for; the first is the blank, an empty string.
    """
    best = probabilities.argmax(1).tolist()
    return "".join(letters[letter] for letter, _ in itertools.groupby(best))


@dataclass
class Read:
    """What was seen on the way from a picture to its words."""

    map: torch.Tensor
    probabilities: torch.Tensor
    words: list[str]


def read(pixels: torch.Tensor, letters: list[str], find: Model, recognise: Model) -> Read:
    """Read all lines of a picture.

    Args:
        pixels: float32 of shape (3, height, width).
        letters: what `recognise` knows.
        find: from pictures to maps, (1, 3, height, width) to (1, 1, height, width).
        recognise: from lines to probabilities, float32 of shape (lines, steps, letters).
    """
    found = find(pixels[None])
    boxes = boxes_in(found[0, 0])
    if not boxes:
        return Read(found, torch.empty(0), [])
    probabilities = recognise(lines_of(pixels, boxes))
    return Read(found, probabilities, [spelled(line, letters) for line in probabilities])


def through_numpy(session: onnxruntime.InferenceSession) -> Model:
    """A stock session as a function of a tensor."""
    name = session.get_inputs()[0].name

    def model(tensor: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(session.run(None, {name: tensor.numpy()})[0])

    return model


def main() -> int:
    """Run the example; the exit code."""
    parser = argparse.ArgumentParser(description="Read the words in a picture.")
    parser.add_argument("--save", type=Path, help="where to save the picture")
    arguments = parser.parse_args()

    finder, reader = (
        str(packaged.file_in("rapidocr", f"models/PP-OCRv6_{name}_small.onnx", pypi="rapidocr"))
        for name in ("det", "rec")
    )
    # One thread, so that ONNX Runtime's and PyTorch's do not wait for each other's cores.
    torch.set_num_threads(1)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    stock = [
        onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        for model in (finder, reader)
    ]
    # The reader's file says what letters it knows. The blank is before them, the space behind.
    known = stock[1].get_modelmeta().custom_metadata_map["character"]
    letters = ["", *known.splitlines(), " "]

    image = draw()
    if arguments.save:
        image.save(arguments.save)
    pixels = pixels_of(image)
    modules = [ortdl_torch.OnnxModule(model, options) for model in (finder, reader)]
    ours = read(pixels, letters, *modules)
    theirs = read(pixels, letters, *map(through_numpy, stock))

    print(f"{len(ours.words)} lines of text in a picture of {WIDTH} x {HEIGHT} pixels:")
    for words in ours.words:
        print(f"  {words}")
    right = ours.words == [text for text, *_ in DRAWN]
    print(f"As drawn: {'yes' if right else 'NO'}")
    same_map = torch.equal(ours.map, theirs.map)
    same_letters = torch.equal(ours.probabilities, theirs.probabilities)
    print(f"Finder equal to stock onnxruntime, to the bit: {'yes' if same_map else 'NO'}")
    print(f"Reader equal to stock onnxruntime, to the bit: {'yes' if same_letters else 'NO'}")
    return 0 if right and same_map and same_letters else 1


if __name__ == "__main__":
    sys.exit(main())
