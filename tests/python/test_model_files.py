"""What is no regular file in the place of a model's: it is refused by name, and nothing waits."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from models import external_weight, scaled
from support import refused

from ortdl_torch import InferenceSession, OnnxModule


def fifo(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


KINDS = [(fifo, "no regular file"), (device, "no regular file"), (Path.mkdir, "a folder")]
each_kind = pytest.mark.parametrize(("make", "found"), KINDS, ids=["fifo", "device", "folder"])


@each_kind
@pytest.mark.parametrize(
    "load",
    [
        InferenceSession,
        lambda path: InferenceSession(str(path), embed=False),
        lambda path: InferenceSession(path, initializers={"w": torch.ones(4)}),
        OnnxModule,
    ],
    ids=["plain", "embed=False", "initializers", "module"],
)
def test_model(
    load: Callable[[Path], object], make: Callable[[Path], None], found: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.onnx"
    make(path)
    with refused(RuntimeError, "model.onnx", found):
        load(path)


@each_kind
@pytest.mark.parametrize("embed", [True, False])
def test_external_data(
    embed: bool, make: Callable[[Path], None], found: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(external_weight("weight.bin"))
    make(tmp_path / "weight.bin")
    if make is device and not embed:  # a link that leads out of the model's folder
        with refused(ValueError, "weight.bin", "outside"):
            InferenceSession(path, embed=embed)
        return
    words = ["the model's external data 'weight.bin'", found, str(tmp_path / "weight.bin"), "put"]
    with refused(RuntimeError, *words) as caught:
        InferenceSession(path, embed=embed)
    assert "path of an ONNX file" not in str(caught.value)


def test_a_link_to_a_file_is_one(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(scaled())
    (tmp_path / "link.onnx").symlink_to("model.onnx")
    assert len(InferenceSession(tmp_path / "link.onnx").get_inputs()) == 1
