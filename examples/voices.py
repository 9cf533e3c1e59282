"""Sounds to look for speech in, made here: voices, noise and a whistle."""

from __future__ import annotations

import math

import torch

RATE = 16_000
VOWELS = {  # formants in Hz
    "a": (730, 1090, 2440),
    "i": (270, 2290, 3010),
    "u": (300, 870, 2240),
    "e": (530, 1840, 2480),
    "o": (570, 840, 2410),
}


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


def noise(seconds: float, loudness: float, generator: torch.Generator) -> torch.Tensor:
    """White noise, float32 of shape (seconds * RATE,)."""
    return loudness * torch.randn(int(seconds * RATE), generator=generator)


def chirp(seconds: float, lowest: float) -> torch.Tensor:
    """A whistle that rises from `lowest` Hz, float32 of shape (seconds * RATE,)."""
    t = torch.arange(int(seconds * RATE)) / RATE
    return 0.2 * torch.sin(2 * math.pi * (lowest + 900 * t) * t)


def programme() -> tuple[torch.Tensor, list[tuple[str, float]]]:
    """The sound to listen to, the same on every call.

    Returns:
        float32 of shape (samples,), and the parts it consists of: name and seconds.
    """
    chance = torch.Generator().manual_seed(7)
    parts = [
        ("silence", noise(1.0, 1e-4, chance)),
        ("low voice", voice(2.5, 115.0, chance)),
        ("noise", noise(1.5, 0.05, chance)),
        ("high voice", voice(2.5, 210.0, chance)),
        ("chirp", chirp(1.5, 200.0)),
        ("silence", noise(1.0, 1e-4, chance)),
    ]
    return torch.cat([x for _, x in parts]), [(name, len(x) / RATE) for name, x in parts]
