"""What several test files share: the types that cross, their bits, and the check of a refusal."""

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnxruntime
import pytest
import torch

import ortdl_torch

# Where the ortdl_torch under test lies: that of another environment may be elsewhere.
ROOT = Path(ortdl_torch.__file__).resolve().parents[1]


@dataclass(frozen=True)
class Kind:
    """A byte-aligned element type: PyTorch's dtype, ONNX's number and ONNX's name."""

    dtype: torch.dtype
    number: int
    name: str

    def __str__(self) -> str:
        return self.name


KINDS = [
    Kind(torch.float32, 1, "float"),
    Kind(torch.uint8, 2, "uint8"),
    Kind(torch.int8, 3, "int8"),
    Kind(torch.uint16, 4, "uint16"),
    Kind(torch.int16, 5, "int16"),
    Kind(torch.int32, 6, "int32"),
    Kind(torch.int64, 7, "int64"),
    Kind(torch.bool, 9, "bool"),
    Kind(torch.float16, 10, "float16"),
    Kind(torch.float64, 11, "double"),
    Kind(torch.uint32, 12, "uint32"),
    Kind(torch.uint64, 13, "uint64"),
    Kind(torch.bfloat16, 16, "bfloat16"),
    Kind(torch.float8_e4m3fn, 17, "float8e4m3fn"),
    Kind(torch.float8_e4m3fnuz, 18, "float8e4m3fnuz"),
    Kind(torch.float8_e5m2, 19, "float8e5m2"),
    Kind(torch.float8_e5m2fnuz, 20, "float8e5m2fnuz"),
    Kind(torch.float8_e8m0fnu, 24, "float8e8m0"),
]
# Signalling and quiet NaNs of either sign, each with a payload.
NANS = {
    torch.float32: (torch.int32, [0x7F800001, 0x7FC12345, -0x7FFFFF, -0x3EDCBB]),
    torch.float64: (
        torch.int64,
        [0x7FF0000000000001, 0x7FF8DEADBEEF0001, -(2**52) + 1, -(2**51) + 1],
    ),
}


def needs_onnxruntime(version: str, what: str) -> pytest.MarkDecorator:
    """Skip a test where onnxruntime is older than `version`, the first one that has `what`."""
    found = onnxruntime.__version__
    old = [int(n) for n in found.split(".")[:2]] < [int(n) for n in version.split(".")]
    return pytest.mark.skipif(
        old, reason=f"onnxruntime {found} has no {what}: {version} is the first"
    )


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's bytes, flat, as uint8."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def patterns(dtype: torch.dtype) -> torch.Tensor:
    """A flat tensor with every bit pattern of a 1- or 2-byte type; of wider ones many, and NaNs."""
    if dtype is torch.bool:
        return torch.tensor([False, True, True, False])
    if dtype.itemsize == 1:
        return torch.arange(256, dtype=torch.int16).to(torch.uint8).view(dtype)
    if dtype.itemsize == 2:
        return torch.arange(-32768, 32768, dtype=torch.int32).to(torch.int16).view(dtype)
    generator = torch.Generator().manual_seed(dtype.itemsize)
    noise = torch.randint(0, 256, (4096,), dtype=torch.uint8, generator=generator).view(dtype)
    integer, values = NANS.get(dtype, (torch.int64, []))
    return torch.cat([noise.view(torch.uint8), bits(torch.tensor(values, dtype=integer))]).view(
        dtype
    )


def live() -> dict[str, int]:
    """The counters, after what only a traceback still held is gone."""
    gc.collect()
    return dict(ortdl_torch.live_objects())


@contextmanager
def refused(
    kind: type[BaseException], *words: str
) -> Iterator[pytest.ExceptionInfo[BaseException]]:
    """The body raises exactly `kind`; every word, or one of its |-separated spellings, is named."""
    with pytest.raises(kind) as caught:
        yield caught
    assert caught.type is kind, f"{caught.type.__name__} instead of {kind.__name__}: {caught.value}"
    message = str(caught.value)
    for word in words:
        assert any(w.lower() in message.lower() for w in word.split("|")), (
            f"{word!r} is missing from: {message}"
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Note a failed test: its traceback keeps objects alive, so that counting them says nothing."""
    report = yield
    if report.when == "call" and report.failed:
        item.user_properties.append(("failed", True))
    return report


def has_failed(request: pytest.FixtureRequest) -> bool:
    """Whether the test that `request` is of failed, as the hook above noted."""
    return ("failed", True) in request.node.user_properties


def nothing_more_than(before: Mapping[str, int]) -> None:
    """Check that no more of our objects are alive than `before`, or soon are not."""
    left: dict[str, int] = {}

    def nothing_more(counts: Mapping[str, int]) -> bool:
        # An earlier test that failed may have kept objects until now: fewer are no fault.
        left.clear()
        left.update({name: n - before[name] for name, n in counts.items() if n > before[name]})
        return not left

    # Garbage can only be among what is alive. What died without the GIL is released by another
    # thread, soon.
    if not nothing_more(ortdl_torch.live_objects()):
        assert eventually(lambda: nothing_more(live()), 5), left


def in_new_process(code: str, *path: Path) -> subprocess.CompletedProcess[str]:
    """Run `code` in a Python of its own, with `path` and the clone in front of its module path."""
    entries = [str(p) for p in (*path, ROOT)]
    if inherited := os.environ.get("PYTHONPATH"):
        entries.append(inherited)
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(entries)},
        check=False,
    )


def in_threads(work: Callable[[int], None], numbers: Iterable[int]) -> None:
    """Call `work` with every number, each in a thread of its own, and wait for all of them."""
    threads = [threading.Thread(target=work, args=(number,)) for number in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def eventually(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    """True once `condition` holds, False if it does not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
