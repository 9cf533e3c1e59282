"""Moving a module to a device, as PyTorch moves its own."""

import copy
from types import SimpleNamespace
from typing import Any

import onnxruntime
import pytest
import torch
from models import subtract
from stock import same_as_stock
from support import refused

from ortdl_torch import InferenceSession, OnnxModule, session
from ortdl_torch._devices import providers_for

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")

LEFT, RIGHT = torch.rand(4), torch.rand(4)
OTHER = "AzureExecutionProvider"  # beside the CPU's in every wheel; it leaves all nodes to that one


class Around(torch.nn.Module):
    """A model beside a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = OnnxModule(subtract())
        self.scale = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))


def state_of(module: OnnxModule) -> tuple[Any, ...]:
    script_object: Any = module.script_object
    state, _script_class = script_object.__getstate__()
    return tuple(state)


def to_cuda(tensor: torch.Tensor) -> Any:
    """What PyTorch asks of each tensor, where there is a GPU."""
    assert tensor.numel() == 0
    return SimpleNamespace(device=torch.device("cuda", 1))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The devices that a provider is asked for; all have the same, which works on the CPU."""
    devices: list[str] = []

    def chosen(device: torch.device) -> list[tuple[str, dict[str, str]]]:
        devices.append(str(device))
        return [(OTHER, {})]

    monkeypatch.setattr(session, "providers_for", chosen)
    return devices


def test_where_it_is_already_nothing_happens() -> None:
    module = OnnxModule(subtract())
    before = module.session
    for same in (module.cpu(), module.to("cpu"), module.to(torch.device("cpu")), module.to(LEFT)):
        assert same is module
        assert module.session is before


def test_types_are_the_models() -> None:
    around = Around()
    before = around.inner.session
    around.half().double().to(torch.bfloat16).type(torch.float16)
    assert around.scale.dtype is torch.float16
    assert around.inner.session is before
    assert same_as_stock(around.inner(LEFT, RIGHT), subtract(), LEFT, RIGHT)


def test_memory_may_be_shared_among_processes() -> None:
    module = OnnxModule(subtract())
    before = module.session
    assert module.share_memory().session is before


def test_a_device_without_provider_is_refused_and_nothing_changes() -> None:
    module = OnnxModule(subtract())
    before, script_object = module.session, module.script_object
    offered = onnxruntime.get_available_providers()
    with refused(ValueError, "meta", *offered):
        module.to("meta")
    with refused(ValueError, "meta", *offered):
        module.to_empty(device="meta")
    with refused(ValueError, "cuda:1", *offered):
        module._apply(to_cuda)
    assert module.session is before
    assert module.script_object is script_object
    assert same_as_stock(module(LEFT, RIGHT), subtract(), LEFT, RIGHT)


def test_a_move_makes_the_session_anew_with_its_options(asked: list[str]) -> None:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    before = InferenceSession(subtract(), options, move_inputs=True)
    module = OnnxModule(before)
    script_object = module.script_object
    assert module._apply(to_cuda) is module
    assert asked == ["cuda:1"]
    assert module.session.get_providers() == [OTHER, "CPUExecutionProvider"]
    assert before.get_providers() == ["CPUExecutionProvider"]
    assert module.script_object is not script_object
    _, _, properties, entries, *_ = state_of(module)
    assert properties["intra_op_num_threads"] == "1"
    assert entries["session.intra_op.allow_spinning"] == "0"
    assert entries["ortdl.move_inputs"] == "1"
    assert same_as_stock(module(LEFT, RIGHT), subtract(), LEFT, RIGHT)


def test_a_provider_keeps_its_options(asked: list[str]) -> None:
    module = OnnxModule(subtract(), providers=[(OTHER, {"kept": "yes"})])
    module._apply(to_cuda)
    assert [(name, dict(options)) for name, options in state_of(module)[4]] == [
        (OTHER, {"kept": "yes"})
    ]


