"""Who keeps the memory alive, counted; and a tensor that is pointed elsewhere under a value."""

import gc
import sys
import threading
import weakref
from collections.abc import Callable

import numpy as np
import pytest
import torch
from models import subtract, unary
from support import eventually, live, refused

from ortdl_torch import (
    InferenceSession,
    OrtValue,
    from_ortvalue,
    from_ortvalues,
    live_objects,
    to_ortvalue,
    to_ortvalues,
)

N = 1 << 14
SHAPES = [(N,), (2, 3), (), (1,), (0,), (0, 3), (1, 8, 0, 16)]


def overwrite_free_memory() -> list[torch.Tensor]:
    """Allocate and fill what was freed, so that a dangling pointer reads other numbers."""
    gc.collect()
    return [torch.full((N,), 7.0) for _ in range(16)]


def test_value_outlives_its_tensor() -> None:
    value = to_ortvalue(torch.full((N,), 3.0))
    junk = overwrite_free_memory()
    assert live()["owners"] >= 1
    assert (from_ortvalue(value) == 3).all()
    del value
    assert len(junk) == 16


def test_tensor_outlives_its_value() -> None:
    y = from_ortvalue(to_ortvalue(torch.full((N,), 3.0)))
    part = y[5:10]
    del y
    junk = overwrite_free_memory()
    assert part.tolist() == [3.0] * 5
    assert len(junk) == 16


def test_source_is_released_with_the_value_at_once() -> None:
    before = live()
    value = to_ortvalue(torch.ones(4))
    during = live_objects()
    assert (during["values"], during["owners"]) == (before["values"] + 1, before["owners"] + 1)
    del value
    assert live_objects() == before


def test_chain_of_conversions() -> None:
    x = torch.full((N,), 9.0)
    pointer = x.data_ptr()
    for _ in range(20):
        x = from_ortvalue(to_ortvalue(x))
    junk = overwrite_free_memory()
    assert x.data_ptr() == pointer
    assert (x == 9).all()
    assert len(junk) == 16


def test_ten_thousand_round_trips_leave_nothing() -> None:
    before = live()
    x = torch.ones(8)
    for _ in range(10_000):
        y = from_ortvalue(to_ortvalue(x))
    assert y.data_ptr() == x.data_ptr()
    del y
    assert live() == before
    for _ in range(1_000):
        ys = from_ortvalues(to_ortvalues([x, x, x]))
    del ys
    assert live() == before


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("copy", [False, None, True])
def test_array_behind_the_tensor_is_released(shape: tuple[int, ...], copy: bool | None) -> None:
    a = np.zeros(shape, np.float32)
    references = sys.getrefcount(a)
    for _ in range(100):
        value = to_ortvalue(torch.from_numpy(a), copy=copy)
        y = from_ortvalue(value, copy=copy)
        z = y.view(y.shape)
        del value, y, z
    assert sys.getrefcount(a) == references


@pytest.mark.parametrize("order", ["value", "tensor", "array"])
def test_array_dies_with_its_last_holder(order: str) -> None:
    held = {"array": np.full(N, 5.0, np.float32)}
    died = weakref.ref(held["array"])
    held["value"] = OrtValue.ortvalue_from_numpy(held["array"])
    held["tensor"] = from_ortvalue(held["value"])
    last = held.pop(order)
    held.clear()
    gc.collect()
    assert died() is not None
    got = from_ortvalue(last) if order == "value" else torch.as_tensor(last)
    assert (got == 5).all()
    del last, got
    gc.collect()
    # PyTorch drops a tensor's memory without the GIL, so the array is released by another thread.
    assert eventually(lambda: died() is None)


def test_script_object_keeps_the_memory() -> None:
    script_object = to_ortvalue(torch.full((N,), 3.0)).script_object
    junk = overwrite_free_memory()
    assert (from_ortvalue(script_object) == 3).all()
    assert len(junk) == 16


def test_output_outlives_its_session() -> None:
    before = live()
    session = InferenceSession(unary("Relu"))
    outs = [session(torch.full((N,), float(k)))[0] for k in range(20)]
    del session
    junk = overwrite_free_memory()
    assert all((o == k).all() for k, o in enumerate(outs))
    assert live()["values"] >= before["values"] + 20
    assert live()["sessions"] == before["sessions"]
    outs[3].add_(1)
    assert (outs[3] == 4).all()
    assert (outs[4] == 4).all()
    del outs
    assert live() == before
    assert len(junk) == 16


