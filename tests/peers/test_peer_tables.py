"""The C exchange API between our type and those of the peers that have it."""

import pytest
import torch
from peers import FLOAT32, KINDS, Kind, Memory, named

import ortdl_torch
from ortdl_torch import OrtValue


class NoProtocol(OrtValue):
    """A value whose Python protocol must not be used."""

    __slots__ = ()

    def __dlpack__(self, **options: object) -> None:
        raise AssertionError("__dlpack__ was called")


def without_protocol(memory: Memory) -> NoProtocol:
    return NoProtocol(memory.value.script_object)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_tvm_ffi_takes_a_value_by_the_table(kind: Kind) -> None:
    for shape in ((2, 3), (), (0, 2)):
        memory = Memory(kind, shape)
        array = named("tvm_ffi").take(without_protocol(memory))
        pointer, *rest = named("tvm_ffi").describe(array)
        assert rest == [shape, kind.name]
        assert pointer == memory.pointer or memory.nbytes == 0


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_function_of_tvm_ffi_gives_a_value_for_a_value(kind: Kind) -> None:
    """It takes the argument, and makes its result, by the table of the argument's type."""
    memory = Memory(kind, (2, 3))
    echo = named("tvm_ffi").tvm_ffi.get_global_func("testing.echo")
    value = echo(without_protocol(memory))
    assert type(value) is OrtValue
    assert (value.data_ptr(), value.element_type()) == (memory.pointer, kind.number)
    assert value.shape() == [2, 3]


def test_a_function_of_tvm_ffi_keeps_nothing() -> None:
    memory = Memory(FLOAT32, (3,))
    echo = named("tvm_ffi").tvm_ffi.get_global_func("testing.echo")
    value = echo(memory.value)
    memory.release()
    assert memory.alive()
    assert memory.same(value.packed().numpy())
    del value
    assert not memory.alive()


def test_torch_takes_a_value_and_gives_a_tensor() -> None:
    memory = Memory(FLOAT32, (2, 3))
    tensor = torch.from_dlpack(memory.value)
    assert type(tensor) is torch.Tensor
    assert tensor.data_ptr() == memory.pointer


def test_a_subclass_of_torchs_tensor_keeps_its_own_protocol() -> None:
    class Subclass(torch.Tensor):
        asked = 0

        def __dlpack__(self, **options: object) -> object:
            type(self).asked += 1
            return super().__dlpack__(**options)

    memory = Memory(FLOAT32, (2, 3))
    value = ortdl_torch.from_dlpack(memory.tensor.as_subclass(Subclass))
    assert Subclass.asked == 1
    assert value.data_ptr() == memory.pointer
