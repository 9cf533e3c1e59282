"""Whoever lets go last frees the memory, and a value keeps no more than it needs."""

import gc
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
from peers import FLOAT32, Kind, Memory, Peer, named

import ortdl_torch
from ortdl_torch import OrtValue

SHAPES = [(3,), (), (2, 0)]


def gone(condition: Callable[[], bool]) -> bool:
    """True once `condition` no longer holds: some peers let go on a thread of their own."""
    deadline = time.monotonic() + 10
    while condition():
        if time.monotonic() > deadline:
            return False
        gc.collect()
        time.sleep(0.001)
    return True


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_value_outlives_the_array(peer: Peer, shape: tuple[int, ...]) -> None:
    memory = Memory(FLOAT32, shape)
    array = peer.make(memory)
    value = OrtValue.from_dlpack(array)
    del array
    memory.release()
    gc.collect()
    assert memory.same(value.packed().numpy())
    # Of nothing there is nothing to keep: JAX does not.
    assert memory.alive() or memory.nbytes == 0
    del value
    assert gone(memory.alive)


def test_an_array_outlives_its_value(peer: Peer) -> None:
    memory = Memory(FLOAT32, (3,))
    array = peer.make(memory)
    value = OrtValue.from_dlpack(array)
    del value
    memory.release()
    gc.collect()
    assert memory.alive()
    assert peer.describe(array)[0] == memory.pointer
    del array
    assert gone(memory.alive)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_an_array_outlives_the_value_it_was_made_of(peer: Peer, shape: tuple[int, ...]) -> None:
    memory = Memory(FLOAT32, shape)
    value = memory.value
    array = peer.take(value)
    del value
    memory.release()
    gc.collect()
    if memory.nbytes:
        assert memory.alive()
        assert peer.has(array, memory)
    del array
    assert gone(memory.alive)


def test_a_value_outlives_the_array_made_of_it(peer: Peer) -> None:
    memory = Memory(FLOAT32, (3,))
    value = memory.value
    array = peer.take(value)
    del array
    memory.release()
    gc.collect()
    assert memory.alive()
    assert memory.same(value.packed().numpy())
    del value
    assert gone(memory.alive)


def test_a_chain_through_every_peer_keeps_the_memory() -> None:
    names = ("numpy", "nanobind", "torch", "tvm_ffi", "jax", "array_api_strict")
    memory = Memory(FLOAT32, (2, 3))
    link: object = memory.value
    memory.release()
    for name in names:
        array = named(name).take(link)
        # nanobind's own arrays export, but not what a function has taken.
        source = link if name == "nanobind" else array
        link = OrtValue.from_dlpack(source, copy=False)
        assert link.data_ptr() == memory.pointer, name
    del array, source
    gc.collect()
    assert memory.same(link.packed().numpy())
    del link
    assert gone(memory.alive)


def test_values_of_a_peer_may_die_on_another_thread(peer: Peer) -> None:
    memories = [Memory(FLOAT32, (3,)) for _ in range(16)]
    values = [OrtValue.from_dlpack(peer.make(memory)) for memory in memories]
    for memory in memories:
        memory.release()
    thread = threading.Thread(target=values.clear)
    thread.start()
    thread.join()
    assert gone(lambda: any(memory.alive() for memory in memories))


def test_what_a_peer_refuses_stays_ours(peer: Peer) -> None:
    """An int4 value is refused by most: they keep nothing, and it is as good as before."""
    memory = Memory(Kind("int4", 0, 4, 22), (3,))
    value = memory.value
    if memory.kind not in peer.takes:
        with pytest.raises((BufferError, RuntimeError, TypeError, ValueError)):
            peer.take(value)
    memory.release()
    assert memory.same(value.packed().numpy())
    del value
    assert gone(memory.alive)


def test_unused_capsules_are_freed_by_either_side(peer: Peer) -> None:
    memory = Memory(FLOAT32, (3,))
    array = peer.make(memory)
    capsules = [] if peer is named("nanobind") else [array.__dlpack__()]
    capsules.append(ortdl_torch.to_dlpack(OrtValue.from_dlpack(array)))
    del array
    memory.release()
    gc.collect()
    assert memory.alive()
    del capsules
    assert gone(memory.alive)


def test_complex_arrays_are_refused_and_kept_by_their_owner() -> None:
    for name in ("numpy", "jax", "array_api_strict"):
        array = np.zeros(2, np.complex64)
        if name == "jax":
            array = named(name).jax.numpy.asarray(array)
        elif name == "array_api_strict":
            array = named(name).xp.asarray(array)
        with pytest.raises(TypeError, match="complex"):
            OrtValue.from_dlpack(array)
