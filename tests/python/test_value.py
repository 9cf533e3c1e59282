"""What an OrtValue says of itself, which layouts share memory, and what a copy is."""

import ml_dtypes
import numpy as np
import pytest
import torch
from support import bits, refused

from ortdl_torch import OrtValue, from_ortvalue, from_ortvalues, to_ortvalue, to_ortvalues

SHARED = {
    "contiguous": lambda: torch.arange(24.0).reshape(2, 3, 4),
    "offset view": lambda: torch.arange(24.0)[5:],
    "rows of a matrix": lambda: torch.arange(24.0).reshape(4, 6)[1:3],
    "one row": lambda: torch.arange(24.0).reshape(4, 6)[2],
    "size-1 dimension with an odd stride": lambda: torch.arange(9.0).as_strided((1, 3), (7, 1)),
    "one element with odd strides": lambda: torch.arange(9.0).as_strided((1, 1, 1), (5, 0, 3), 4),
    "column of a column": lambda: torch.arange(9.0).reshape(3, 3)[:1, 1:2],
    "expanded to size 1": lambda: torch.arange(3.0).reshape(1, 3).expand(1, 3),
    "channels_last of one channel": lambda: torch.rand(2, 1, 3, 4).to(
        memory_format=torch.channels_last
    ),
    "transposed vector": lambda: torch.arange(5.0).reshape(1, 5).t(),
    "0-d": lambda: torch.tensor(3.5),
    "0-d with an offset": lambda: torch.arange(9.0)[7],
    "64-d": lambda: torch.arange(4.0).reshape([2, *[1] * 62, 2]),
    "detached": lambda: torch.ones(3, requires_grad=True).detach(),
    "subclass": lambda: torch.ones(3).as_subclass(type("Sub", (torch.Tensor,), {})),
    "from numpy": lambda: torch.from_numpy(np.arange(4, dtype=np.float32)),
    "inference tensor": lambda: _inference_tensor(),
}
EMPTY = [(0,), (0, 3), (3, 0), (1, 8, 0, 16)]
COPIED = {
    "transposed": lambda: torch.arange(12.0).reshape(3, 4).t(),
    "every second": lambda: torch.arange(12.0)[1::2],
    "expanded": lambda: torch.arange(3.0).reshape(1, 3).expand(4, 3),
    "expanded 0-d": lambda: torch.tensor(2.0).expand(5),
    "window": lambda: torch.arange(36.0).reshape(6, 6)[1:4, 2:5],
    "overlapping": lambda: torch.arange(16.0).as_strided((3, 3), (1, 1)),
    "channels_last": lambda: torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "permuted": lambda: torch.rand(2, 5, 6, 3).permute(0, 3, 1, 2),
}


def _inference_tensor() -> torch.Tensor:
    with torch.inference_mode():
        return torch.arange(4.0)


@pytest.mark.parametrize("copy", [False, None])
@pytest.mark.parametrize("layout", SHARED)
def test_layout_shares_memory(layout: str, copy: bool | None) -> None:
    x = SHARED[layout]()
    value = to_ortvalue(x, copy=copy)
    assert value.data_ptr() == x.data_ptr()
    assert value.shape() == list(x.shape)
    y = from_ortvalue(value, copy=copy)
    assert y.data_ptr() == x.data_ptr()
    assert y.shape == x.shape
    assert y.is_contiguous()
    assert torch.equal(y, x)
    with torch.inference_mode():
        x.fill_(9)
    assert (y == 9).all()


@pytest.mark.parametrize("shape", EMPTY, ids=str)
def test_empty_tensor_keeps_its_shape(shape: tuple[int, ...]) -> None:
    for x in (torch.empty(shape), torch.empty(*shape, 2)[..., 0], torch.rand(4)[4:].reshape(shape)):
        value = to_ortvalue(x)
        assert value.shape() == list(shape)
        assert value.tensor_size_in_bytes() == 0
        y = from_ortvalue(value)
        assert (y.shape, y.dtype) == (x.shape, x.dtype)
        assert y.tolist() == x.tolist()


@pytest.mark.parametrize("layout", COPIED)
def test_layout_needs_a_copy(layout: str) -> None:
    x = COPIED[layout]()
    with refused(ValueError, "copy", "contiguous|stride"):
        to_ortvalue(x)
    with refused(ValueError, "copy", "contiguous|stride"):
        to_ortvalues([torch.ones(2), x])
    for copy in (None, True):
        value = to_ortvalue(x, copy=copy)
        assert value.data_ptr() != x.data_ptr()
        assert value.shape() == list(x.shape)
        assert torch.equal(from_ortvalue(value), x)


@pytest.mark.parametrize("layout", SHARED)
def test_copy_true_never_shares(layout: str) -> None:
    x = SHARED[layout]()
    value = to_ortvalue(x, copy=True)
    y = from_ortvalue(value, copy=True)
    assert len({x.data_ptr(), value.data_ptr(), y.data_ptr()}) == 3
    assert value.shape() == list(x.shape) == list(y.shape)
    y.fill_(9)
    want = x.clone()
    with torch.inference_mode():
        x.fill_(8)
    assert torch.equal(from_ortvalue(value), want)


def test_more_dimensions_than_dlpack_has_share_or_are_refused() -> None:
    x = torch.arange(2.0).reshape([2, *[1] * 64])
    try:
        value = to_ortvalue(x)
    except ValueError as e:
        assert "65" in str(e)  # noqa: PT017
    else:
        assert value.shape() == list(x.shape)
        assert torch.equal(from_ortvalue(value), x)


