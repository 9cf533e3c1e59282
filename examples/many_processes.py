"""Find speech in many recordings with Ray Data: one class, a pool of processes.

The recordings are made by `voices.py`, and the listener is the one of `streaming_vad.py`. It is
pickled with its model inside, so that a worker needs no file. `Ears` first goes through all
recordings here, one after the other; then two workers, each with an `Ears` of its own, share
them. Both have to hear the same.

    python examples/many_processes.py

It prints:

    12 recordings, 2 workers, batches of 3
      voice, 100 Hz  speech in  71 % of the frames
      voice, 120 Hz  speech in 100 % of the frames
      voice, 140 Hz  speech in  60 % of the frames
      voice, 160 Hz  speech in  40 % of the frames
      voice, 180 Hz  speech in  73 % of the frames
      voice, 200 Hz  speech in  71 % of the frames
      voice, 220 Hz  speech in  56 % of the frames
      noise, 0.01    speech in   0 % of the frames
      noise, 0.05    speech in   0 % of the frames
      noise, 0.2     speech in   0 % of the frames
      chirp, 200 Hz  speech in   0 % of the frames
      chirp, 400 Hz  speech in   0 % of the frames
    Equal to the serial run, to the bit: 12 of 12 recordings

This goes past one machine without a change: start Ray on each (`ray start --head` on one of them,
`ray start --address=...` on the others) with the same packages, name the cluster in `ray.init`
instead of asking for one of two CPUs, and send the folder of the examples along:
`ray.init("auto", runtime_env={"working_dir": "examples"})`.

Exit code 0: all as it has to be; 1: a difference; 2: could not start.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

import numpy as np
import streaming_vad
import torch
import voices

# Asks Ray to send no statistics; read when it is imported.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

try:
    import ray
except ImportError:
    sys.exit("Ray is not installed: `make demo` sets it up, or `pip install ray pyarrow pandas`")

WORKERS = 2
BATCH = 3


def recordings() -> list[dict[str, Any]]:
    """What to listen to: the number, what it is, and the sound, float32 of shape (samples,)."""
    sounds = {}
    for pitch in range(100, 240, 20):
        chance = torch.Generator().manual_seed(1000 + pitch)
        sounds[f"voice, {pitch} Hz"] = voices.voice(2, pitch, chance)
    for loudness in (0.01, 0.05, 0.2):
        chance = torch.Generator().manual_seed(1)
        sounds[f"noise, {loudness}"] = voices.noise(2, loudness, chance)
    for lowest in (200, 400):
        sounds[f"chirp, {lowest} Hz"] = voices.chirp(2, lowest)
    return [
        {"number": number, "what": what, "sound": sound.numpy()}
        for number, (what, sound) in enumerate(sounds.items())
    ]


class Ears:
    """Hears recordings, a batch at a time.

    Args:
        listener: what hears a frame.
    """

    def __init__(self, listener: streaming_vad.Listener) -> None:
        self.stream = streaming_vad.Stream(listener)

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Hear a batch.

        Args:
            batch: columns of numbers and sounds.

        Returns:
            Columns of the numbers and of the probability of speech in each frame.
        """
        heard = []
        # Ray's arrays are read-only, of which PyTorch warns: each sound is copied.
        for sound in batch["sound"]:
            self.stream.reset()
            for frame in streaming_vad.frames_of(torch.tensor(sound)):
                self.stream(frame)
            heard.append(self.stream.probabilities().numpy())
        return {"number": batch["number"], "heard": np.stack(heard)}


def in_this_process(listener: streaming_vad.Listener, items: list[dict[str, Any]]) -> list[Any]:
    """The probabilities of each recording, heard one after the other."""
    ears = Ears(listener)
    batch = {name: np.stack([item[name] for item in items]) for name in ("number", "sound")}
    return list(ears(batch)["heard"])


def in_a_pool(listener: streaming_vad.Listener, items: list[dict[str, Any]]) -> list[Any]:
    """The same by a pool of workers, which may finish in any order."""
    rows = (
        ray.data.from_items(items)
        .map_batches(
            Ears,
            fn_constructor_args=(listener,),
            batch_size=BATCH,
            compute=ray.data.ActorPoolStrategy(size=WORKERS),
        )
        .take_all()
    )
    return [row["heard"] for row in sorted(rows, key=lambda row: row["number"])]


def start_ray() -> None:
    """Start a small Ray on this machine that says nothing but errors."""
    ray.init(
        num_cpus=WORKERS,
        object_store_memory=80 * 2**20,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )
    ray.data.DataContext.get_current().enable_progress_bars = False


def main() -> int:
    """Run the example; the exit code."""
    items = recordings()
    listener = streaming_vad.Listener(streaming_vad.model_bytes())
    serial = in_this_process(listener, items)
    start_ray()
    try:
        pooled = in_a_pool(listener, items)
    finally:
        ray.shutdown()

    print(f"{len(items)} recordings, {WORKERS} workers, batches of {BATCH}")
    for item, heard in zip(items, pooled, strict=True):
        print(f"  {item['what']:<14} speech in {100 * (heard > 0.5).mean():3.0f} % of the frames")
    equal = sum(a.tobytes() == b.tobytes() for a, b in zip(serial, pooled, strict=True))
    print(f"Equal to the serial run, to the bit: {equal} of {len(items)} recordings")
    return 0 if equal == len(items) else 1


if __name__ == "__main__":
    sys.exit(main())
