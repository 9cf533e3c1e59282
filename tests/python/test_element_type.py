"""Every element type, bit for bit, in both directions, and beside stock onnxruntime."""

import warnings

import onnxruntime
import pytest
import torch
from models import passthrough, unary
from support import KINDS, Kind, bits, patterns, refused

import ortdl_torch
from ortdl_torch import InferenceSession, OrtValue, from_ortvalue, to_ortvalue

# name -> ONNX number, bits per element
PACKED = {
    "uint4": (21, 4),
    "int4": (22, 4),
    "float4e2m1": (23, 4),
    "uint2": (25, 2),
    "int2": (26, 2),
}
NO_KERNEL = {"float8e8m0"}  # onnxruntime's Identity does not take it
every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)


def test_table_is_whole() -> None:
    assert len({k.dtype for k in KINDS}) == len({k.number for k in KINDS}) == 18


@every_kind
def test_tensor_becomes_value(kind: Kind) -> None:
    x = patterns(kind.dtype)
    want = bits(x).clone()
    value = to_ortvalue(x)
    assert value.data_ptr() == x.data_ptr()
    assert value.element_type() == kind.number
    assert value.data_type() == f"tensor({kind.name})"
    assert value.dtype is kind.dtype
    assert value.shape() == [x.numel()]
    assert value.tensor_size_in_bytes() == x.numel() * kind.dtype.itemsize
    assert torch.equal(value.packed(), want)
    back = from_ortvalue(value)
    assert back.dtype is kind.dtype
    assert back.data_ptr() == x.data_ptr()
    assert torch.equal(bits(back), want)


@every_kind
def test_value_of_the_runtime_becomes_tensor(kind: Kind) -> None:
    want = bits(patterns(kind.dtype))
    value = OrtValue.ortvalue_from_shape_and_type(
        [2, want.numel() // kind.dtype.itemsize // 2], kind.number
    )
    assert value.dtype is kind.dtype
    value.packed().copy_(want)
    y = from_ortvalue(value)
    assert (y.dtype, list(y.shape)) == (kind.dtype, value.shape())
    assert y.data_ptr() == value.data_ptr() == value.packed().data_ptr()
    assert torch.equal(bits(y), want)
    y.view(torch.uint8).zero_()
    assert not value.packed().any()


@every_kind
@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 0, 3), (2, 1, 2)], ids=str)
def test_small_shapes_keep_type_and_bits(kind: Kind, shape: tuple[int, ...]) -> None:
    count = torch.Size(shape).numel()
    x = patterns(kind.dtype)[1 : 1 + count] if count < 4 else patterns(kind.dtype)[:count]
    x = x.reshape(shape)
    value = to_ortvalue(x)
    assert value.shape() == list(shape)
    assert value.element_type() == kind.number
    y = from_ortvalue(value)
    assert (y.dtype, y.shape) == (kind.dtype, x.shape)
    assert torch.equal(bits(y), bits(x))


@every_kind
def test_copies_keep_bits(kind: Kind) -> None:
    x = patterns(kind.dtype)
    for copied in (to_ortvalue(x, copy=True), to_ortvalue(x[::2], copy=None)):
        want = bits(x if copied.shape() == list(x.shape) else x[::2])
        assert copied.data_ptr() != x.data_ptr()
        assert torch.equal(copied.packed(), want)
        y = from_ortvalue(copied, copy=True)
        assert y.data_ptr() != copied.data_ptr()
        assert y.dtype is kind.dtype
        assert torch.equal(bits(y), want)


@every_kind
@pytest.mark.parametrize("build", [unary, passthrough], ids=["Identity", "no node"])
def test_through_a_session(kind: Kind, build: object) -> None:
    if build is unary and kind.name in NO_KERNEL:
        with refused(ortdl_torch.OrtError, "Identity"):
            InferenceSession(unary("Identity", element_type=kind.number))
        return
    model = (
        unary("Identity", element_type=kind.number) if build is unary else passthrough(kind.number)
    )
    session = InferenceSession(model)
    assert session.get_inputs()[0].type == f"tensor({kind.name})"
    x = patterns(kind.dtype)
    want = bits(x).clone()
    (y,) = session(x)
    assert y.dtype is kind.dtype
    assert y.data_ptr() != x.data_ptr()
    bits(x).zero_()
    assert torch.equal(bits(y), want)


