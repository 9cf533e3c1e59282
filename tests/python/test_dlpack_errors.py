"""What a producer raises arrives as it was raised, and what it answers wrongly is refused."""

import numpy as np
import pytest
import torch
from dlpack_structs import CPU, USED_VERSIONED, VERSIONED, Lent, Producer, name_of
from support import eventually, refused

from ortdl_torch import from_dlpack, from_ortvalue, to_ortvalue


class Own(Exception):  # noqa: N818
    pass


ERRORS = [
    BufferError("cannot export"),
    ValueError("wrong"),
    RuntimeError("broken"),
    KeyError("key"),
    Own("mine"),
    KeyboardInterrupt(),
    SystemExit(3),
    MemoryError(),
    StopIteration(),
    GeneratorExit(),
    OSError(2, "no file"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
]
every_error = pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)


@every_error
@pytest.mark.parametrize("where", ["__dlpack__", "__dlpack_device__", "lookup"])
def test_error_of_the_producer_arrives(error: BaseException, where: str) -> None:
    calls = []

    def fail(*_: object, **__: object) -> object:
        calls.append(where)
        raise error

    names = {"__dlpack__": lambda self, **o: Lent(np.ones(2)).capsule()}
    names["__dlpack_device__"] = lambda self: CPU
    if where == "lookup":
        names = {"__getattr__": fail}
    else:
        names[where] = fail
    with pytest.raises(type(error)) as caught:
        from_dlpack(type("Failing", (), names)())
    assert caught.value is error
    assert len(calls) == 1
    assert error.__cause__ is None


def test_producer_that_knows_no_versions() -> None:
    lent = Lent(np.arange(3.0), versioned=False)

    class Older:
        def __dlpack__(self, stream: int | None = None) -> object:
            assert stream in (None, -1)
            return lent.capsule()

        def __dlpack_device__(self) -> tuple[int, int]:
            return CPU

    class Oldest(Older):
        def __dlpack__(self) -> object:
            return lent.capsule()

    for producer in (Older(), Oldest()):
        for copy in (None, False, True):
            lent = Lent(np.arange(3.0), versioned=False)
            value = from_dlpack(producer, copy=copy)
            assert value.numpy().tolist() == [0, 1, 2]
            del value
            assert eventually(lambda lent=lent: lent.released == 1)


def test_type_error_of_the_older_call_arrives() -> None:
    error = TypeError("no such dtype")
    asked = []

    class Failing:
        def __dlpack__(self, **options: object) -> object:
            asked.append(options)
            raise error

        def __dlpack_device__(self) -> tuple[int, int]:
            return CPU

    with pytest.raises(TypeError) as caught:
        from_dlpack(Failing())
    assert caught.value is error
    assert "max_version" in asked[0]
    assert "max_version" not in asked[-1]


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("device", [(1, 1), (2, 0), (3, 0), (99, 0), (-1, 0), (1, -1)])
def test_device_that_differs_from_the_capsule(device: tuple[int, int], versioned: bool) -> None:
    lent = Lent(np.ones(2), versioned=versioned)
    capsule = lent.capsule()
    with refused(BufferError, "device"):
        from_dlpack(Producer(capsule, device))
    assert lent.released == 0
    value = from_dlpack(capsule)
    assert from_ortvalue(value).tolist() == [1, 1]
    del value
    assert lent.released == 1


def test_capsule_elsewhere_than_the_device_says() -> None:
    lent = Lent(np.ones(2), device=(2, 0))
    capsule = lent.capsule()
    with refused(BufferError, "device"):
        from_dlpack(Producer(capsule, CPU))
    assert (lent.released, name_of(capsule)) == (0, VERSIONED)
    with refused(ValueError, "device"):
        from_dlpack(Producer(capsule, (2, 0)))
    assert lent.released == 0
    lent.forget()


@pytest.mark.parametrize(
    "device", [None, 1, "cpu", (1,), (1, 0, 0), (1.0, 0), ("1", "0"), [1, 0], (None, None)]
)
def test_device_of_another_kind(device: object) -> None:
    lent = Lent(np.ones(2))
    with refused(TypeError, "device"):
        from_dlpack(Producer(lent.capsule(), device))
    assert lent.released == 0
    lent.forget()


def test_device_beyond_64_bits() -> None:
    for device in ((2**70, 0), (1, 2**70)):
        with refused(ValueError, "device"):
            from_dlpack(Producer(None, device))


@pytest.mark.parametrize("answer", [None, 3, "capsule", np.ones(2), (1, 2)], ids=str)
def test_answer_that_is_no_capsule(answer: object) -> None:
    with refused(TypeError, "capsule"):
        from_dlpack(Producer(lambda: answer))


def test_used_capsule_of_a_producer() -> None:
    lent = Lent(np.ones(2))
    producer = Producer(lent.capsule())
    value = from_dlpack(producer)
    with refused(ValueError, "used"):
        from_dlpack(producer)
    assert name_of(producer._capsule) == USED_VERSIONED
    del value
    assert lent.released == 1


GRAD = {
    "tensor": lambda: torch.ones(2, requires_grad=True),
    "parameter": lambda: torch.nn.Parameter(torch.ones(2)),
    "result": lambda: torch.ones(2, requires_grad=True) * 2,
}


@pytest.mark.parametrize("kind", GRAD)
def test_tensor_that_requires_grad_is_refused_always(kind: str) -> None:
    x = GRAD[kind]()
    for copy in (None, False, True):
        with refused(BufferError, "grad"):
            from_dlpack(x, copy=copy)
        with torch.no_grad(), refused(BufferError, "grad"):
            from_dlpack(x, copy=copy)
    assert to_ortvalue(x.detach()).shape() == [2]


def test_type_without_counterpart_is_named() -> None:
    for source in (torch.ones(2, dtype=torch.complex64), np.ones(2, np.complex128)):
        with refused(TypeError, "complex"):
            from_dlpack(source)
