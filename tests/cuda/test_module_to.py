"""Moving a module to a GPU and back (the fake provider on emulated devices)."""

import pickle

import onnxruntime
import provider
import pytest
import torch
from provider import CPU, NATIVE, PLUGIN, needs_provider
from support import refused

from ortdl_torch import InferenceSession, OnnxModule

pytestmark = [
    needs_provider,
    pytest.mark.usefixtures("two_devices"),
    pytest.mark.filterwarnings("ignore:`torch.jit:FutureWarning"),
]
ONE, DOUBLED = [0.0, 1.0, 2.0, 3.0], [0.0, 2.0, 4.0, 6.0]


@pytest.fixture(params=["native", "plugin"])
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The provider that is found for a GPU: ONNX Runtime's own, else a plug-in by its memory."""
    provider.library()
    if request.param == "native":
        return NATIVE
    devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name != NATIVE]
    offered = [name for name in onnxruntime.get_available_providers() if name != NATIVE]
    monkeypatch.setattr(onnxruntime, "get_ep_devices", lambda: devices)
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: offered)
    return PLUGIN


def adder() -> OnnxModule:
    """A module that adds, on the CPU."""
    return OnnxModule(InferenceSession(provider.add(), provider.options()))


def runs_on(module: torch.nn.Module, device: torch.device) -> None:
    """Check that the module reads inputs of `device` in place, and gives its output there."""
    left, right = torch.tensor(ONE).to(device), torch.tensor(ONE).to(device)
    provider.reset()
    result = module(left, right)
    counters = provider.counters()
    assert (result.device, result.tolist()) == (device, DOUBLED)
    assert counters.copies == 0
    if device.type == "cpu":
        assert counters.computes == 0
        return
    done = provider.compute()
    assert (counters.computes, done.device) == (1, device.index)
    assert [i.data for i in done.inputs] == [left.data_ptr(), right.data_ptr()]
    assert done.output.data == result.data_ptr()


@pytest.mark.parametrize("index", [0, 1])
def test_there_and_back(name: str, index: int) -> None:
    module = adder()
    runs_on(module, torch.device("cpu"))
    assert module.to(f"cuda:{index}") is module
    assert module.session.get_providers() == [name, CPU]
    runs_on(module, torch.device("cuda", index))
    module.cpu()
    assert module.session.get_providers() == [CPU]
    runs_on(module, torch.device("cpu"))


def test_from_one_gpu_to_another(name: str) -> None:
    module = adder()
    module.cuda(0)
    first = module.session
    assert module.cuda(0).session is first
    module.cuda(1)
    assert module.session is not first
    runs_on(module, torch.device("cuda", 1))
    with torch.cuda.device(1):
        second = module.session
        assert module.cuda().session is second


def test_a_moved_module_is_saved_with_its_provider(name: str) -> None:
    loaded = pickle.loads(pickle.dumps(adder().to("cuda:1")))
    assert loaded.session.get_providers() == [name, CPU]
    runs_on(loaded, torch.device("cuda", 1))


def test_a_module_around_takes_it_along(name: str) -> None:
    around = torch.nn.ModuleDict({"inner": adder(), "layer": torch.nn.Linear(1, 1)}).to("cuda:1")
    assert around["layer"].weight.device == torch.device("cuda", 1)
    runs_on(around["inner"], torch.device("cuda", 1))


def test_inputs_that_stayed_behind_are_refused(name: str) -> None:
    module = adder()
    module.to("cuda:1")
    with refused(ValueError, "left", "cpu", "cuda:1"):
        module(torch.tensor(ONE), torch.tensor(ONE))


def test_what_was_made_before_keeps_its_device(name: str) -> None:
    module = adder()
    traced = torch.jit.trace(module, (torch.tensor(ONE), torch.tensor(ONE)))
    module.to("cuda:1")
    runs_on(traced, torch.device("cpu"))
    runs_on(module, torch.device("cuda", 1))


def test_a_gpu_that_no_provider_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    module = adder()
    before = module.session
    monkeypatch.setattr(onnxruntime, "get_ep_devices", list)
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [CPU])
    with refused(ValueError, "cuda:1", CPU):
        module.to("cuda:1")
    assert module.session is before
    runs_on(module, torch.device("cpu"))
