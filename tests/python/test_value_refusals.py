"""What is refused, with exactly which exception, and that nothing stays behind."""

import copy
import gc
import pickle
import warnings
import weakref
from collections.abc import Callable, Iterable

import numpy as np
import pytest
import torch
from models import unary
from support import live, refused
from torch._subclasses.fake_tensor import FakeTensorMode

from ortdl_torch import (
    InferenceSession,
    OrtValue,
    from_ortvalue,
    from_ortvalues,
    to_ortvalue,
    to_ortvalues,
)


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


def resized(size: int, step: int = 1) -> torch.Tensor:
    """Every `step`-th of eight float32 numbers whose storage now holds `size` bytes."""
    x = torch.ones(8)[::step]
    x.untyped_storage().resize_(size)
    return x


def without_warnings(make: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    """`make` without PyTorch's notes on unfinished layouts."""

    def quiet() -> torch.Tensor:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return make()

    return quiet


QUANTIZED = without_warnings(lambda: torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8))
# name -> how it is made, the exception, what its message names
REFUSED: dict[str, tuple[Callable[[], torch.Tensor], type[Exception], str]] = {
    "requires grad": (lambda: torch.ones(2, requires_grad=True), BufferError, "no_grad|detach"),
    "activation": (
        lambda: torch.ones(2, requires_grad=True) * 2,
        BufferError,
        "no_grad|detach",
    ),
    "parameter": (lambda: torch.nn.Parameter(torch.ones(2)), BufferError, "no_grad|detach"),
    "sparse": (lambda: torch.eye(3).to_sparse(), BufferError, "sparse"),
    "csr": (without_warnings(lambda: torch.eye(3).to_sparse_csr()), BufferError, "sparse"),
    "bsr": (without_warnings(lambda: torch.eye(4).to_sparse_bsr((2, 2))), BufferError, "sparse"),
    "mkldnn": (lambda: torch.ones(2, 2).to_mkldnn(), BufferError, "mkldnn|mkl-dnn"),
    "meta": (lambda: torch.empty(4, device="meta"), BufferError, "meta"),
    "storage resized to 0": (lambda: resized(0), BufferError, "storage"),
    "strided, storage resized to 0": (lambda: resized(0, 2), BufferError, "storage"),
    "strided, storage too small": (lambda: resized(20, 2), BufferError, "storage"),
    "storage too small": (lambda: resized(16), BufferError, "storage"),
    "quantized": (QUANTIZED, TypeError, "quantized|qint8"),
    "complex": (lambda: torch.ones(2, dtype=torch.complex64), TypeError, "complex"),
    "conjugate": (lambda: torch.ones(2, dtype=torch.complex64).conj(), TypeError, "complex"),
    "uint2": (lambda: torch.empty(2, dtype=torch.uint2), TypeError, "uint2"),
    "bits": (lambda: torch.empty(2, dtype=torch.bits8), TypeError, "bits8"),
}
# These reach an op only through the dispatch keys of their own.
WRAPPED: dict[str, tuple[Callable[[], torch.Tensor], type[Exception], str]] = {
    "fake": (lambda: FakeTensorMode().from_tensor(torch.ones(3)), BufferError, "fake"),
    "functional": (lambda: torch._to_functional_tensor(torch.ones(3)), BufferError, "functional"),
    "wrapper subclass": (Wrapper, BufferError, "subclass|storage"),
    "nested": (
        without_warnings(
            lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.strided)
        ),
        BufferError,
        "nested",
    ),
    "jagged": (
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
        BufferError,
        "nested|jagged",
    ),
}
ALL = REFUSED | WRAPPED
DOORS: dict[str, Callable[[torch.Tensor], object]] = {
    "to_ortvalue": to_ortvalue,
    "copy=None": lambda x: to_ortvalue(x, copy=None),
    "copy=True": lambda x: to_ortvalue(x, copy=True),
    "to_ortvalues": lambda x: to_ortvalues([torch.ones(2), x]),
    "session": lambda x: InferenceSession(unary("Relu", None))(x),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", ALL)
def test_refused(name: str, door: str) -> None:
    make, kind, word = ALL[name]
    before = live()
    x = make()
    died = weakref.ref(x)
    with refused(kind, word):
        DOORS[door](x)
    del x
    gc.collect()
    assert died() is None, "the refused tensor is kept alive"
    assert live() == before


@pytest.mark.parametrize("name", REFUSED)
def test_op_refuses_alike(name: str) -> None:
    make, kind, word = REFUSED[name]
    before = live()
    with refused(kind, word):
        torch.ops.ortdl.to_ortvalue(make(), False)
    assert live() == before


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_tensor_of_a_functorch_transform_is_refused() -> None:
    caught: list[BaseException] = []

    def body(x: torch.Tensor) -> torch.Tensor:
        for copied in (False, True):
            try:
                to_ortvalue(x, copy=copied)
            except Exception as e:
                caught.append(e)
        return x

    torch.func.vmap(body)(torch.ones(3))
    torch.func.jvp(body, (torch.ones(3),), (torch.ones(3),))
    assert [type(e) for e in caught] == [BufferError] * 4, caught


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_parameter_is_taken_without_grad_mode(mode: Callable[[], object]) -> None:
    parameter = torch.nn.Parameter(torch.tensor([-1.0, 2.0]))
    session = InferenceSession(unary("Relu"))
    with mode():
        value = to_ortvalue(parameter)
        assert value.data_ptr() == parameter.data_ptr()
        assert to_ortvalues([parameter])[0].data_ptr() == parameter.data_ptr()
        y = from_ortvalue(value)
        assert not y.requires_grad
        assert session(parameter)[0].tolist() == [0, 2]
        assert session(parameter * 3)[0].tolist() == [0, 6]
    assert not from_ortvalue(value).requires_grad


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch._neg_view(torch.arange(1.0, 5.0)),
        lambda: torch.tensor([1 + 2j]).conj().imag,
        lambda: torch.tensor([1 + 2j, 3 - 4j]).conj().imag,
    ],
    ids=["contiguous", "one element", "strided"],
)
def test_negative_bit_is_never_lost(make: Callable[[], torch.Tensor]) -> None:
    x = make()
    assert x.is_neg()
    want = x.resolve_neg().clone()
    with refused(BufferError, "neg"):
        to_ortvalue(x)
    with refused(BufferError, "neg"):
        to_ortvalues([x])
    for copied in (None, True):
        y = from_ortvalue(to_ortvalue(x, copy=copied))
        assert not y.is_neg()
        assert torch.equal(y, want)
    (sum_,) = InferenceSession(unary("Abs"))(x)
    assert torch.equal(sum_, want.abs())
    (same,) = InferenceSession(unary("Identity"))(x)
    assert torch.equal(same, want)


