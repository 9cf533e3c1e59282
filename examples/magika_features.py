"""Magika's feature extraction and decision, in PyTorch.

What goes into the model: up to 4096 bytes from either end of the file, the outer whitespace
removed, 1024 bytes kept from each, short ones padded with a token that is no byte.
What comes out of it: a probability per label, which is believed only above that label's threshold.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

WHITESPACE = torch.zeros(256, dtype=torch.bool)
WHITESPACE[list(b" \t\n\r\x0b\x0c")] = True

NONE, LOW_CONFIDENCE, OVERWRITE_MAP = "none", "low_confidence", "overwrite_map"


@dataclass(frozen=True)
class Answer:
    """What is said about one file.

    Attributes:
        label: the final content type.
        model_label: what the model said; "undefined" if it was not asked.
        score: the model's probability; 1.0 if it was not asked.
        reason: why label and model_label differ: "none", "low_confidence", "overwrite_map".
    """

    label: str
    model_label: str
    score: float
    reason: str


def by_rule(label: str) -> Answer:
    """The answer about a file that the model is not asked about."""
    return Answer(label, "undefined", 1.0, NONE)


def text_or_unknown(content: bytes) -> Answer:
    """The rule for files with too few bytes for the model: valid UTF-8 is text."""
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return by_rule("unknown")
    return by_rule("txt")


class Features:
    """Turns files into the model's input.

    Args:
        config: magika's config.min.json, parsed.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        if config["mid_size"] or config["use_inputs_at_offsets"]:
            raise ValueError(
                "this example knows models that look at a file's two ends; this one also wants "
                f"mid_size={config['mid_size']}, "
                f"use_inputs_at_offsets={config['use_inputs_at_offsets']}"
            )
        self.beginning: int = config["beg_size"]
        self.end: int = config["end_size"]
        self.block: int = config["block_size"]
        self.padding: int = config["padding_token"]
        self.smallest: int = config["min_file_size_for_dl"]

    def read(self, path: Path) -> Answer | torch.Tensor:
        """Read one file.

        Args:
            path: an existing regular file.

        Returns:
            int32 of shape (1, beginning + end), or the answer where no model is needed.
        """
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            head = file.read(self.block)
            file.seek(max(size - self.block, 0))
            tail = file.read(self.block)
        if size == 0:
            return by_rule("empty")
        if size < self.smallest:
            return text_or_unknown(head)
        features = self.from_ends(head, tail)
        if int(features[0, self.smallest - 1]) == self.padding:
            return text_or_unknown(head)
        return features

    def from_ends(self, head: bytes, tail: bytes) -> torch.Tensor:
        """Make the model's input from a file's first and last block.

        Args:
            head: the first bytes, at least one.
            tail: the last bytes, at least one.

        Returns:
            int32 of shape (1, beginning + end).
        """
        first = torch.frombuffer(bytearray(head), dtype=torch.uint8)
        last = torch.frombuffer(bytearray(tail), dtype=torch.uint8)
        features = torch.full((1, self.beginning + self.end), self.padding, dtype=torch.int32)
        ink = (~WHITESPACE[first.int()]).nonzero()
        if len(ink):
            kept = first[int(ink[0]) :][: self.beginning]
            features[0, : len(kept)] = kept
        ink = (~WHITESPACE[last.int()]).nonzero()
        if len(ink):
            kept = last[: int(ink[-1]) + 1][-self.end :]
            features[0, features.shape[1] - len(kept) :] = kept
        return features


class Decision:
    """Turns the model's probabilities into answers.

    Args:
        config: magika's config.min.json, parsed.
        is_text: for every content type, whether it is text.
    """

    def __init__(self, config: dict[str, Any], is_text: dict[str, bool]) -> None:
        labels: list[str] = config["target_labels_space"]
        overwrite: dict[str, str] = config["overwrite_map"]
        self.labels = list(dict.fromkeys([*labels, *overwrite.values(), "txt", "unknown"]))
        index = {label: i for i, label in enumerate(self.labels)}
        self.thresholds = torch.tensor(
            [config["thresholds"].get(x, config["medium_confidence_threshold"]) for x in labels],
            dtype=torch.float64,
        )
        self.overwrite = torch.tensor([index[overwrite.get(x, x)] for x in labels])
        self.generic = torch.tensor(
            [index["txt" if is_text[x] else "unknown"] for x in self.labels]
        )

    def __call__(self, probabilities: torch.Tensor) -> list[Answer]:
        """Decide.

        Args:
            probabilities: float32 of shape (files, labels), each row a softmax.

        Returns:
            One answer per row.
        """
        score, said = probabilities.max(dim=1)
        mapped = self.overwrite[said]
        # In float64, as magika compares: a float32 threshold would round 0.95 upwards or down.
        sure = score.double() >= self.thresholds[said]
        final = torch.where(sure, mapped, self.generic[mapped])
        answers = []
        for i, (one, model_label) in enumerate(zip(final.tolist(), said.tolist(), strict=True)):
            if one == model_label:
                reason = NONE
            else:
                reason = OVERWRITE_MAP if bool(sure[i]) else LOW_CONFIDENCE
            answers.append(
                Answer(self.labels[one], self.labels[model_label], float(score[i]), reason)
            )
        return answers


def load(package: Path, model: str) -> tuple[Path, Features, Decision]:
    """Find the model and its settings inside magika's package.

    Args:
        package: the folder of the installed package.
        model: the model's name.

    Returns:
        The ONNX file, the feature extraction and the decision that belong to it.
    """
    folder = package / "models" / model
    config = json.loads((folder / "config.min.json").read_text(encoding="utf-8"))
    kinds = json.loads((package / "config" / "content_types_kb.min.json").read_text("utf-8"))
    is_text = {label: bool(kind["is_text"]) for label, kind in kinds.items()}
    return folder / "model.onnx", Features(config), Decision(config, is_text)
