"""Find speech in a stream, frame after frame, with the model's state staying in tensors.

The model is the one inside the PyPI package `silero-vad`: it takes 32 ms of sound and the state
that it gave back for the frame before. Here the state is the very tensor that the last call
returned. The sound is made by this file. Stock onnxruntime, fed through NumPy as silero-vad's own
wrapper does it, hears the same: its probabilities have to be equal to the bit.

    python examples/streaming_vad.py [--rounds N]

Exit code 0: equal on every frame; 1: a difference; 2: could not start.
"""

from __future__ import annotations

import abc
import argparse
import importlib.util
import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import side_by_side
import torch

import ortdl_torch

RATE = 16_000
FRAME = 512
CONTEXT = 64
VOWELS = {  # formants in Hz
    "a": (730, 1090, 2440),
    "i": (270, 2290, 3010),
    "u": (300, 870, 2240),
    "e": (530, 1840, 2480),
    "o": (570, 840, 2410),
}


def find_model() -> Path:
    """The ONNX file in the installed package, whose own imports want more than is needed here."""
    spec = importlib.util.find_spec("silero_vad")
    for folder in (spec and spec.submodule_search_locations) or []:
        model = Path(folder) / "data" / "silero_vad.onnx"
        if model.is_file():
            return model
    print(
        "silero-vad's model was not found: `make demo` sets it up, or "
        "`pip install --no-deps silero-vad`",
        file=sys.stderr,
    )
    raise SystemExit(2)