JUNK = [None, 3, 2.5, [1.0, 2.0], (), object(), "x", b"x", np.ones(2), torch.Tensor, torch.float32]


@pytest.mark.parametrize("junk", JUNK, ids=lambda j: type(j).__name__)
def test_what_is_no_tensor_or_no_value(junk: object) -> None:
    before = live()
    name = type(junk).__name__
    with refused(TypeError, name):
        to_ortvalue(junk)
    with refused(TypeError, name):
        to_ortvalues([torch.ones(2), junk])
    with refused(TypeError, name):
        from_ortvalue(junk)
    with refused(TypeError, name):
        from_ortvalues([to_ortvalue(torch.ones(2)), junk])
    assert live() == before


def test_tensor_is_no_value_and_value_no_tensor() -> None:
    x = torch.ones(2)
    with refused(TypeError, "Tensor"):
        from_ortvalue(x)
    with refused(TypeError, "OrtValue"):
        to_ortvalue(to_ortvalue(x))


@pytest.mark.parametrize("call", [to_ortvalues, from_ortvalues])
@pytest.mark.parametrize("junk", [None, 3, torch.tensor(1.0)], ids=str)
def test_batch_that_is_no_sequence(
    call: Callable[[Iterable[object]], object], junk: object
) -> None:
    with refused(TypeError):
        call(junk)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), {}),
        ((torch.ones(2), False), {}),
        ((torch.ones(2),), {"copy": "yes"}),
        ((torch.ones(2),), {"copy": 2.5}),
        ((torch.ones(2),), {"copies": True}),
    ],
    ids=["no argument", "copy by position", "copy='yes'", "copy=2.5", "unknown keyword"],
)
def test_wrong_arguments(arguments: tuple, named: dict[str, object]) -> None:
    with refused(TypeError):
        to_ortvalue(*arguments, **named)
    values = tuple(to_ortvalue(a) if isinstance(a, torch.Tensor) else a for a in arguments)
    with refused(TypeError):
        from_ortvalue(*values, **named)