def test_temporary_inputs_live_through_the_run() -> None:
    session = InferenceSession(subtract())
    for k in range(20):
        (out,) = session(torch.full((N,), float(k)), torch.full((2 * N,), 1.0)[N:])
        junk = overwrite_free_memory()
        assert (out == k - 1).all()
        assert len(junk) == 16


def test_run_leaves_nothing_whether_it_succeeds_or_fails() -> None:
    session = InferenceSession(subtract([None, 3]))
    before = live()
    x = torch.ones(2, 3)
    for _ in range(100):
        session(x, x)
        with refused(ValueError):
            session(x, torch.ones(2, 4))
        with refused(TypeError):
            session(x, x.double())
    assert live() == before


@pytest.mark.parametrize("kind", ["value", "tensor", "session", "script object"])
def test_last_reference_dies_on_another_thread(kind: str) -> None:
    before = live()
    a = np.ones(N, np.float32)
    references = sys.getrefcount(a)
    make: dict[str, Callable[[], object]] = {
        "value": lambda: OrtValue.ortvalue_from_numpy(a),
        "tensor": lambda: from_ortvalue(to_ortvalue(torch.from_numpy(a))),
        "session": lambda: InferenceSession(unary("Relu")),
        "script object": lambda: to_ortvalue(torch.from_numpy(a)).script_object,
    }
    box = [make[kind]() for _ in range(50)]
    threads = [threading.Thread(target=box.pop) for _ in range(50)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not box
    assert live() == before
    assert sys.getrefcount(a) == references


def move_data(x: torch.Tensor) -> None:
    x.data = torch.zeros(3)


REPOINT = {
    "data": move_data,
    "set_": lambda x: x.set_(torch.zeros(3)),
    "resize_ larger": lambda x: x.resize_(1 << 18),
    "resize_ smaller": lambda x: x.resize_(1),
    "storage to 0": lambda x: x.untyped_storage().resize_(0),
    "storage larger": lambda x: x.untyped_storage().resize_(1 << 20),
}


@pytest.mark.parametrize("owner", ["tensor", "array", "runtime"])
@pytest.mark.parametrize("how", REPOINT)
def test_value_keeps_its_bytes_when_its_tensor_is_pointed_elsewhere(how: str, owner: str) -> None:
    want = torch.arange(float(N))
    if owner == "runtime":
        x = InferenceSession(unary("Relu"))(want)[0]
    else:
        x = want.clone() if owner == "tensor" else torch.from_numpy(want.numpy().copy())
    value = to_ortvalue(x)
    pointer = value.data_ptr()
    y = from_ortvalue(value)
    try:
        REPOINT[how](x)
    except RuntimeError as e:
        assert type(e) is RuntimeError, repr(e)  # noqa: PT017
    junk = overwrite_free_memory()
    assert value.data_ptr() == pointer == y.data_ptr()
    assert torch.equal(from_ortvalue(value), want)
    assert torch.equal(y, want)
    assert len(junk) == 16


@pytest.mark.parametrize("how", REPOINT)
def test_value_keeps_its_bytes_when_a_tensor_of_it_is_pointed_elsewhere(how: str) -> None:
    want = torch.arange(float(N))
    value = to_ortvalue(want.clone())
    y = from_ortvalue(value)
    try:
        REPOINT[how](y)
    except RuntimeError as e:
        assert type(e) is RuntimeError, repr(e)  # noqa: PT017
    junk = overwrite_free_memory()
    assert torch.equal(from_ortvalue(value), want)
    assert len(junk) == 16


@pytest.mark.parametrize("write", ["tensor of the value", "update_inplace", "source"])
@pytest.mark.parametrize("saved", ["source", "tensor of the value"])
def test_autograd_sees_a_write_from_any_side(write: str, saved: str) -> None:
    x = torch.ones(3)
    value = to_ortvalue(x)
    y = from_ortvalue(value)
    w = torch.ones(3, requires_grad=True)
    loss = (w * (x if saved == "source" else y)).sum()
    if write == "update_inplace":
        value.update_inplace(np.full(3, 2, np.float32))
    else:
        (x if write == "source" else y).add_(1)
    assert x.tolist() == y.tolist() == [2, 2, 2]
    with refused(RuntimeError, "modified by an inplace operation"):
        loss.backward()
