"""Sessions with initializers, saved and copied."""

import copy
import io
import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from models import FLOAT, info, model, scaled
from onnx import helper
from support import refused

import ortdl_torch.session
from ortdl_torch import InferenceSession, OnnxModule, OrtValue


def on_ones(session: InferenceSession) -> Any:
    return session(torch.ones(4))[0].tolist()


def saved(session: InferenceSession, how: str) -> Any:
    if how == "pickle":
        return pickle.loads(pickle.dumps(session))
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(OnnxModule(session)), buffer)
    return torch.jit.load(io.BytesIO(buffer.getvalue()))


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize("how", ["pickle", "TorchScript"])
def test_what_is_saved_is_what_they_held(how: str) -> None:
    weight = torch.full((4,), 2.0)
    session = InferenceSession(scaled(), initializers={"w": weight})
    weight.fill_(3)
    loaded = saved(session, how)
    weight.fill_(4)
    x = torch.ones(4)
    results = loaded(x)
    assert (results[0] if how == "pickle" else results).tolist() == [3] * 4
    assert session(x)[0].tolist() == [4] * 4


def test_packed_weights_are_saved() -> None:
    weight = helper.make_tensor("w", onnx.TensorProto.INT4, [4], [1, 2, 3, 4])
    scale = helper.make_tensor("s", FLOAT, [], [1.0])
    source = model(
        [
            helper.make_node("DequantizeLinear", ["w", "s"], ["d"]),
            helper.make_node("Mul", ["x", "d"], ["y"]),
        ],
        [info("x")],
        [info("y")],
        [weight, scale],
    )
    packed = torch.tensor([0x65, 0x07], dtype=torch.uint8)
    value = OrtValue.from_packed(packed, int(onnx.TensorProto.INT4), [4])
    session = InferenceSession(source, initializers={"w": value})
    assert session(torch.ones(4))[0].tolist() == [5, 6, 7, 0]
    assert pickle.loads(pickle.dumps(session))(torch.ones(4))[0].tolist() == [5, 6, 7, 0]


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("embed", [True, False])
def test_weights_go_with_models_by_reference_too(
    protocol: int, embed: bool, tmp_path: Path
) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(scaled())
    weight = torch.full((4,), 2.0)
    session = InferenceSession(path, embed=embed, initializers={"w": weight})
    data = pickle.dumps(session, protocol)
    weight.zero_()
    loaded = pickle.loads(data)
    del session, weight
    # What was loaded is saved and loaded again.
    for again in (loaded, pickle.loads(pickle.dumps(loaded, protocol))):
        assert again(torch.ones(4))[0].tolist() == [2] * 4


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")
@pytest.mark.usefixtures("fresh_compilers", "nothing_exported")
def test_an_exported_program_holds_them(tmp_path: Path) -> None:
    weight = torch.full((4,), 2.0)
    module = OnnxModule(scaled(), initializers={"w": weight})
    program = torch.export.export(module, (torch.ones(4),))
    torch.export.save(program, tmp_path / "program.pt2")
    weight.zero_()
    loaded = torch.export.load(tmp_path / "program.pt2").module()
    assert loaded(torch.ones(4)).tolist() == [2] * 4
    assert module(torch.ones(4)).tolist() == [0] * 4


def test_another_process_gets_them() -> None:
    weight = torch.full((4,), 2.0)
    session = InferenceSession(scaled(), initializers={"w": weight})
    weight.fill_(5)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(on_ones, (session,)) == [5] * 4


def test_a_module_with_them_stays_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    module = OnnxModule(scaled(), initializers={"w": torch.ones(4)})
    before = module.session
    other = [("AzureExecutionProvider", {})]
    monkeypatch.setattr(ortdl_torch.session, "providers_for", lambda device: other)
    with refused(ValueError, "initializers", "AzureExecutionProvider"):
        module.to("meta")
    assert module.cpu().session is before
    assert module.double().session is before
    assert module(torch.ones(4)).tolist() == [1] * 4


def test_a_copy_shares_them() -> None:
    weight = torch.ones(4)
    module = OnnxModule(scaled(), initializers={"w": weight})
    copies = [copy.deepcopy(module), copy.copy(module.session), copy.deepcopy(module.session)]
    weight.fill_(3)
    for copied in copies:
        result = copied(torch.ones(4))
        assert (result if isinstance(result, torch.Tensor) else result[0]).tolist() == [3] * 4
