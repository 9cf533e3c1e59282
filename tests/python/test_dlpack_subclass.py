"""Tensor subclasses as DLPack producers: PyTorch's table checks little, and they inherit it."""

import warnings

import pytest
import torch
from support import refused
from torch._subclasses.fake_tensor import FakeTensorMode

from ortdl_torch import from_dlpack, from_ortvalue


class Plain(torch.Tensor):
    pass


class Wrapper(torch.Tensor):
    """A tensor subclass without memory of its own."""

    @staticmethod
    def __new__(cls) -> "Wrapper":
        return torch.Tensor._make_wrapper_subclass(cls, (3,))

    @classmethod
    def __torch_dispatch__(
        cls, func: object, types: object, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        raise AssertionError(f"{func} was called on a refused tensor")


class Refusing(torch.Tensor):
    def __dlpack__(self, **options: object) -> object:
        raise BufferError("this tensor keeps its memory")


def fake() -> torch.Tensor:
    with FakeTensorMode():
        return torch.ones(3)


def resized() -> torch.Tensor:
    x = torch.ones(3).as_subclass(Plain)
    x.untyped_storage().resize_(0)
    return x


def quantized() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8)


def negated() -> torch.Tensor:
    """The numbers -1, -3, -5, as a negation that is pending."""
    x = torch.arange(6.0).reshape(3, 2)
    return torch.view_as_complex(x).conj().imag.as_subclass(Plain)


def contiguous_negated() -> torch.Tensor:
    return torch.view_as_complex(torch.ones(1, 2)).conj().imag.as_subclass(Plain)


@pytest.mark.parametrize("copy", [None, False])
def test_plain_subclass_shares(copy: bool | None, tensor: torch.Tensor) -> None:
    for x in (
        tensor.as_subclass(Plain),
        torch.nn.Parameter(tensor, requires_grad=False),
        torch.nn.Buffer(tensor),
    ):
        assert from_dlpack(x, copy=copy).data_ptr() == tensor.data_ptr()


REFUSED = {
    "requires grad": (BufferError, lambda: torch.ones(3).as_subclass(Plain).requires_grad_()),
    "wrapper": (BufferError, Wrapper),
    "fake": (BufferError, fake),
    "storage resized to 0": (BufferError, resized),
    "meta": (BufferError, lambda: torch.empty(3, device="meta").as_subclass(Plain)),
    "quantized": (TypeError, lambda: quantized().as_subclass(Plain)),
    "complex": (TypeError, lambda: torch.ones(3, dtype=torch.complex64).as_subclass(Plain)),
}


@pytest.mark.parametrize("copy", [None, False, True])
@pytest.mark.parametrize("kind", REFUSED)
def test_refused_as_a_plain_tensor_is(kind: str, copy: bool | None) -> None:
    error, make = REFUSED[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with refused(error):
            from_dlpack(make(), copy=copy)


def test_pending_negation_is_not_lost() -> None:
    with refused(BufferError):
        from_dlpack(contiguous_negated(), copy=False)
    for copy in (None, True):
        assert from_ortvalue(from_dlpack(negated(), copy=copy)).tolist() == [-1, -3, -5]


def test_method_of_the_subclass_counts() -> None:
    with refused(BufferError, "keeps its memory"):
        from_dlpack(torch.ones(3).as_subclass(Refusing))
