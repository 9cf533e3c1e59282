"""Runs as PyTorch's futures: in TorchScript, and of torch.classes."""

import onnxruntime
import pytest
import torch
from models import subtract
from support import refused

from ortdl_torch import InferenceSession

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> int:
    """How many intra-op threads a session has: with one, PyTorch's threads do the work."""
    return request.param


def differences(threads: int) -> torch.ScriptObject:
    """left - right."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    return InferenceSession(subtract(), options).script_object


class Differences(torch.nn.Module):
    """Two runs at once."""

    def __init__(self, session: torch.ScriptObject) -> None:
        super().__init__()
        self.session = session

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        first = self.session.run_async([a, b])
        second = self.session.run_async([b, a])
        return torch.jit.wait(first) + torch.jit.wait(second)


class Later(torch.nn.Module):
    """A run that its caller waits for."""

    def __init__(self, session: torch.ScriptObject) -> None:
        super().__init__()
        self.session = session

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.jit.Future[list[torch.Tensor]]:
        return self.session.run_async([a, b])


def test_scripted_code_starts_runs_and_waits(threads: int) -> None:
    scripted = torch.jit.script(Differences(differences(threads)))
    outputs = scripted(torch.tensor([5.0]), torch.tensor([3.0]))
    assert [y.item() for y in outputs] == [2, -2]


def test_scripted_code_returns_a_future(threads: int) -> None:
    scripted = torch.jit.script(Later(differences(threads)))
    future = scripted(torch.tensor([5.0]), torch.tensor([3.0]))
    assert isinstance(future, torch._C.Future)
    assert [y.item() for y in future.wait()] == [2]


def test_futures_are_pytorch_s(threads: int) -> None:
    session = differences(threads)
    a, b = torch.tensor([5.0]), torch.tensor([3.0])
    futures = [session.run_async([a, b]), session.run_async([b, a])]
    assert [y.item() for (y,) in torch.futures.wait_all(futures)] == [2, -2]
    doubled = session.run_async([a, b]).then(lambda f: f.value()[0] * 2)
    assert doubled.wait().item() == 4


def test_errors_of_the_call_and_of_the_run(threads: int) -> None:
    session = differences(threads)
    with refused(ValueError, "takes 2 inputs"):
        session.run_async([torch.ones(1)])
    future = session.run_async([torch.ones(2), torch.ones(3)])
    with pytest.raises(RuntimeError, match="Sub"):
        future.wait()
