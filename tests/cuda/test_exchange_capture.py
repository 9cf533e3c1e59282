"""Hand-over while a stream is captured into a graph: nothing synchronises behind its back."""

from collections.abc import Callable

import emulator
import pytest
import torch
from exchange import Capture, Foreign, Pending, on, struct_over, taken, with_table
from support import refused

from ortdl_torch import OrtValue, from_dlpack, from_ortvalue, to_dlpack, to_ortvalue

DEVICE = "cuda:0"


def outside() -> OrtValue:
    """A value whose elements are made on a stream that takes part in no capture."""
    pending = Pending(torch.cuda.Stream(DEVICE))
    with torch.cuda.stream(pending.stream):
        return to_ortvalue(pending.tensor)


NEEDS_ORDER: dict[str, Callable[[OrtValue, Capture], object]] = {
    "export": lambda value, capture: value.__dlpack__(stream=capture.stream.cuda_stream),
    "torch": lambda value, capture: torch.from_dlpack(value),
    "tensor": lambda value, capture: from_ortvalue(value),
    "capsule": lambda value, capture: to_dlpack(value),
    "copy": lambda value, capture: value.__dlpack__(copy=True),
}


@pytest.mark.parametrize("name", NEEDS_ORDER)
def test_a_graph_cannot_wait_for_elements_from_outside(name: str) -> None:
    value = outside()
    with Capture() as capture, refused(RuntimeError, "captur"):
        NEEDS_ORDER[name](value, capture)


WAITS: dict[str, Callable[[OrtValue], object]] = {
    "numpy": lambda value: value.numpy(),
    "host export": lambda value: value.__dlpack__(dl_device=(1, 0)),
    "import to the CPU": lambda value: from_dlpack(value, device="cpu"),
    "update from the CPU": lambda value: value.update_inplace(torch.zeros(64)),
    "import from the CPU": lambda value: from_dlpack(torch.zeros(64), device=DEVICE),
}


@pytest.mark.parametrize("name", WAITS)
def test_what_would_let_the_host_wait_says_so(name: str) -> None:
    tensor = torch.empty(64, device=DEVICE)
    with Capture():
        value = to_ortvalue(tensor)
        with refused(RuntimeError, "captured"):
            WAITS[name](value)


def test_a_value_made_in_the_capture_is_used_in_it() -> None:
    tensor = torch.empty(64, device=DEVICE)
    with Capture() as capture:
        value = to_ortvalue(tensor)
        again = taken(value.__dlpack__(stream=capture.stream.cuda_stream))
        assert again.data_ptr() == from_ortvalue(value).data_ptr() == tensor.data_ptr()
        if emulator.EMULATED:
            assert [c for c in emulator.trace() if c.name == "cudaStreamWaitEvent"] == []


def test_an_export_forks_the_capture_and_an_import_joins_it() -> None:
    source, to = torch.arange(64.0).to(DEVICE), torch.zeros(64).to(DEVICE)
    made = torch.empty(64, device=DEVICE)
    reader = torch.cuda.Stream(DEVICE)
    torch.cuda.synchronize()
    with Capture():
        made.copy_(source)
        value = to_ortvalue(made)
        tensor = taken(value.__dlpack__(stream=reader.cuda_stream))
        with torch.cuda.stream(reader):
            assert torch.cuda.is_current_stream_capturing()
            to.copy_(tensor)
            back = to_ortvalue(to)
        assert from_ortvalue(back).data_ptr() == to.data_ptr()
    assert to.tolist() == list(range(64))  # the capture's end replayed it


def test_a_producer_is_asked_to_order_nothing() -> None:
    pending = Pending(torch.cuda.Stream(DEVICE))
    torch.cuda.synchronize()
    producer = Foreign(pending)
    with Capture():
        value = from_dlpack(producer)
        assert value.data_ptr() == pending.tensor.data_ptr()
    assert [asked["stream"] for asked in producer.asked] == [-1]


@pytest.mark.parametrize("move", [{}, {"device": "cpu"}], ids=str)
def test_a_producer_is_not_asked_for_what_would_wait(move: dict[str, str]) -> None:
    producer = Foreign(Pending(torch.cuda.Stream(DEVICE)))
    torch.cuda.synchronize()
    with Capture():
        if move:
            with refused(RuntimeError, "captured"):
                from_dlpack(producer, **move)
        else:
            from_dlpack(producer)
    assert len(producer.asked) == (0 if move else 1)


def test_a_table_on_the_captured_stream_needs_no_order() -> None:
    tensor = torch.empty(64, device=DEVICE)
    with Capture() as capture:
        lent = struct_over(tensor)
        value = from_dlpack(with_table(lent, capture.stream))
        assert value.data_ptr() == tensor.data_ptr()
        del value
    assert lent.released == 1


def test_a_table_on_a_stream_outside_is_refused() -> None:
    pending = Pending(torch.cuda.Stream(DEVICE))
    lent = struct_over(pending.tensor)
    with Capture(), refused(RuntimeError, "captur"):
        from_dlpack(with_table(lent, pending.stream))
    assert lent.released == 1
    assert on(pending.stream, pending.tensor) == pending.elements
