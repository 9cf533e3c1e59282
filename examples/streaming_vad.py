"""Find speech in a stream with a compiled loop that carries the model's state.

The model is the one inside the PyPI package `silero-vad`: it takes 32 ms of sound and the state
that it gave back for the frame before. Model and PyTorch's own work are compiled as one graph, and
the state is the very tensor that the last call returned. The sound is made by `voices.py`. Stock
onnxruntime, fed through NumPy as silero-vad's own wrapper does it, has to hear the same.

    python examples/streaming_vad.py [--rounds N]

With 0 rounds, which leaves out the times, it prints:

    312 frames of 32 ms
      played       from    to  speech probability in quarter seconds, 0 to 9
      silence       0.0   1.0  0000
      low voice     1.0   3.5  9999999997
      noise         3.5   5.0  510000
      high voice    5.0   7.5  8888887766
      chirp         7.5   9.0  300000
      silence       9.0  10.0  0000
    Compiled graphs: 1, for 312 frames
    Equal to stock onnxruntime, to the bit: 312 of 312 frames
    Last state equal to the bit: yes

Exit code 0: all as it has to be; 1: a difference, or a second compilation; 2: could not start.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnxruntime
import packaged
import side_by_side
import torch
from torch._dynamo import lookup_backend
from voices import RATE, programme

import ortdl_torch

FRAME = 512
CONTEXT = 64


def model_bytes() -> bytes:
    """The model of the installed package."""
    return packaged.file_in("silero_vad", "data/silero_vad.onnx", pypi="silero-vad").read_bytes()


def one_thread() -> onnxruntime.SessionOptions:
    """The options for a model as small as this one."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    return options


class Listener(torch.nn.Module):
    """Hears one frame after the other; what it remembers is given to it and given back.

    Args:
        model: the ONNX file's bytes.
    """

    def __init__(self, model: bytes) -> None:
        super().__init__()
        self.model = ortdl_torch.OnnxModule(model, one_thread())
        self.register_buffer("rate", torch.tensor(RATE))

    def forward(
        self, frame: torch.Tensor, context: torch.Tensor, state: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Hear one frame.

        Args:
            frame: float32 of shape (FRAME,).
            context: the end of the frame before, shape (CONTEXT,).
            state: the model's memory, shape (2, 1, 128).

        Returns:
            The probability of speech, shape (1, 1), and the next context and state.
        """
        sound = torch.cat([context, frame])
        probability, state = self.model(sound[None], state, self.rate)
        return probability, frame[-CONTEXT:], state


class StockListener:
    """The same through stock onnxruntime, as silero-vad's own wrapper calls it."""

    def __init__(self, model: bytes) -> None:
        self.session = onnxruntime.InferenceSession(
            model, one_thread(), providers=["CPUExecutionProvider"]
        )

    def __call__(
        self, frame: torch.Tensor, context: torch.Tensor, state: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Hear one frame."""
        feeds = {
            "input": torch.cat([context, frame])[None].numpy(),
            "state": state.numpy(),
            "sr": np.array(RATE, dtype="int64"),
        }
        probability, after = self.session.run(None, feeds)
        return torch.from_numpy(probability), frame[-CONTEXT:], torch.from_numpy(after)


class Stream:
    """Sound that arrives frame after frame.

    Args:
        listener: a `Listener`, compiled or not, or a `StockListener`.
    """

    def __init__(self, listener: Callable[..., tuple[torch.Tensor, ...]]) -> None:
        self.listener = listener
        self.reset()

    def reset(self) -> None:
        """Forget what was heard."""
        self.state = torch.zeros(2, 1, 128)
        self.context = torch.zeros(CONTEXT)
        self.heard: list[torch.Tensor] = []

    def __call__(self, frame: torch.Tensor) -> None:
        """Hear one frame, float32 of shape (FRAME,)."""
        probability, self.context, self.state = self.listener(frame, self.context, self.state)
        self.heard.append(probability)

    def probabilities(self) -> torch.Tensor:
        """What was heard, float32 of shape (frames,)."""
        return torch.cat(self.heard).flatten()


def frames_of(sound: torch.Tensor) -> Sequence[torch.Tensor]:
    """Cut sound into whole frames, each of shape (FRAME,)."""
    return sound[: len(sound) // FRAME * FRAME].view(-1, FRAME).unbind()


class CountingCompiler:
    """PyTorch's own compiler, and how many graphs it was given."""

    def __init__(self) -> None:
        self.graphs = 0
        self.compile = lookup_backend("inductor")

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        """Compile one graph."""
        self.graphs += 1
        return self.compile(graph, inputs)


def print_timeline(probabilities: torch.Tensor, parts: list[tuple[str, float]]) -> None:
    """Print what was played and how sure the model was of hearing speech, by quarter seconds."""
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


def same_bits(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Where two float32 tensors have the same bits."""
    return one.view(torch.int32) == other.view(torch.int32)


def main() -> int:
    """Run the example; the exit code."""
    parser = argparse.ArgumentParser(description="Speech in a stream, with a compiled loop.")
    parser.add_argument("--rounds", type=int, default=10, help="rounds of timing, 0 for none")
    rounds = parser.parse_args().rounds

    model = model_bytes()
    compiler = CountingCompiler()
    # Only running tells the sizes of this model's outputs: it declares none.
    torch._dynamo.config.capture_dynamic_output_shape_ops = True
    compiled = Stream(torch.compile(Listener(model), fullgraph=True, backend=compiler))
    stock = Stream(StockListener(model))

    sound, parts = programme()
    frames = frames_of(sound)
    for frame in frames:
        compiled(frame)
        stock(frame)

    print(f"{len(frames)} frames of {1000 * FRAME // RATE} ms")
    print_timeline(compiled.probabilities(), parts)
    equal = int(same_bits(compiled.probabilities(), stock.probabilities()).sum())
    same_state = bool(same_bits(compiled.state, stock.state).all())
    print(f"Compiled graphs: {compiler.graphs}, for {len(frames)} frames")
    print(f"Equal to stock onnxruntime, to the bit: {equal} of {len(frames)} frames")
    print(f"Last state equal to the bit: {'yes' if same_state else 'NO'}")

    if rounds > 0:
        routes = {"compiled, state in tensors": compiled, "onnxruntime run, through numpy": stock}
        done = [side_by_side.one_round(routes, frames) for _ in range(rounds)]
        print("Time per frame, one thread, joining the context included:")
        print(side_by_side.table(done, "frame"))
    return 0 if equal == len(frames) and same_state and compiler.graphs == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