def test_what_was_made_before_keeps_its_session(asked: list[str]) -> None:
    module = OnnxModule(subtract())
    copied, scripted = copy.deepcopy(module), torch.jit.script(module)
    module._apply(to_cuda)
    assert copied.session.get_providers() == ["CPUExecutionProvider"]
    assert same_as_stock(copied(LEFT, RIGHT), subtract(), LEFT, RIGHT)
    assert same_as_stock(scripted(LEFT, RIGHT), subtract(), LEFT, RIGHT)


def test_a_module_around_takes_it_along(asked: list[str]) -> None:
    around = Around()
    move: Any = around._apply
    move(lambda tensor: to_cuda(tensor) if tensor.numel() == 0 else tensor)
    assert asked == ["cuda:1"]
    assert around.inner.session.get_providers() == [OTHER, "CPUExecutionProvider"]


def test_a_subclass_moves_its_parameters_too_or_nothing() -> None:
    class Scaled(OnnxModule):
        def __init__(self) -> None:
            super().__init__(subtract())
            self.scale = torch.nn.Parameter(torch.ones(1))

    module = Scaled()
    with refused(ValueError, "meta"):
        module.to("meta")
    assert module.scale.device == torch.device("cpu")
    assert module.to(torch.float64).scale.dtype is torch.float64


class Plugin:
    """What is asked of an onnxruntime.OrtEpDevice."""

    def __init__(self, name: str, vendor: int, index: int, **metadata: str) -> None:
        self.ep_name = name
        self.ep_metadata = metadata
        self._memory = SimpleNamespace(device_vendor_id=vendor, device_id=index)

    def memory_info(self, kind: onnxruntime.OrtDeviceMemoryType) -> Any:
        return self._memory if kind == onnxruntime.OrtDeviceMemoryType.DEFAULT else None


CUDA_1 = torch.device("cuda", 1)
NVIDIA, AMD = 0x10DE, 0x1002


@pytest.mark.parametrize(
    ("hip", "offered", "chosen"),
    [
        (None, ["TensorrtExecutionProvider", "CUDAExecutionProvider"], "CUDAExecutionProvider"),
        ("7.1", ["MIGraphXExecutionProvider", "ROCMExecutionProvider"], "ROCMExecutionProvider"),
        ("7.1", ["MIGraphXExecutionProvider"], "MIGraphXExecutionProvider"),
    ],
)
def test_onnx_runtimes_own_provider_comes_first(
    monkeypatch: pytest.MonkeyPatch, hip: str | None, offered: list[str], chosen: str
) -> None:
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [*offered, "CPU"])
    monkeypatch.setattr(onnxruntime, "get_ep_devices", lambda: [Plugin("Other", NVIDIA, 1)])
    assert providers_for(CUDA_1) == [(chosen, {"device_id": "1"})]


@pytest.mark.parametrize("hip", [None, "7.1"])
def test_a_plugin_is_found_by_its_memory(monkeypatch: pytest.MonkeyPatch, hip: str | None) -> None:
    here, elsewhere = (AMD, NVIDIA) if hip else (NVIDIA, AMD)
    plugins = [
        Plugin("Elsewhere", elsewhere, 1),
        Plugin("Unnumbered", here, 0),
        Plugin("Numbered", here, 2, device_id="7"),
        Plugin("Unnumbered", here, 1),
    ]
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(onnxruntime, "get_ep_devices", lambda: plugins)
    assert providers_for(CUDA_1) == [("Unnumbered", {"device_id": "1"})]
    assert providers_for(torch.device("cuda")) == [("Unnumbered", {"device_id": "0"})]
    assert providers_for(torch.device("cuda", 2)) == [("Numbered", {"device_id": "7"})]
    with refused(ValueError, "cuda:3", "Elsewhere", "Unnumbered", "CPUExecutionProvider"):
        providers_for(torch.device("cuda", 3))
    assert providers_for(torch.device("cpu")) == []
