"""Fixtures of the tests on CUDA devices, and the line that says of what kind those are."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

# These tests share what tests/python has in support.py.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

import emulator
from exchange import state
from support import has_failed, live, nothing_more_than
from support import pytest_runtest_makereport as pytest_runtest_makereport


def pytest_report_header() -> str:
    count = torch.cuda.device_count()
    if emulator.EMULATED:
        return f"CUDA: {count} emulated CUDA devices, no real one"
    names = ", ".join(torch.cuda.get_device_name(index) for index in range(count))
    return f"CUDA: real GPUs: {names}" if names else "CUDA: no device"


def pytest_sessionstart() -> None:
    if not torch.cuda.is_available():
        pytest.exit("no CUDA device, not even an emulated one: run tools/test_cuda.py", 2)


@pytest.fixture(autouse=True)
def sane(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test leaves the devices and streams as it found them, and nothing of ours alive."""
    if emulator.EMULATED:
        emulator.reset()
    before, alive = state(), live()
    yield
    if emulator.EMULATED:
        emulator.reset()
    assert not torch.cuda.is_current_stream_capturing()
    for index in range(torch.cuda.device_count()):
        torch.cuda.synchronize(index)
    if has_failed(request):
        torch.cuda.set_device(before[0])
        return
    assert state() == before
    nothing_more_than(alive)


@pytest.fixture
def two_devices() -> None:
    """The test needs a second device."""
    if torch.cuda.device_count() < 2:
        pytest.skip("this machine has one CUDA device")


@pytest.fixture(params=[0, 1], ids=["device 0 is current", "device 1 is current"])
def chosen(request: pytest.FixtureRequest, two_devices: None) -> Iterator[tuple[int, list[int]]]:
    """A device and streams that are no defaults."""
    before, streams = torch.cuda.current_device(), [torch.cuda.Stream(i) for i in range(2)]
    defaults = [torch.cuda.current_stream(i) for i in range(2)]
    for stream in streams:
        torch.cuda.set_stream(stream)
    torch.cuda.set_device(request.param)
    yield state()
    for stream in defaults:
        torch.cuda.set_stream(stream)
    torch.cuda.set_device(before)