@pytest.mark.parametrize(
    ("raw", "number", "shape", "kind"),
    [
        (torch.zeros(2, dtype=torch.uint8), 22, [5], ValueError),
        (torch.zeros(2, dtype=torch.uint8), 22, [-1], ValueError),
        (torch.zeros(2, dtype=torch.uint8), 22, [1 << 62, 1 << 62], ValueError),
        (torch.zeros(8, dtype=torch.uint8), 1, [2], TypeError),
        (torch.zeros(2, 2, dtype=torch.uint8), 22, [8], ValueError),
        (torch.zeros(8, dtype=torch.uint8)[::2], 22, [8], ValueError),
        (torch.zeros(2, dtype=torch.int8), 22, [4], TypeError),
        (np.zeros(2, np.uint8), 22, [4], TypeError),
        (torch.zeros(2, dtype=torch.uint8), 22, ["a"], TypeError),
        (torch.zeros(2, dtype=torch.uint8), "int4", [4], TypeError),
        (torch.zeros(2, dtype=torch.uint8), 22, None, TypeError),
    ],
)
def test_bytes_that_do_not_fit(
    raw: torch.Tensor, number: int, shape: list[int], kind: type[Exception]
) -> None:
    before = live()
    with refused(kind):
        OrtValue.from_packed(raw, number, shape)
    assert live() == before


@pytest.mark.parametrize("shape", [[-1], [2, -3], [1 << 62, 1 << 62], [1 << 63]], ids=str)
@pytest.mark.parametrize("number", [1, 22], ids=["float", "int4"])
def test_shape_that_cannot_be(shape: list[int], number: int) -> None:
    with refused(ValueError):
        OrtValue.ortvalue_from_shape_and_type(shape, number)


@pytest.mark.parametrize(
    ("give", "remedy"),
    [
        (to_ortvalue, "OrtValue.ortvalue_from_numpy(array)"),
        (lambda array: to_ortvalues([array]), "OrtValue.ortvalue_from_numpy(array)"),
        (lambda array: OrtValue.from_packed(array, 22, [16]), "torch.from_numpy(array)"),
    ],
    ids=["to_ortvalue", "to_ortvalues", "from_packed"],
)
def test_an_array_is_told_what_takes_it(give: Callable[[np.ndarray], object], remedy: str) -> None:
    with refused(TypeError, "torch.Tensor", "numpy.ndarray", f"use {remedy}"):
        give(np.zeros(8, np.uint8))


@pytest.mark.parametrize("way", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_value_is_neither_pickled_nor_copied(way: Callable[[object], object]) -> None:
    with refused(TypeError, "OrtValue", "from_ortvalue(value)"):
        way(to_ortvalue(torch.ones(2)))
    with refused(TypeError, "OrtValue", "value.packed()"):
        way(OrtValue.from_packed(torch.zeros(8, dtype=torch.uint8), 22, [16]))


def test_a_subclass_may_say_how_it_is_copied() -> None:
    class Copied(OrtValue):
        def __getnewargs__(self) -> tuple[torch.ScriptObject]:
            return (self.script_object,)

    value = Copied(to_ortvalue(torch.ones(2)))
    assert copy.copy(value).data_ptr() == value.data_ptr()