@pytest.mark.parametrize(
    "number", sorted({k.number for k in KINDS} | {n for n, _ in PACKED.values()})
)
def test_names_and_numbers_are_those_of_stock(number: int) -> None:
    stock = onnxruntime.OrtValue.ortvalue_from_shape_and_type([2, 4], number)
    ours = OrtValue.ortvalue_from_shape_and_type([2, 4], number)
    for method in ("shape", "data_type", "element_type", "tensor_size_in_bytes", "device_name"):
        assert getattr(ours, method)() == getattr(stock, method)(), method


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("shape", [(3,), (2, 4), (5, 1), ()], ids=str)
def test_packed_types_go_by_their_bytes(name: str, shape: tuple[int, ...]) -> None:
    number, width = PACKED[name]
    size = -(-torch.Size(shape).numel() * width // 8)
    raw = torch.arange(1, size + 1, dtype=torch.uint8)
    value = OrtValue.from_packed(raw, number, list(shape))
    assert value.shape() == list(shape)
    assert value.element_type() == number
    assert value.data_type() == f"tensor({name})"
    assert value.tensor_size_in_bytes() == size
    assert value.data_ptr() == raw.data_ptr()
    flat = value.packed()
    assert (flat.dtype, flat.shape, flat.data_ptr()) == (torch.uint8, raw.shape, raw.data_ptr())
    raw.add_(1)
    assert torch.equal(flat, raw)
    if shape != (2, 4) or name != "float4e2m1":
        with refused(TypeError, name, "packed()"):
            from_ortvalue(value)
        with refused(TypeError, name, "packed()"):
            ortdl_torch.from_ortvalues([value])


@pytest.mark.parametrize("name", [n for n in PACKED if n != "float4e2m1"])
def test_dtype_is_none_where_torch_has_no_type(name: str) -> None:
    assert OrtValue.ortvalue_from_shape_and_type([8], PACKED[name][0]).dtype is None


@pytest.mark.parametrize("shape", [(6,), (2, 3), (3, 0), (2, 1, 2)], ids=str)
def test_float4_pairs(shape: tuple[int, ...]) -> None:
    count = torch.Size(shape).numel()
    x = torch.arange(17, 17 + count, dtype=torch.uint8).reshape(shape)
    x = x.view(torch.float4_e2m1fn_x2)
    value = to_ortvalue(x)
    assert value.shape() == [*shape[:-1], 2 * shape[-1]]
    assert value.element_type() == 23
    assert value.dtype is torch.float4_e2m1fn_x2
    assert value.tensor_size_in_bytes() == count
    y = from_ortvalue(value)
    assert (y.dtype, y.shape) == (x.dtype, x.shape)
    assert y.data_ptr() == value.data_ptr() == x.data_ptr()
    assert torch.equal(y.view(torch.uint8), x.view(torch.uint8))
    (z,) = InferenceSession(passthrough(23, [None] * len(shape)))(x)
    assert (z.dtype, z.shape) == (x.dtype, x.shape)
    assert torch.equal(z.view(torch.uint8), x.view(torch.uint8))


def test_float4_without_a_last_dimension_is_refused() -> None:
    x = torch.zeros(1, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)[0]
    with refused(ValueError, "float4", "0-d"):
        to_ortvalue(x)


SHELLS = [f"{sign}int{n}" for sign in ("u", "") for n in range(1, 8)]
BITS = ["bits8", "bits16", "bits1x8", "bits2x4", "bits4x2"]


@pytest.mark.filterwarnings("ignore:ComplexHalf:UserWarning")
@pytest.mark.parametrize("copy", [False, None, True])
@pytest.mark.parametrize("name", [*SHELLS, *BITS, "complex32", "complex64", "complex128"])
def test_dtype_without_counterpart_is_named(name: str, copy: bool | None) -> None:
    x = torch.empty(4, dtype=getattr(torch, name))
    spelled = {
        "complex32": "ComplexHalf",
        "complex64": "ComplexFloat",
        "complex128": "ComplexDouble",
    }
    with refused(TypeError, f"{name}|{spelled.get(name, name)}"):
        to_ortvalue(x, copy=copy)


@pytest.mark.parametrize("kind", [torch.qint8, torch.quint8, torch.qint32], ids=str)
def test_quantized_is_named(kind: torch.dtype) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = torch.quantize_per_tensor(torch.ones(4), 0.1, 0, kind)
    with refused(TypeError, "quantized|qint|quint"):
        to_ortvalue(x)


@pytest.mark.parametrize("number", [0, 8, 14, 15, 27, 99, -1])
def test_number_that_is_no_tensor_type_is_refused(number: int) -> None:
    with refused(TypeError):
        OrtValue.ortvalue_from_shape_and_type([2], number)
    with refused(TypeError):
        OrtValue.from_packed(torch.zeros(2, dtype=torch.uint8), number, [2])
