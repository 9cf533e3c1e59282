"""Fixtures of the tests with peers: nothing of ours is left alive when a test is over."""

import gc
import time
from collections.abc import Iterator

import pytest
from peers import PEERS, Peer, named

import ortdl_torch


def pytest_report_header() -> str:
    return "peers: not run is array-api-tests, the array API's own suite: pip finds no such package"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Note a test that raised: its traceback keeps objects alive."""
    report = yield
    if call.when == "call" and call.excinfo is not None:
        item.user_properties.append(("raised", True))
    return report


@pytest.fixture(scope="session", autouse=True)
def loaded() -> None:
    """Load every peer, and keep what they are out of every later search for garbage."""
    for name in PEERS:
        named(name).load()
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test lets go of every value; a peer may let go of its part on a thread of its own."""
    before = dict(ortdl_torch.live_objects())
    yield
    if ("raised", True) in request.node.user_properties:
        return

    def left() -> dict[str, int]:
        after = ortdl_torch.live_objects()
        return {name: n - before[name] for name, n in after.items() if n > before[name]}

    deadline = time.monotonic() + 10
    while left() and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    assert left() == {}


@pytest.fixture(params=PEERS)
def peer(request: pytest.FixtureRequest) -> Peer:
    """Each library in turn."""
    return named(request.param)