def voice(seconds: float, pitch: float, generator: torch.Generator) -> torch.Tensor:
    """Something like a voice: harmonics under the formants of one vowel after the other.

    Args:
        seconds: how long.
        pitch: fundamental frequency in Hz; it wavers and falls.
        generator: where the chance in it comes from.

    Returns:
        float32 of shape (seconds * RATE,).
    """
    count = int(seconds * RATE)
    t = torch.arange(count) / RATE
    wander = torch.randn(count // 400 + 2, generator=generator).cumsum(0)
    drift = torch.nn.functional.interpolate(
        wander[None, None], size=count, mode="linear", align_corners=True
    )[0, 0]
    f0 = pitch * (1 + 0.06 * torch.sin(2 * math.pi * 1.3 * t) - 0.05 * t) + 1.5 * drift
    phase = 2 * math.pi * f0.cumsum(0) / RATE
    # Which vowel sounds when: four syllables a second, each gliding into the next.
    syllable = t * 4
    order = torch.randint(len(VOWELS), (int(seconds * 4) + 2,), generator=generator)
    targets = torch.tensor(list(VOWELS.values()), dtype=torch.float32)[order]
    at = syllable.long()
    glide = ((syllable - at) * 3 - 2).clamp(0, 1)[:, None]
    formants = targets[at] * (1 - glide) + targets[at + 1] * glide
    sound = torch.zeros(count)
    for harmonic in range(1, 36):
        frequency = harmonic * f0
        gain = torch.zeros(count)
        for number, width in enumerate((90.0, 120.0, 170.0)):
            away = (frequency - formants[:, number]) / width
            gain += 0.7**number / (1 + away * away)
        sound += gain * torch.sin(harmonic * phase) * (frequency < RATE / 2) / harmonic**0.5
    breath = 0.02 * torch.randn(count, generator=generator)
    loudness = (0.12 + torch.sin(math.pi * (syllable - at)) ** 0.7) * 0.2
    return (sound + breath) * loudness


def programme() -> tuple[torch.Tensor, list[tuple[str, float]]]:
    """The sound to listen to, the same on every call.

    Returns:
        float32 of shape (samples,), and the parts it consists of: name and seconds.
    """
    chance = torch.Generator().manual_seed(7)
    t = torch.arange(int(1.5 * RATE)) / RATE
    parts = [
        ("silence", 1e-4 * torch.randn(RATE, generator=chance)),
        ("low voice", voice(2.5, 115.0, chance)),
        ("noise", 0.05 * torch.randn(int(1.5 * RATE), generator=chance)),
        ("high voice", voice(2.5, 210.0, chance)),
        ("chirp", 0.2 * torch.sin(2 * math.pi * (200 + 900 * t) * t)),
        ("silence", 1e-4 * torch.randn(RATE, generator=chance)),
    ]
    return torch.cat([x for _, x in parts]), [(name, len(x) / RATE) for name, x in parts]


class Stream(abc.ABC):
    """Sound arriving frame after frame; a subclass says how the model is called."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget what was heard."""
        self.state = torch.zeros(2, 1, 128)
        self.context = torch.zeros(1, CONTEXT)
        self.heard: list[torch.Tensor] = []

    def __call__(self, frame: torch.Tensor) -> None:
        """Hear one frame, float32 of shape (1, FRAME)."""
        sound = torch.cat([self.context, frame], dim=1)
        probability, self.state = self.run(sound)
        self.context = sound[:, -CONTEXT:]
        self.heard.append(probability)

    @abc.abstractmethod
    def run(self, sound: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Call the model.

        Args:
            sound: float32 of shape (1, CONTEXT + FRAME).

        Returns:
            The probability of speech, shape (1, 1), and the next state, shape (2, 1, 128).
        """


class TensorStream(Stream):
    """The model through ortdl_torch: everything is a tensor and stays one."""

    def __init__(self, model: Path, options: onnxruntime.SessionOptions) -> None:
        super().__init__()
        self.session = ortdl_torch.InferenceSession(str(model), options)
        self.rate = torch.tensor(RATE)

    def run(self, sound: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Call the model."""
        return self.session(input=sound, state=self.state, sr=self.rate)


class NumpyStream(Stream):
    """The model through stock onnxruntime, as silero-vad's own wrapper calls it."""

    def __init__(self, model: Path, options: onnxruntime.SessionOptions) -> None:
        super().__init__()
        self.session = onnxruntime.InferenceSession(
            str(model), options, providers=["CPUExecutionProvider"]
        )

    def run(self, sound: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Call the model."""
        feeds = {
            "input": sound.numpy(),
            "state": self.state.numpy(),
            "sr": np.array(RATE, dtype="int64"),
        }
        probability, state = self.session.run(None, feeds)
        return torch.from_numpy(probability), torch.from_numpy(state)


def bits(tensors: list[torch.Tensor]) -> torch.Tensor:
    """The bit patterns of probabilities, int32 of shape (frames,)."""
    return torch.cat([x.reshape(1) for x in tensors]).view(torch.int32)


def print_timeline(heard: list[torch.Tensor], parts: list[tuple[str, float]]) -> None:
    """Print what was played and how sure the model was of hearing speech, by quarter seconds."""
    probabilities = torch.cat([x.reshape(1) for x in heard])
    start = 0.0
    print("  played       from    to  speech probability in quarter seconds, 0 to 9")
    for name, seconds in parts:
        digits = ""
        for quarter in range(int(seconds * 4)):
            first = int((start + quarter / 4) * RATE / FRAME)
            last = max(first + 1, int((start + quarter / 4 + 0.25) * RATE / FRAME))
            mean = float(probabilities[first:last].mean())
            digits += str(min(int(mean * 10), 9))
        print(f"  {name:<11} {start:5.1f} {start + seconds:5.1f}  {digits}")
        start += seconds


def main() -> int:
    """Run the example; the exit code."""
    parser = argparse.ArgumentParser(description="Speech in a stream, state in tensors.")
    parser.add_argument("--rounds", type=int, default=10, help="how often to play it, at least 1")
    rounds = max(1, parser.parse_args().rounds)

    model = find_model()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    tensors, stock = TensorStream(model, options), NumpyStream(model, options)
    for wanted in tensors.session.get_inputs():
        print(f"Model input {wanted.name}: {wanted.type} {wanted.shape}")

    sound, parts = programme()
    whole = len(sound) // FRAME
    frames = sound[: whole * FRAME].view(whole, 1, FRAME).unbind()
    print(f"{len(frames)} frames of {1000 * FRAME // RATE} ms", flush=True)

    routes: dict[str, Callable[[torch.Tensor], None]] = {
        "ortdl_torch, state in tensors": tensors,
        "onnxruntime run, through numpy": stock,
    }
    done = []
    equal = len(frames)
    same_state = True
    for number in range(rounds):
        tensors.reset()
        stock.reset()
        done.append(side_by_side.one_round(routes, frames))
        equal = min(equal, int((bits(tensors.heard) == bits(stock.heard)).sum()))
        same_state &= torch.equal(tensors.state.view(torch.int32), stock.state.view(torch.int32))
        print(f"  round {number + 1} of {rounds}", file=sys.stderr, flush=True)

    print_timeline(tensors.heard, parts)
    print(f"Equal to the bit: {equal} of {len(frames)} frames in every one of {rounds} rounds")
    print(f"Last state equal to the bit: {'yes' if same_state else 'NO'}")
    print("Time per frame, one thread, joining the context included:")
    print(side_by_side.table(done, "frame"))
    return 0 if equal == len(frames) and same_state else 1


if __name__ == "__main__":
    sys.exit(main())
