"""The DLPack protocol of the Python array API standard, as producer and as consumer."""

import numpy as np
import pytest
import torch
from dlpack_structs import (
    COPIED,
    CPU,
    LEGACY,
    READ_ONLY,
    VERSIONED,
    Lent,
    Producer,
    name_of,
    struct_of,
)
from support import live, refused

from ortdl_torch import OrtValue, from_dlpack, from_ortvalue, to_dlpack, to_ortvalue


def made() -> OrtValue:
    """The numbers 0 to 5 in float32."""
    return to_ortvalue(torch.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (None, LEGACY),
        ((0, 0), LEGACY),
        ((0, 8), LEGACY),
        ((0, 99), LEGACY),
        ((1, 0), VERSIONED),
        ((1, 3), VERSIONED),
        ((1, 99), VERSIONED),
        ((2, 0), VERSIONED),
        ((9, 9), VERSIONED),
    ],
)
def test_max_version(version: tuple[int, int] | None, name: bytes) -> None:
    value = made()
    for capsule in (value.__dlpack__(max_version=version), to_dlpack(value, max_version=version)):
        assert name_of(capsule) == name
        if name == VERSIONED:
            struct = struct_of(capsule)
            assert (struct.version.major, struct.flags) == (1, 0)


@pytest.mark.parametrize("version", [1, "10", (1,), (1, 0, 0), [1, 0], ("1", "0"), (1.0, 0)])
def test_max_version_of_another_kind(version: object) -> None:
    value = made()
    with refused(TypeError, "max_version"):
        value.__dlpack__(max_version=version)
    with refused(TypeError, "max_version"):
        to_dlpack(value, max_version=version)


@pytest.mark.parametrize("stream", [None, -1])
def test_stream_of_the_cpu(stream: int | None) -> None:
    value = made()
    assert name_of(value.__dlpack__(stream=stream)) == LEGACY


@pytest.mark.parametrize("stream", [0, 1, 2, -2, 140000000])
def test_other_streams_are_refused(stream: int) -> None:
    value = made()
    with refused(ValueError, "stream"):
        value.__dlpack__(stream=stream)


@pytest.mark.parametrize(
    "stream", [True, False, "1", 1.0, -1.0, (1,), object()], ids=lambda s: type(s).__name__
)
def test_stream_of_another_kind(stream: object) -> None:
    value = made()
    with refused(TypeError, "stream"):
        value.__dlpack__(stream=stream)


def test_stream_beyond_64_bits() -> None:
    value = made()
    with refused(ValueError, "stream"):
        value.__dlpack__(stream=2**70)


@pytest.mark.parametrize("device", [(2, 0), (10, 0), (1, 1), (1, -1), (0, 0), (99, 0)])
def test_other_devices_cannot_be_exported_to(device: tuple[int, int]) -> None:
    value = made()
    with refused(BufferError, "device"):
        value.__dlpack__(dl_device=device)


@pytest.mark.parametrize("device", ["cpu", 1, (1,), (1, 0, 0), [1, 0], ("cpu", 0)], ids=repr)
def test_device_of_another_kind(device: object) -> None:
    value = made()
    with refused(TypeError, "dl_device"):
        value.__dlpack__(dl_device=device)


def test_own_device() -> None:
    value = made()
    device = value.__dlpack_device__()
    assert (type(device), device) == (tuple, CPU)
    assert all(type(part) is int for part in device)
    capsule = value.__dlpack__(dl_device=device)
    assert struct_of(capsule).tensor.data == value.data_ptr()


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_copy(version: tuple[int, int] | None) -> None:
    value = made()
    for copy in (None, False):
        capsule = value.__dlpack__(max_version=version, copy=copy)
        assert struct_of(capsule).tensor.data == value.data_ptr()
        del capsule
    before = live()["values"]
    capsule = value.__dlpack__(max_version=version, copy=True)
    struct = struct_of(capsule)
    assert struct.tensor.data != value.data_ptr()
    assert version is None or struct.flags == COPIED
    want = from_ortvalue(value).clone()
    from_ortvalue(value).fill_(9)
    assert torch.equal(torch.utils.dlpack.from_dlpack(capsule), want)
    del capsule
    assert live()["values"] == before


@pytest.mark.parametrize("copy", [0, 1, "yes"])
def test_copy_of_another_kind(copy: object) -> None:
    value = made()
    with refused(TypeError, "copy"):
        value.__dlpack__(copy=copy)


def test_copy_of_a_packed_value() -> None:
    value = OrtValue.from_packed(torch.tensor([0x21, 0x43], dtype=torch.uint8), 22, [3])
    capsule = value.__dlpack__(max_version=(1, 0), copy=True)
    assert struct_of(capsule).flags == COPIED
    again = from_dlpack(capsule)
    value.packed().zero_()
    assert (again.shape(), again.packed().tolist()) == ([3], [0x21, 0x43])


def test_arguments_are_keywords_that_exist() -> None:
    value = made()
    for call in (
        lambda: value.__dlpack__(None),
        lambda: value.__dlpack__(other=None),
        lambda: value.__dlpack_device__(1),
    ):
        with refused(TypeError):
            call()


def test_torch_and_numpy_read_values(tensor: torch.Tensor) -> None:
    value = to_ortvalue(tensor)
    y = torch.from_dlpack(value)
    a = np.from_dlpack(value)
    assert y.data_ptr() == a.ctypes.data == tensor.data_ptr()
    assert a.flags.writeable
    assert torch.equal(y, tensor)
    assert np.array_equal(a, tensor.numpy())
    assert np.from_dlpack(value, copy=True).ctypes.data != tensor.data_ptr()
    assert np.from_dlpack(value, device="cpu", copy=False).ctypes.data == tensor.data_ptr()


