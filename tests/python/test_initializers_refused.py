"""Initializers that cannot take the place of the model's."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from models import FLOAT, info, model, scaled, subtract
from onnx import helper
from support import refused

import ortdl_torch
from ortdl_torch import InferenceSession, OnnxModule, OrtError


def test_a_name_that_the_model_has_not_is_told() -> None:
    with refused(ValueError, "'nope'", "'w' (tensor(float), [4])"):
        InferenceSession(scaled(), initializers={"nope": torch.ones(4)})
    with refused(ValueError, "'w'", "none"):
        InferenceSession(subtract(), initializers={"w": torch.ones(4)})
    with refused(ValueError, "'x'"):
        InferenceSession(scaled(), initializers={"x": torch.ones(4)})
    with refused(ValueError, "NUL", "name"):
        InferenceSession(scaled(), initializers={"w\0x": torch.ones(4)})
    many = [f"w{i}" for i in range(12)]
    source = model(
        [helper.make_node("Sum", ["x", *many], ["y"])],
        [info("x")],
        [info("y")],
        [helper.make_tensor(name, FLOAT, [4], [1.0] * 4) for name in many],
    )
    with refused(ValueError, "'w7'", "4 more"):
        InferenceSession(source, initializers={"w12": torch.ones(4)})


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int32, torch.bool])
def test_a_wrong_dtype_is_told(dtype: torch.dtype) -> None:
    with refused(TypeError, "'w'", "tensor(float)", "tensor.to(dtype)"):
        InferenceSession(scaled(), initializers={"w": torch.ones(4).to(dtype)})


@pytest.mark.parametrize("shape", [(), (1,), (3,), (5,), (4, 1), (1, 4), (0,)])
def test_a_wrong_shape_is_told(shape: tuple[int, ...]) -> None:
    with refused(ValueError, "'w'", "[4]", str(list(shape))):
        InferenceSession(scaled(), initializers={"w": torch.ones(shape)})


def test_what_cannot_be_shared_is_refused() -> None:
    strided = torch.ones(8)[::2]
    with refused(ValueError, "contiguous", "tensor.contiguous()", "'w'") as caught:
        InferenceSession(scaled(), initializers={"w": strided})
    assert "copy=" not in str(caught.value)
    with refused(BufferError, "meta", "'w'"):
        InferenceSession(scaled(), initializers={"w": torch.ones(4, device="meta")})
    with refused(BufferError, "sparse", "'w'"):
        InferenceSession(scaled(), initializers={"w": torch.ones(4).to_sparse()})
    with refused(BufferError, "requires grad", "'w'"):
        InferenceSession(scaled(), initializers={"w": torch.ones(4, requires_grad=True)})


def test_what_is_no_mapping_of_tensors_is_refused() -> None:
    wrong: Any
    for wrong in ([torch.ones(4)], torch.ones(4), "w", 4):
        with refused(TypeError, "initializers", "map"):
            InferenceSession(scaled(), initializers=wrong)
    for wrong in ({"w": np.ones(4, np.float32)}, {"w": None}, {"w": [1.0] * 4}):
        with refused(TypeError, "'w'"):
            InferenceSession(scaled(), initializers=wrong)
    wrong = {1: torch.ones(4)}
    with refused(TypeError, "string"):
        InferenceSession(scaled(), initializers=wrong)
    session = InferenceSession(scaled())
    for make in (OnnxModule, InferenceSession):
        given: Any = session if make is OnnxModule else session.script_object
        with refused(ValueError, "session"):
            make(given, initializers={"w": torch.ones(4)})


def test_other_providers_may_have_weights_of_their_own() -> None:
    with refused(ValueError, "initializers", "AzureExecutionProvider"):
        InferenceSession(
            scaled(), providers=["AzureExecutionProvider"], initializers={"w": torch.ones(4)}
        )
    session = InferenceSession(
        scaled(), providers=["CPUExecutionProvider"], initializers={"w": torch.ones(4)}
    )
    assert session(torch.ones(4))[0].tolist() == [1] * 4


def test_a_provider_of_the_options_counts_too() -> None:
    options = onnxruntime.SessionOptions()
    devices = onnxruntime.get_ep_devices()
    options.add_provider_for_devices(
        [device for device in devices if device.ep_name == "CPUExecutionProvider"], {}
    )
    session = InferenceSession(scaled(), options, initializers={"w": torch.ones(4)})
    assert session(torch.ones(4))[0].tolist() == [1] * 4


def test_options_that_have_the_same_initializer() -> None:
    options = onnxruntime.SessionOptions()
    stock = onnxruntime.OrtValue.ortvalue_from_numpy(np.ones(4, np.float32))
    options.add_initializer("w", stock)
    with pytest.raises(OrtError, match="already been added"):
        InferenceSession(scaled(), options, initializers={"w": torch.ones(4)})


def test_models_that_are_none() -> None:
    for source in (b"", b"\0", b"no model", scaled()[:40]):
        with pytest.raises((ValueError, OrtError)):
            InferenceSession(source, initializers={"w": torch.ones(4)})
    broken = model(
        [helper.make_node("NoSuchOp", ["x", "w"], ["y"])],
        [info("x")],
        [info("y")],
        [helper.make_tensor("w", FLOAT, [4], [1.0] * 4)],
    )
    with pytest.raises(OrtError, match="NoSuchOp"):
        InferenceSession(broken, initializers={"w": torch.ones(4)})


def test_two_of_one_name_must_be_alike() -> None:
    tensors = [helper.make_tensor("w", FLOAT, [size], [1.0] * size) for size in (4, 4096)]
    source = model([helper.make_node("Mul", ["x", "w"], ["y"])], [info("x")], [info("y")], tensors)
    for size in (4, 4096):
        with refused(ValueError, "'w'"):
            InferenceSession(source, initializers={"w": torch.ones(size)})


def test_sparse_weights_are_refused() -> None:
    values = helper.make_tensor("w", FLOAT, [1], [1.0])
    indices = helper.make_tensor("", onnx.TensorProto.INT64, [1], [2])
    made = onnx.load_from_string(scaled())
    made.graph.ClearField("initializer")
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4]))
    with refused(ValueError, "'w'", "none"):
        InferenceSession(made.SerializeToString(), initializers={"w": torch.ones(4)})


@pytest.mark.parametrize("how", ["initializer", "constant"])
@pytest.mark.parametrize("size", [4096, 1])
def test_a_branchs_own_weight_of_the_same_name_is_not_read_beyond_its_end(
    how: str, size: int
) -> None:
    inner = helper.make_tensor("w", FLOAT, [size], [1.0] * size)
    constants = [helper.make_node("Constant", [], ["w"], value=inner)] if how == "constant" else []
    branch = helper.make_graph(
        [*constants, helper.make_node("Identity", ["w"], ["r"])],
        "branch",
        [],
        [info("r")],
        [] if constants else [inner],
    )
    source = model(
        [
            helper.make_node("If", ["c"], ["z"], then_branch=branch, else_branch=branch),
            helper.make_node("Mul", ["x", "w"], ["y"]),
        ],
        [info("x"), info("c", [], onnx.TensorProto.BOOL)],
        [info("y"), info("z")],
        [helper.make_tensor("w", FLOAT, [4], [1.0] * 4)],
    )
    with refused(ValueError, "'w'"):
        InferenceSession(source, initializers={"w": torch.ones(4)})


def test_no_output_is_written_into_the_weights() -> None:
    memory = torch.full((12,), 2.0)
    weights, apart = memory[4:8], memory[8:]
    session = InferenceSession(scaled(), initializers={"w": weights})
    x = torch.arange(4.0)
    binding = session.io_binding()
    for target in (weights, memory[1:5], memory[7:11], ortdl_torch.to_ortvalue(weights)):
        with refused(ValueError, "output 'y'", "initializer 'w'", "memory of its own"):
            session.run_into([target], [x])
        with refused(ValueError, "output 'y'", "initializer 'w'", "memory of its own"):
            binding.bind_output("y", target)
    assert memory.tolist() == [2.0] * 12
    session.run_into([apart], [x])
    assert apart.tolist() == [0, 2, 4, 6]
    binding.bind_input("x", x + 1)
    binding.bind_output("y", memory[:4])
    session.run_with_iobinding(binding)
    assert memory.tolist() == [2, 4, 6, 8, 2, 2, 2, 2, 0, 2, 4, 6]
