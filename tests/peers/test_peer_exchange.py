"""What each peer exports and imports: the same pointer, shape, type and bits, both ways."""

import numpy as np
import onnx
import pytest
import torch
from peers import FLOAT32, KINDS, PEERS, Kind, Memory, Peer, named

import ortdl_torch
from ortdl_torch import _C, OrtValue

SHAPES = [(), (1,), (0,), (2, 0, 3), (3,), (2, 3, 4), (1, 2, 1, 3, 1)]
GIVEN = [(name, kind) for name, peer in PEERS.items() for kind in peer.gives]
TAKEN = [(name, kind) for name, peer in PEERS.items() for kind in peer.takes]
WITH_VIEWS = [name for name, peer in PEERS.items() if peer.views]


def check_value(value: OrtValue, memory: Memory) -> None:
    assert value.element_type() == memory.kind.number
    assert tuple(value.shape()) == memory.shape
    assert memory.same(value.packed().numpy())


def check_array(peer: Peer, array: object, memory: Memory) -> None:
    pointer, shape, name = peer.describe(array)
    assert (shape, name) == (memory.shape, memory.kind.name)
    if memory.nbytes:
        assert pointer == memory.pointer
        assert peer.has(array, memory)


def check_given(peer: Peer, memory: Memory) -> None:
    array = peer.make(memory)
    value = OrtValue.from_dlpack(array, copy=False)
    check_value(value, memory)
    if memory.nbytes:
        assert value.data_ptr() == peer.describe(array)[0]


def test_the_kinds_are_those_that_cross() -> None:
    plain = {_C.element_type_of(dtype) for dtype in _C.dtypes()}
    assert {kind.number for kind in KINDS} == plain | set(_C.packed_bits())


@pytest.mark.parametrize(("name", "kind"), GIVEN, ids=str)
def test_a_value_shares_what_a_peer_gives(name: str, kind: Kind) -> None:
    for shape in SHAPES:
        check_given(named(name), Memory(kind, shape))


@pytest.mark.parametrize(("name", "kind"), TAKEN, ids=str)
def test_a_peer_shares_what_a_value_gives(name: str, kind: Kind) -> None:
    peer = named(name)
    for shape in SHAPES:
        memory = Memory(kind, shape)
        check_array(peer, peer.take(memory.value), memory)


@pytest.mark.parametrize("name", WITH_VIEWS)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_views_that_begin_later_are_shared(name: str, kind: Kind) -> None:
    peer = named(name)
    memory = Memory(kind, (2, 3), offset=8)
    if kind in peer.gives:
        check_given(peer, memory)
    if kind in peer.takes:
        check_array(peer, peer.take(memory.value), memory)


def test_jax_copies_what_is_not_aligned_for_it() -> None:
    jax = named("jax")
    memory = Memory(FLOAT32, (3,), offset=4)
    value = memory.value
    with pytest.raises(ValueError, match="not aligned"):
        jax.take(value)
    array = jax.jax.dlpack.from_dlpack(value)
    assert np.asarray(array).tobytes() == memory.array.tobytes()


@pytest.mark.parametrize(("name", "kind"), [p for p in GIVEN if p[1].bits >= 8], ids=str)
def test_copies_are_copies(name: str, kind: Kind) -> None:
    peer = named(name)
    memory = Memory(kind, (2, 3))
    array = peer.make(memory)
    value = OrtValue.from_dlpack(array, copy=True)
    check_value(value, memory)
    assert value.data_ptr() != peer.describe(array)[0]


@pytest.mark.parametrize(("name", "kind"), TAKEN, ids=str)
def test_capsules_of_both_versions_are_taken(name: str, kind: Kind) -> None:
    """Whatever form a peer asks for by itself, both carry every type to torch and back."""
    memory = Memory(kind, (2, 3))
    for version in (None, (1, 0), (1, 3)):
        again = ortdl_torch.from_dlpack(ortdl_torch.to_dlpack(memory.value, max_version=version))
        check_value(again, memory)
        assert again.data_ptr() == memory.pointer
        check_array(named(name), named(name).take(again), memory)


@pytest.mark.parametrize("name", ["numpy", "torch", "array_api_strict", "tvm_ffi"])
def test_strided_arrays_of_a_peer_are_gathered(name: str) -> None:
    peer = named("torch" if name == "tvm_ffi" else name)
    strided = peer.make(Memory(FLOAT32, (4, 6)))[:, ::2]
    if name == "tvm_ffi":
        strided = named(name).take(strided)
    with pytest.raises(ValueError, match="contiguous"):
        OrtValue.from_dlpack(strided, copy=False)
    value = OrtValue.from_dlpack(strided)
    assert value.numpy().tobytes() == np.ascontiguousarray(np.from_dlpack(strided)).tobytes()


def test_torch_gives_pairs_of_float4() -> None:
    bytes_ = torch.arange(6, dtype=torch.uint8).reshape(2, 3)
    value = OrtValue.from_dlpack(bytes_.view(torch.float4_e2m1fn_x2), copy=False)
    assert (value.element_type(), value.shape()) == (onnx.TensorProto.FLOAT4E2M1, [2, 6])
    assert value.data_ptr() == bytes_.data_ptr()
