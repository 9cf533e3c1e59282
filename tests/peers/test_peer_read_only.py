"""Memory that its owner calls read-only: what each peer says, hears and does about it."""

import numpy as np
import pytest
import torch
from peers import FLOAT32, Memory, named

from ortdl_torch import OrtValue, from_ortvalue


def read_only(memory: Memory) -> OrtValue:
    array = memory.array
    array.setflags(write=False)
    value = OrtValue.from_dlpack(array)
    assert value.read_only
    assert value.data_ptr() == memory.pointer
    return value


@pytest.fixture
def memory() -> Memory:
    return Memory(FLOAT32, (2, 3))


def test_a_read_only_array_of_nanobind_gives_a_read_only_value(memory: Memory) -> None:
    kind = memory.kind
    array = named("nanobind").module.make_read_only(
        memory.bytes, kind.code, kind.bits, memory.shape
    )
    value = OrtValue.from_dlpack(array)
    assert value.read_only
    assert value.data_ptr() == memory.pointer
    with pytest.raises(BufferError):
        from_ortvalue(value)
    assert memory.same(from_ortvalue(value, copy=True).view(torch.uint8).flatten().numpy())


def test_nanobind_takes_it_only_to_read(memory: Memory) -> None:
    value = read_only(memory)
    module = named("nanobind").module
    with pytest.raises(TypeError, match="incompatible"):
        module.Taken(value)
    assert module.TakenReadOnly(value).pointer == memory.pointer


def test_writable_values_are_taken_both_ways_by_nanobind(memory: Memory) -> None:
    module = named("nanobind").module
    for taken in (module.Taken, module.TakenReadOnly):
        assert taken(memory.value).pointer == memory.pointer


@pytest.mark.parametrize("name", ["numpy", "array_api_strict"])
def test_numpy_keeps_it_read_only_there_and_back(memory: Memory, name: str) -> None:
    array = named(name).take(read_only(memory))
    assert not np.asarray(array).flags.writeable
    again = OrtValue.from_dlpack(array)
    assert again.read_only
    assert again.data_ptr() == memory.pointer


@pytest.mark.parametrize("name", ["numpy", "array_api_strict"])
def test_numpy_may_write_to_writable_values(memory: Memory, name: str) -> None:
    array = named(name).take(memory.value)
    array[0, 0] = 7
    assert memory.array[0, 0] == 7


def test_jax_asks_for_capsules_that_cannot_say_it(memory: Memory) -> None:
    with pytest.raises(BufferError, match="read-only"):
        named("jax").take(read_only(memory))


def test_jax_arrays_come_in_capsules_that_cannot_say_it(memory: Memory) -> None:
    """JAX calls its arrays immutable, but exports them as if they were not."""
    assert not OrtValue.from_dlpack(named("jax").make(memory)).read_only


@pytest.mark.parametrize("name", ["torch", "tvm_ffi"])
def test_peers_without_read_only_arrays_treat_ours_as_they_treat_numpys(
    memory: Memory, name: str
) -> None:
    """Both take no notice of the flag, and lose it."""
    value = read_only(memory)
    array = named(name).take(value)
    assert named(name).describe(array)[0] == memory.pointer
    assert not OrtValue.from_dlpack(array).read_only