@pytest.mark.parametrize("copy", [None, False, True])
def test_values_of_arrays_tensors_and_values(tensor: torch.Tensor, copy: bool | None) -> None:
    for source in (tensor, tensor.numpy(), to_ortvalue(tensor)):
        for read in (from_dlpack, OrtValue.from_dlpack):
            value = read(source, copy=copy)
            assert type(value) is OrtValue
            assert (value.data_ptr() == tensor.data_ptr()) is (copy is not True)
            assert torch.equal(from_ortvalue(value), tensor)


@pytest.mark.parametrize("source", ["array", "tensor"])
def test_strided_source(source: str) -> None:
    x = torch.arange(12.0).reshape(3, 4).t()
    given = x if source == "tensor" else x.numpy()
    with refused(ValueError, "contiguous|stride", "copy"):
        from_dlpack(given, copy=False)
    for copy in (None, True):
        value = from_dlpack(given, copy=copy)
        assert value.data_ptr() != x.data_ptr()
        assert torch.equal(from_ortvalue(value), x)


def test_reversed_array() -> None:
    a = np.arange(6, dtype=np.int32)[::-1]
    with refused(ValueError, "contiguous|stride", "copy"):
        from_dlpack(a, copy=False)
    assert from_ortvalue(from_dlpack(a)).tolist() == [5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize("device", ["cpu", torch.device("cpu"), CPU, None], ids=str)
def test_device_that_is_honoured(device: object, tensor: torch.Tensor) -> None:
    for source in (tensor, tensor.numpy(), to_ortvalue(tensor), to_dlpack(to_ortvalue(tensor))):
        value = OrtValue.from_dlpack(source, device=device)
        assert value.data_ptr() == tensor.data_ptr()


@pytest.mark.parametrize("device", ["cuda", "meta", torch.device("cuda", 1), (2, 0), (1, 3)])
def test_device_that_is_refused(device: object, tensor: torch.Tensor) -> None:
    with refused(ValueError, "cpu"):
        OrtValue.from_dlpack(tensor, device=device)


@pytest.mark.parametrize(
    "device", [object(), 1.5, (1,), ("cpu", 0), [1, 0]], ids=lambda d: type(d).__name__
)
def test_device_argument_of_another_kind(device: object, tensor: torch.Tensor) -> None:
    with refused(TypeError, "device"):
        OrtValue.from_dlpack(tensor, device=device)


def test_newest_version_is_asked_for_first() -> None:
    lent = Lent(np.arange(3.0))
    producer = Producer(lent.capsule())
    value = from_dlpack(producer)
    (asked,) = producer.asked
    assert asked["max_version"] >= (1, 3)
    assert asked.get("stream") in (None, -1)
    assert asked.get("copy") is not True
    assert from_ortvalue(value).tolist() == [0, 1, 2]
    del value
    assert lent.released == 1


def test_producer_is_told_not_to_copy() -> None:
    producer = Producer(Lent(np.arange(3.0)).capsule())
    from_dlpack(producer, copy=False)
    assert producer.asked[0]["copy"] is False


@pytest.mark.parametrize("versioned", [False, True])
def test_producer_may_answer_with_either_struct(versioned: bool) -> None:
    lent = Lent(np.arange(3.0), versioned=versioned)
    value = from_dlpack(Producer(lent.capsule()))
    assert from_ortvalue(value).tolist() == [0, 1, 2]
    del value
    assert lent.released == 1


@pytest.mark.parametrize("flags", [0, COPIED, READ_ONLY])
def test_copy_is_ours_unless_the_producer_made_one(flags: int) -> None:
    a = np.arange(3.0)
    lent = Lent(a, flags=flags)
    value = from_dlpack(Producer(lent.capsule()), copy=True)
    assert not value.read_only
    if not flags & COPIED:
        assert value.data_ptr() != a.ctypes.data
    from_ortvalue(value).add_(1)
    del value
    assert lent.released == 1


def test_value_is_a_producer_for_itself() -> None:
    value = made()

    class Wrapped:
        def __dlpack__(self, **options: object) -> object:
            return value.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return value.__dlpack_device__()

    assert from_dlpack(Wrapped(), copy=False).data_ptr() == value.data_ptr()


def test_script_object_has_capsules() -> None:
    value = made()
    capsule = to_dlpack(value.script_object)
    assert struct_of(capsule).tensor.data == value.data_ptr()


def test_copy_of_a_read_only_copy_may_be_written_to() -> None:
    lent = Lent(np.arange(3.0), flags=COPIED | READ_ONLY)
    assert not from_dlpack(Producer(lent.capsule()), copy=True).read_only


@pytest.mark.parametrize("device", [(1 + 2**32, 0), (1, 2**32)])
def test_device_beyond_32_bits_is_another_device(device: tuple[int, int]) -> None:
    lent = Lent(np.ones(2))
    with refused(ValueError, "no device"):
        from_dlpack(Producer(lent.capsule(), device))
    assert lent.released == 0
    lent.forget()


@pytest.mark.parametrize("device", ["gpu", "", "cpu:x", "cpu:1", "nonsense"])
def test_name_that_is_no_device(device: str, tensor: torch.Tensor) -> None:
    with refused(ValueError):
        from_dlpack(tensor, device=device)
