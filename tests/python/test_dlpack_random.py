"""Random structs over a real buffer: the right elements, or one error and a usable capsule."""

from math import prod
from typing import Any

import numpy as np
from dlpack_structs import COPIED, PADDED, READ_ONLY, TYPES, Lent, name_of
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support import eventually

from ortdl_torch import OrtValue, from_dlpack

SIZE = 8192
MIDDLE = SIZE // 2  # every element that the strategies can address lies in the buffer
BYTES = np.random.default_rng(4).integers(0, 256, SIZE, np.uint8)
MOST = 2**63 - 1
ERRORS = (TypeError, ValueError, BufferError)
HOSTS = (1, 3, 11)

# An impossible number is so large that no memory can be reached with it.
sizes = st.one_of(st.integers(0, 4), st.integers(0, 4), st.sampled_from([-1, 2**57, MOST, -MOST]))
steps = st.one_of(
    st.integers(-8, 8), st.integers(0, 4), st.sampled_from([2**57, MOST, -MOST, -MOST - 1])
)
types = st.one_of(
    st.sampled_from([(*kind, 1) for kind in TYPES.values()]),
    st.sampled_from([(17, 4, 2), (5, 64, 1), (2, 32, 0), (2, 32, 4), (6, 1, 1)]),
    st.tuples(st.integers(0, 20), st.integers(0, 255), st.integers(0, 3)),
)


@st.composite
def structs(draw: st.DrawFn) -> dict[str, Any]:
    """The fields of a struct: sound ones, each now and then replaced by one that is not."""

    def seldom(usual: st.SearchStrategy[Any], *odd: Any) -> Any:
        return draw(st.sampled_from(odd)) if draw(st.integers(0, 15)) == 0 else draw(usual)

    shape = draw(st.lists(sizes if draw(st.booleans()) else st.integers(1, 3), max_size=4))
    strides = draw(st.one_of(st.none(), st.lists(steps, min_size=4, max_size=4), st.just("C")))
    if strides == "C":
        strides = [prod(shape[k + 1 :]) % (MOST + 1) for k in range(len(shape))]
    if strides is not None:
        strides = strides[: len(shape)]
    code, bits, lanes = draw(types)
    return {
        "shape": seldom(st.just(shape), None),
        "strides": strides,
        "ndim": seldom(st.just(len(shape)), -1, 65, 2**31 - 1, -(2**31)),
        "code": code,
        "bits": bits,
        "lanes": lanes,
        "data": seldom(st.just("buffer"), None),
        "byte_offset": seldom(st.integers(0, 16), 2**63, 2**64 - 1),
        "device": seldom(st.just((1, 0)), (3, 0), (11, 0), (2, 0), (99, 0), (-1, 0)),
        "flags": seldom(st.integers(0, 3), PADDED, 8, 2**63),
    }


def is_contiguous(shape: list[int], strides: list[int] | None) -> bool:
    if strides is None or 0 in shape:
        return True
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def reach(shape: list[int], strides: list[int] | None) -> int:
    if strides is None:
        return 0
    return sum((size - 1) * abs(stride) for size, stride in zip(shape, strides, strict=True))


def elements(fields: dict[str, Any]) -> bytes | None:
    """The bytes that a value of the struct has, or None if it must be refused whatever `copy` is.

    Written from dlpack.h and from what the documentation of `from_dlpack` says.
    """
    code, bits, lanes = fields["code"], fields["bits"], fields["lanes"]
    pairs = (code, bits, lanes) == (17, 4, 2)
    if not pairs and ((code, bits) not in TYPES.values() or lanes != 1):
        return None
    flags, shape, strides = fields["flags"], fields["shape"], fields["strides"]
    if flags >= 8 or (flags & PADDED and bits < 8) or fields["device"][0] not in HOSTS:
        return None
    if not 0 <= fields["ndim"] <= 64 or (shape is None and fields["ndim"]):
        return None
    shape = shape or []
    if any(size < 0 or size >= 2**57 for size in shape) or (pairs and not shape):
        return None
    if fields["byte_offset"] >= 2**63:
        return None
    count = prod(shape) * (2 if pairs else 1)
    if count == 0:
        return b""
    contiguous = is_contiguous(shape, strides)
    if fields["data"] is None or reach(shape, strides) >= 2**57:
        return None
    if strides is not None and -MOST - 1 in strides:
        return None  # not even its size can be told in 64 bits
    start = MIDDLE + fields["byte_offset"]
    if contiguous:
        return BYTES[start : start + (count * bits + 7) // 8].tobytes()
    if bits < 8:
        return None
    width = bits // 8
    steps_ = np.array(strides, dtype=np.int64)
    starts = (start + int((np.array(i) * steps_).sum()) * width for i in np.ndindex(*shape))
    return b"".join(BYTES[at : at + width].tobytes() for at in starts)


def needs_copy(fields: dict[str, Any]) -> bool:
    shape = fields["shape"] or []
    start = BYTES.ctypes.data + MIDDLE + fields["byte_offset"]
    aligned = start % max(fields["bits"] // 8, 1) == 0 or 0 in shape
    return not aligned or not is_contiguous(shape, fields["strides"])


def check_value(value: OrtValue, fields: dict[str, Any], want: bytes, copy: bool | None) -> None:
    shape = list(fields["shape"] or [])
    if fields["lanes"] == 2:
        shape[-1] *= 2
    assert value.shape() == shape
    assert TYPES[value.element_type()] == (fields["code"], fields["bits"])
    assert value._memory().numpy().tobytes() == want
    shared = fields["flags"] & (COPIED | READ_ONLY) == COPIED  # a copy of ours alone
    own = needs_copy(fields) or (copy is True and not shared)
    if want:
        assert (value.data_ptr() == BYTES.ctypes.data + MIDDLE + fields["byte_offset"]) is not own
    if not own:
        assert value.read_only is bool(fields["flags"] & READ_ONLY)


SOUND = {
    "shape": [2, 3],
    "strides": None,
    "ndim": 2,
    "code": 2,
    "bits": 32,
    "lanes": 1,
    "data": "buffer",
    "byte_offset": 0,
    "device": (1, 0),
    "flags": 0,
}


@settings(
    derandomize=True,
    max_examples=600,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@example(fields=SOUND, copy=False, versioned=True)
@example(fields=SOUND | {"strides": [-3, 2]}, copy=None, versioned=False)
@example(fields=SOUND | {"strides": [0, 0], "byte_offset": 3}, copy=None, versioned=True)
@given(fields=structs(), copy=st.sampled_from([None, False, True]), versioned=st.booleans())
def test_random_struct(fields: dict[str, Any], copy: bool | None, versioned: bool) -> None:
    fields = dict(fields)
    if fields["shape"] is None or fields["ndim"] != len(fields["shape"]):
        fields["strides"] = None
    if not versioned:
        fields["flags"] = 0
    want = elements(fields)
    given_ = {**fields, "data": BYTES.ctypes.data + MIDDLE if fields["data"] else None}
    if not versioned:
        del given_["flags"]
    lent = Lent(BYTES, versioned=versioned, **given_)
    capsule = lent.capsule()
    name = name_of(capsule)
    try:
        value = from_dlpack(capsule, copy=copy)
    except ERRORS:
        assert want is None or (copy is False and needs_copy(fields))
        assert (lent.released, name_of(capsule)) == (0, name)
        lent.forget()
        return
    assert want is not None
    assert not (copy is False and needs_copy(fields))
    check_value(value, fields, want, copy)
    del value
    assert eventually(lambda: lent.released == 1)
