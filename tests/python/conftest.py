"""Fixtures of every test: quiet logs, and nothing of ours left alive when a test is over."""

import gc
import logging
from collections.abc import Iterator

import numpy as np
import onnxruntime
import pytest
import torch
from support import ROOT, Kind, has_failed, live, needs_onnxruntime, nothing_more_than
from support import pytest_runtest_makereport as pytest_runtest_makereport
from torch._dynamo import functional_export
from torch._subclasses import FakeTensorMode
from torch.fx.experimental import proxy_tensor
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import ortdl_torch

onnxruntime.set_default_logger_severity(4)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests of an element type with an onnxruntime that has none."""
    for item in items:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        kinds = [p.number for p in parameters.values() if isinstance(p, Kind)]
        if 24 in [*kinds, parameters.get("number")]:
            item.add_marker(needs_onnxruntime("1.27", "float8e8m0"))


def pytest_collection_finish() -> None:
    """Keep what the imports left out of every later search for garbage: that makes it quick."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def alive_before() -> dict[str, int]:
    """The counters after the last search for garbage before a test, which count no garbage."""
    return live()


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest, alive_before: dict[str, int]) -> Iterator[None]:
    """Each test lets go of every value, of every tensor's memory and of every session."""
    # The search takes longer than most tests do.
    if ortdl_torch.live_objects() != alive_before:
        alive_before.update(live())
    before = dict(alive_before)
    yield
    if not has_failed(request):
        nothing_more_than(before)


@pytest.fixture
def fresh_compilers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing compiled before or after the test, and what is compiled stays in the build folder."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(ROOT / "build" / "inductor"))
    # What PyTorch logs of an error holds its traceback, and pytest keeps that.
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
    # PyTorch keeps what it traced in these, sessions included.
    FakeTensorMode.cache_clear()
    for found in gc.get_objects():
        if type(found) is ShapeEnv:
            found.fake_tensor_cache.clear()


@pytest.fixture
def nothing_exported() -> Iterator[None]:
    """PyTorch keeps what it exported in two places of its own."""
    yield
    proxy_tensor._FAKE_TENSOR_ID_TO_PROXY_MAP_FOR_EXPORT.clear()
    left = vars(functional_export)
    for name in [name for name in left if name.startswith("__compiled_fn")]:
        del left[name]


@pytest.fixture
def array() -> np.ndarray:
    """The numbers 0 to 7 in float32."""
    return np.arange(8, dtype=np.float32)


@pytest.fixture
def tensor() -> torch.Tensor:
    """The numbers 0 to 5 as a float32 tensor of shape (2, 3)."""
    return torch.arange(6.0).reshape(2, 3)


@pytest.fixture
def options() -> onnxruntime.SessionOptions:
    """Session options that log nothing but fatal errors."""
    made = onnxruntime.SessionOptions()
    made.log_severity_level = 4
    return made
