"""The DLPack part of the array API standard (2024.12), with array_api_strict as the other side.

The standard's own suite, array-api-tests, is not run: pip finds no such package. What the
standard's text says of `from_dlpack`, `__dlpack__` and `__dlpack_device__` is asked here.
"""

from enum import IntEnum
from typing import Any

import numpy as np
import pytest
from peers import PLAIN, Kind, Memory, named

from ortdl_torch import OrtValue

KNOWN = [kind for kind in PLAIN if kind.name != "float16"]
SHAPES = [(), (1,), (0,), (4,), (2, 3), (2, 0, 3)]


@pytest.fixture
def xp() -> Any:
    return named("array_api_strict").xp


def numbers(array: Any) -> np.ndarray:
    return np.from_dlpack(array)


def share(a: Any, b: Any) -> bool:
    return np.shares_memory(numbers(a), numbers(b))


def test_the_device_is_a_pair_of_integers(xp: Any) -> None:
    device = Memory(KNOWN[0], (2,)).value.__dlpack_device__()
    assert device == xp.ones(2).__dlpack_device__() == (1, 0)
    assert [type(part) for part in device] == [int, int]


@pytest.mark.parametrize("copy", [None, False, True])
@pytest.mark.parametrize("kind", KNOWN, ids=str)
def test_from_dlpack_of_a_value(xp: Any, kind: Kind, copy: bool | None) -> None:
    for shape in SHAPES:
        memory = Memory(kind, shape)
        value = memory.value
        array = xp.from_dlpack(value, copy=copy)
        assert (array.shape, array.dtype) == (shape, getattr(xp, kind.name))
        assert memory.same(numbers(array).reshape(-1).view(np.uint8))
        assert share(array, value) == (copy is not True and memory.nbytes > 0)


@pytest.mark.parametrize("copy", [None, False, True])
@pytest.mark.parametrize("kind", KNOWN, ids=str)
def test_from_dlpack_of_an_array(xp: Any, kind: Kind, copy: bool | None) -> None:
    for shape in SHAPES:
        memory = Memory(kind, shape)
        array = xp.from_dlpack(memory.array)
        value = OrtValue.from_dlpack(array, copy=copy)
        assert (tuple(value.shape()), value.element_type()) == (shape, kind.number)
        assert memory.same(value.packed().numpy())
        assert share(array, value) == (copy is not True and memory.nbytes > 0)


@pytest.mark.parametrize("copy", [None, False, True])
def test_an_explicit_device(xp: Any, copy: bool | None) -> None:
    value = Memory(KNOWN[1], (3,)).value
    array = xp.from_dlpack(value, device=xp.Device("CPU_DEVICE"), copy=copy)
    assert array.device == xp.Device("CPU_DEVICE")
    assert share(array, value) == (copy is not True)
    again = OrtValue.from_dlpack(array, device="cpu", copy=copy)
    assert share(array, again) == (copy is not True)


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 1), (1, 3), (2, 0), (100, 3)])
@pytest.mark.parametrize("dl_device", [None, (1, 0)])
@pytest.mark.parametrize("copy", [None, False, True])
def test_every_keyword_of_dlpack(
    version: tuple[int, int] | None, dl_device: tuple[int, int] | None, copy: bool | None
) -> None:
    value = Memory(KNOWN[1], (3,)).value
    capsule = value.__dlpack__(stream=None, max_version=version, dl_device=dl_device, copy=copy)
    wanted = "dltensor_versioned" if version is not None and version >= (1, 0) else "dltensor"
    assert f'"{wanted}"' in repr(capsule)


def test_the_device_may_be_an_enumerator() -> None:
    class Device(IntEnum):
        CPU = 1
        CUDA = 2

    value = Memory(KNOWN[1], (3,)).value
    value.__dlpack__(dl_device=(Device.CPU, 0))
    with pytest.raises(BufferError):
        value.__dlpack__(dl_device=(Device.CUDA, 0))


def test_the_keywords_have_no_positions() -> None:
    value = Memory(KNOWN[1], (3,)).value
    with pytest.raises(TypeError):
        value.__dlpack__(None)
    with pytest.raises(TypeError):
        OrtValue.from_dlpack(value, None)


def test_a_copy_that_would_be_needed_but_is_forbidden(xp: Any) -> None:
    array = xp.reshape(xp.arange(12, dtype=xp.float32), (3, 4))[:, ::2]
    with pytest.raises(ValueError, match="copy"):
        OrtValue.from_dlpack(array, copy=False)
    assert OrtValue.from_dlpack(array).numpy().tolist() == numbers(array).tolist()


def test_writes_go_both_ways(xp: Any) -> None:
    array = xp.zeros((2, 3), dtype=xp.float32)
    value = OrtValue.from_dlpack(array)
    array[0, 0] = 1.0
    assert value.numpy()[0, 0] == 1
    value.numpy()[1, 1] = 2
    assert float(array[1, 1]) == 2
