"""Whatever a producer does, the current device and the current streams are as they were."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from dlpack_structs import Lent, type_with_table
from exchange import Foreign, Pending, state, struct_over

from ortdl_torch import from_dlpack, from_ortvalue

pytestmark = pytest.mark.usefixtures("two_devices")


def meddle() -> None:
    """Make something else current everywhere."""
    for i in range(2):
        torch.cuda.set_stream(torch.cuda.Stream(i))
    torch.cuda.set_device(1 - torch.cuda.current_device())


class Meddler(Foreign):
    """A producer that meddles wherever it is asked, and raises where it is told to."""

    def __init__(self, pending: Pending, fails: str = "") -> None:
        super().__init__(pending)
        self.fails = fails

    def meddle(self, where: str) -> None:
        meddle()
        if self.fails == where:
            raise LookupError(where)

    def __getattribute__(self, name: str) -> Any:
        if name == "__dlpack__":
            self.meddle("lookup")
        return super().__getattribute__(name)

    def __dlpack__(self, **options: Any) -> object:
        capsule = super().__dlpack__(**options)
        self.meddle("capsule")
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        self.meddle("device")
        return super().__dlpack_device__()


@pytest.mark.parametrize("index", [0, 1])
def test_after_a_producer_that_succeeds(chosen: tuple[int, list[int]], index: int) -> None:
    pending = Pending(torch.cuda.Stream(index))
    producer = Meddler(pending)
    value = from_dlpack(producer)
    assert state() == chosen
    # It was asked for the stream that was current, not for one of its own making.
    assert [asked["stream"] for asked in producer.asked] == [chosen[1][index]]
    assert producer.devices == [index]
    tensor = from_ortvalue(value)
    assert state() == chosen
    assert pending.read(tensor, torch.cuda.current_stream(index))


@pytest.mark.parametrize("where", ["lookup", "device", "capsule"])
def test_after_a_producer_that_throws(chosen: tuple[int, list[int]], where: str) -> None:
    with pytest.raises(LookupError, match=where):
        from_dlpack(Meddler(Pending(torch.cuda.Stream(1)), where))
    assert state() == chosen


@pytest.mark.parametrize("device", ["cpu", "cuda:0", "cuda:1"])
def test_after_a_move(chosen: tuple[int, list[int]], device: str) -> None:
    pending = Pending(torch.cuda.Stream(1))
    value = from_dlpack(Meddler(pending), device=device)
    assert state() == chosen
    assert value.device == torch.device(device)
    assert from_ortvalue(value).tolist() == pending.elements
    assert state() == chosen


def test_after_a_producer_that_cannot_move_and_meddles(chosen: tuple[int, list[int]]) -> None:
    class Immovable(Meddler):
        def __dlpack__(self, **options: Any) -> object:
            if "dl_device" in options:
                meddle()
                raise BufferError("no such move")
            return super().__dlpack__(**options)

    pending = Pending(torch.cuda.Stream(1))
    producer = Immovable(pending)
    value = from_dlpack(producer, device="cpu")
    assert state() == chosen
    assert producer.devices == [1]
    assert value.numpy().tolist() == pending.elements


def test_after_a_producer_on_the_cpu(chosen: tuple[int, list[int]]) -> None:
    class OnCpu:
        def __dlpack__(self, **options: Any) -> object:
            meddle()
            return np.ones(2).__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            meddle()
            return 1, 0

    assert from_dlpack(OnCpu()).numpy().tolist() == [1, 1]
    assert state() == chosen


BAD: dict[str, tuple[type[Exception], dict[str, Any]]] = {
    "type": (TypeError, {"code": 5, "bits": 64}),
    "flags": (BufferError, {"flags": 64}),
    "device": (BufferError, {"device": (2, 0)}),
    "sizes": (ValueError, {"shape": (-1,)}),
}


@pytest.mark.parametrize("case", BAD)
def test_after_a_struct_that_is_refused(chosen: tuple[int, list[int]], case: str) -> None:
    kind, fields = BAD[case]
    tensor = torch.ones(64, device="cuda:1")
    fields = {"device": (2, 1), "shape": (64,), "strides": (1,), "code": 2, "bits": 32, **fields}
    lent = Lent(None, data=tensor.data_ptr(), **fields)

    class Hostile:
        def __dlpack__(self, **options: Any) -> object:
            meddle()
            return lent.capsule()

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 1

    with pytest.raises(kind):
        from_dlpack(Hostile())
    assert state() == chosen
    assert lent.released == 0
    lent.forget()


TABLES: dict[str, Callable[[], None]] = {"succeeds": lambda: None, "fails": lambda: 1 / 0}


@pytest.mark.parametrize("asked", ["object", "stream"])
@pytest.mark.parametrize("how", TABLES)
def test_after_a_table(chosen: tuple[int, list[int]], asked: str, how: str) -> None:
    pending = Pending(torch.cuda.Stream(1))
    lent, devices = struct_over(pending.tensor), []

    def step(name: str) -> int:
        """A table's function reports what it does by an error and -1; ctypes cannot set errors."""
        meddle()
        return -1 if name == asked and how == "fails" else 0

    def lend(_: object, out: Any) -> int:
        status = step("object")
        if status == 0:
            out[0] = lent.address
        return status

    def work_stream(kind: int, index: int, out: Any) -> int:
        devices.append(torch.cuda.current_device())
        out[0] = pending.stream.cuda_stream
        return step("stream")

    cls, _ = type_with_table(lend, stream=work_stream)
    if how == "fails":
        with pytest.raises(BufferError):
            from_dlpack(cls())
        assert state() == chosen
        assert lent.released == (asked == "stream")
        if asked == "object":
            lent.forget()
        return
    value = from_dlpack(cls())
    assert state() == chosen
    assert devices == [1]
    assert pending.read(from_ortvalue(value), torch.cuda.current_stream(1))


def test_after_a_table_whose_lookup_meddles(chosen: tuple[int, list[int]]) -> None:
    class Kind(type):
        def __getattribute__(cls, name: str) -> Any:
            if name == "__dlpack_c_exchange_api__":
                meddle()
            return super().__getattribute__(name)

    class Odd(Foreign, metaclass=Kind):
        pass

    pending = Pending(torch.cuda.Stream(1))
    producer = Odd(pending)
    value = from_dlpack(producer)
    assert state() == chosen
    assert [asked["stream"] for asked in producer.asked] == [chosen[1][1]]
    assert pending.read(from_ortvalue(value), torch.cuda.current_stream(1))


def test_after_each_way_out_of_a_value(chosen: tuple[int, list[int]]) -> None:
    pending = Pending(torch.cuda.Stream(1))
    with torch.cuda.stream(pending.stream):
        value = from_dlpack(pending.tensor)
    assert state() == chosen
    value.__dlpack__(stream=torch.cuda.Stream(1).cuda_stream)
    value.__dlpack__(copy=True)
    value.__dlpack__(dl_device=(1, 0))
    value.numpy()
    value.update_inplace(torch.zeros(64))
    from_ortvalue(value, copy=True)
    assert state() == chosen
