"""A method that a producer lacks is a TypeError; an AttributeError of one that exists arrives."""

import numpy as np
import pytest
import torch
from dlpack_structs import CPU, Lent, Producer
from support import refused

from ortdl_torch import OrtValue, from_dlpack

INNER = AttributeError("the backend has no buffer")


class Nothing:
    pass


class Slots:
    __slots__ = ("other",)


class GetattrWithoutIt:
    def __getattr__(self, name: str) -> object:
        raise AttributeError(name)


class GetattrWithAName:
    def __getattr__(self, name: str) -> object:
        raise AttributeError(f"no {name} here", name=name, obj=self)


class GetattributeWithoutIt:
    def __getattribute__(self, name: str) -> object:
        if name.startswith("__dlpack"):
            raise AttributeError(name)
        return super().__getattribute__(name)


class MetaOnly(type):
    def __dlpack__(cls, **options: object) -> object:
        raise AssertionError("a method of the class is none of the instance")


class OfMeta(metaclass=MetaOnly):
    pass


class WithoutDevice:
    def __dlpack__(self, **options: object) -> object:
        raise AssertionError("asked before the device was known")


@pytest.mark.parametrize(
    "cls",
    [
        Nothing,
        Slots,
        GetattrWithoutIt,
        GetattrWithAName,
        GetattributeWithoutIt,
        OfMeta,
        WithoutDevice,
    ],
)
def test_missing_method_is_a_type_error(cls: type) -> None:
    for read in (from_dlpack, OrtValue.from_dlpack):
        with refused(TypeError, "__dlpack", cls.__name__):
            read(cls())


def test_class_is_no_producer() -> None:
    for cls in (Nothing, Producer, np.ndarray, torch.Tensor, OrtValue):
        with refused(TypeError):
            from_dlpack(cls)


class Property:
    @property
    def __dlpack__(self) -> object:
        raise INNER

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU


class Cached(Property):
    """The property is inherited."""


class DeviceProperty:
    def __dlpack__(self, **options: object) -> object:
        return Lent(np.ones(2)).capsule()

    @property
    def __dlpack_device__(self) -> object:
        raise INNER


class Method(DeviceProperty):
    def __dlpack__(self, **options: object) -> object:
        raise INNER

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU


class DeviceMethod(DeviceProperty):
    def __dlpack_device__(self) -> tuple[int, int]:
        raise INNER


class Descriptor:
    class Failing:
        def __get__(self, obj: object, owner: type | None = None) -> object:
            raise INNER

    __dlpack__ = Failing()

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU


class PropertyOfAMeta(metaclass=MetaOnly):
    @property
    def __dlpack__(self) -> object:
        raise INNER


class PropertyAndGetattr(Property):
    """Python asks `__getattr__` after a property failed: what that raises is the object's word."""

    def __getattr__(self, name: str) -> object:
        raise INNER


class PropertyInASlotted(Property):
    __slots__ = ("other",)


@pytest.mark.parametrize(
    "cls",
    [
        Property,
        Cached,
        DeviceProperty,
        Method,
        DeviceMethod,
        Descriptor,
        PropertyOfAMeta,
        PropertyAndGetattr,
        PropertyInASlotted,
    ],
)
def test_attribute_error_of_what_exists_arrives(cls: type) -> None:
    for read in (from_dlpack, OrtValue.from_dlpack):
        with pytest.raises(AttributeError) as caught:
            read(cls())
        assert caught.value is INNER


def test_empty_slot_arrives() -> None:
    class Empty:
        __slots__ = ("__dlpack__", "__dlpack_device__")

    with refused(AttributeError, "__dlpack__"):
        from_dlpack(Empty())


def test_error_inside_getattr_arrives() -> None:
    class Forwarding:
        def __getattr__(self, name: str) -> object:
            return getattr(object.__getattribute__(self, "backend"), name)

    with refused(AttributeError, "backend"):
        from_dlpack(Forwarding())


def test_property_that_misses_another_attribute_arrives() -> None:
    class Computed:
        @property
        def __dlpack__(self) -> object:
            return self.buffer.__dlpack__

        def __dlpack_device__(self) -> tuple[int, int]:
            return CPU

    with refused(AttributeError, "buffer"):
        from_dlpack(Computed())


def test_getattr_that_forwards_works() -> None:
    a = np.arange(3.0)

    class Forwarding:
        def __getattr__(self, name: str) -> object:
            return getattr(a, name)

    assert from_dlpack(Forwarding()).data_ptr() == a.ctypes.data


def test_method_in_a_slot_works() -> None:
    class Slotted:
        __slots__ = ("__dlpack__", "__dlpack_device__")

    a = np.arange(3.0)
    made = Slotted()
    made.__dlpack__, made.__dlpack_device__ = a.__dlpack__, a.__dlpack_device__
    assert from_dlpack(made).data_ptr() == a.ctypes.data