def test_what_a_value_says(tensor: torch.Tensor) -> None:
    value = to_ortvalue(tensor)
    assert isinstance(value, OrtValue)
    assert type(value.shape()) is list
    assert value.shape() == [2, 3]
    assert value.element_type() == 1
    assert value.data_type() == "tensor(float)"
    assert value.device_name() == "cpu"
    assert value.data_ptr() == tensor.data_ptr()
    assert value.tensor_size_in_bytes() == 24
    assert value.dtype is torch.float32
    assert value.device == torch.device("cpu")
    assert value.has_value() is value.is_tensor() is True
    assert value.is_sparse_tensor() is value.is_tensor_sequence() is False
    assert torch.equal(value.packed(), bits(tensor))
    assert value.packed().data_ptr() == tensor.data_ptr()


def test_numpy(tensor: torch.Tensor) -> None:
    value = to_ortvalue(tensor)
    for made in (value.numpy(), np.asarray(value), value.__array__()):
        assert made.dtype == np.float32
        assert made.tolist() == tensor.tolist()
    assert np.asarray(value, dtype=np.float64).dtype == np.float64
    copied = np.array(value, copy=True)
    tensor.fill_(9)
    assert copied.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("shape", [(), (0,), (3, 0)], ids=str)
def test_numpy_of_small_shapes(shape: tuple[int, ...]) -> None:
    made = to_ortvalue(torch.zeros(shape, dtype=torch.int16)).numpy()
    assert (made.dtype, made.shape) == (np.int16, shape)


def test_numpy_outlives_its_value() -> None:
    made = to_ortvalue(torch.full((1 << 16,), 3.0)).numpy()
    junk = [torch.full((1 << 16,), 7.0) for _ in range(8)]
    assert (made == 3).all()
    assert len(junk) == 8


def test_numpy_gives_ml_dtypes_over_the_same_memory() -> None:
    x = torch.tensor([1.5, -2.0], dtype=torch.bfloat16)
    array = to_ortvalue(x).numpy()
    assert (array.dtype, array.ctypes.data) == (np.dtype(ml_dtypes.bfloat16), x.data_ptr())
    assert array.astype(np.float32).tolist() == [1.5, -2.0]


def test_from_numpy_and_from_shape(array: np.ndarray) -> None:
    value = OrtValue.ortvalue_from_numpy(array)
    assert value.data_ptr() == array.ctypes.data
    array += 1
    assert from_ortvalue(value).tolist() == array.tolist()
    for element_type, dtype in (
        (np.float64, torch.float64),
        (np.int32, torch.int32),
        (16, torch.bfloat16),
    ):
        made = OrtValue.ortvalue_from_shape_and_type([2, 3], element_type)
        assert (made.shape(), made.dtype) == ([2, 3], dtype)
        assert from_ortvalue(made).fill_(2).sum() == 12


@pytest.mark.parametrize(
    "source", [np.ones((2, 2), ml_dtypes.bfloat16).astype("O"), np.array(["a"])]
)
def test_from_numpy_without_counterpart_is_refused(source: np.ndarray) -> None:
    with refused(TypeError, source.dtype.name.rstrip("0123456789")):
        OrtValue.ortvalue_from_numpy(source)


def test_update_inplace(tensor: torch.Tensor) -> None:
    value = to_ortvalue(tensor)
    value.update_inplace(np.full((2, 3), 4, np.float32))
    assert (tensor == 4).all()
    value.update_inplace(to_ortvalue(torch.full((2, 3), 5.0)))
    assert (tensor == 5).all()
    value.update_inplace(np.arange(6, dtype=np.float32).reshape(3, 2).T)
    assert tensor.tolist() == [[0, 2, 4], [1, 3, 5]]
    assert value.data_ptr() == tensor.data_ptr()
    for wrong in (np.zeros((3, 2), np.float32), to_ortvalue(torch.zeros(7))):
        with refused(ValueError, "shape|size"):
            value.update_inplace(wrong)
    for wrong in (np.zeros((2, 3), np.float64), to_ortvalue(torch.zeros(2, 3).int()), [1.0], None):
        with refused(TypeError):
            value.update_inplace(wrong)
    assert tensor.tolist() == [[0, 2, 4], [1, 3, 5]]


def test_batches_keep_their_order() -> None:
    tensors = [torch.full((k,), float(k)) for k in range(1, 6)]
    values = to_ortvalues(tensors)
    assert [v.data_ptr() for v in values] == [t.data_ptr() for t in tensors]
    back = from_ortvalues(values)
    assert type(values) is type(back) is list
    assert [t.data_ptr() for t in back] == [t.data_ptr() for t in tensors]
    assert all(map(torch.equal, back, tensors))
    assert to_ortvalues([]) == from_ortvalues([]) == []
    assert len(to_ortvalues(tuple(tensors))) == 5


def test_script_object_goes_and_comes_back(tensor: torch.Tensor) -> None:
    value = to_ortvalue(tensor)
    again = OrtValue(value.script_object)
    assert (again.shape(), again.data_ptr()) == ([2, 3], tensor.data_ptr())
    assert from_ortvalue(value.script_object).data_ptr() == tensor.data_ptr()
    for wrong in (tensor, None, 3, "x"):
        with refused(TypeError):
            OrtValue(wrong)
