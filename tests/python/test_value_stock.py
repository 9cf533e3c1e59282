"""Values that stock onnxruntime made, and values of ours as stock's."""

import numpy as np
import onnxruntime
import pytest
import torch
from dlpack_structs import TYPES
from models import passthrough, subtract, unary, with_other_output
from support import KINDS, Kind, bits, in_new_process, live, needs_onnxruntime, patterns, refused

import ortdl_torch
from ortdl_torch import InferenceSession, OrtValue, from_dlpack, from_ortvalue, to_ortvalue

Stock = onnxruntime.OrtValue
STOCK_FROM_NUMPY = [np.float32, np.int64, np.bool_, np.float16, np.uint16, np.float64, np.uint8]


@pytest.mark.parametrize("dtype", STOCK_FROM_NUMPY, ids=str)
def test_stock_value_becomes_tensor(dtype: type) -> None:
    stock = Stock.ortvalue_from_numpy(np.ones((2, 3), dtype))
    y = from_ortvalue(stock)
    assert y.data_ptr() == stock.data_ptr()
    assert y.numpy().dtype == dtype
    assert y.tolist() == stock.numpy().tolist()
    assert from_ortvalue(stock, copy=True).data_ptr() != stock.data_ptr()


@needs_onnxruntime("1.26", "OrtValue.__dlpack__")
def test_value_of_a_second_onnxruntime_is_named() -> None:
    stock = Stock.ortvalue_from_numpy(np.ones(3, np.float32))
    # As the class of another copy of the package is: equal in all but its identity.
    other = type("OrtValue", (), dict(vars(Stock)))
    second = other(stock._ortvalue)
    for foreign, module in ((second, Stock.__module__), (stock._ortvalue, "pybind11_state")):
        for convert in (from_ortvalue, InferenceSession(unary("Neg"))):
            with refused(TypeError, "second onnxruntime", module, "ortdl_torch.from_dlpack(value)"):
                convert(foreign)
        assert from_dlpack(foreign).data_ptr() == stock.data_ptr()


NUMBERS = [k for k in KINDS if k.dtype is not torch.bool and "float8" not in k.name]
takes_every_type = needs_onnxruntime("1.32", "such type in its OrtValue.from_dlpack")


@pytest.mark.parametrize(
    "kind",
    [k if k in NUMBERS else pytest.param(k, marks=takes_every_type) for k in KINDS],
    ids=str,
)
@pytest.mark.parametrize("shape", [(4,), (2, 1, 2), (), (0, 3)], ids=str)
def test_ours_becomes_stock_and_comes_back(kind: Kind, shape: tuple[int, ...]) -> None:
    x = patterns(kind.dtype)[: torch.Size(shape).numel()].reshape(shape)
    value = to_ortvalue(x)
    stock = value.to_onnxruntime()
    assert type(stock) is Stock
    assert stock.data_type() == value.data_type()
    assert (stock.element_type(), stock.shape()) == (kind.number, list(shape))
    back = from_ortvalue(stock)
    assert (back.dtype, back.shape) == (x.dtype, x.shape)
    assert torch.equal(bits(back), bits(x))
    if x.numel():
        assert stock.data_ptr() == back.data_ptr() == x.data_ptr()


@takes_every_type
@pytest.mark.parametrize("number", [n for n, (_, width) in TYPES.items() if width < 8])
@pytest.mark.parametrize("shape", [(8,), (3, 3), (1,), (0,)], ids=str)
def test_packed_becomes_stock_and_comes_back(number: int, shape: tuple[int, ...]) -> None:
    count = (torch.Size(shape).numel() * TYPES[number][1] + 7) // 8
    memory = torch.arange(count, dtype=torch.uint8)
    value = OrtValue.from_packed(memory, number, shape)
    stock = value.to_onnxruntime()
    assert stock.data_type() == value.data_type()
    assert (stock.element_type(), stock.shape()) == (number, list(shape))
    again = OrtValue(stock)
    assert (again.element_type(), again.shape()) == (number, list(shape))
    assert torch.equal(again.packed(), memory)
    if count:
        assert stock.data_ptr() == again.data_ptr() == memory.data_ptr()


def test_stock_keeps_our_memory() -> None:
    before = live()
    stock = to_ortvalue(torch.full((1 << 14,), 3.0)).to_onnxruntime()
    junk = [torch.full((1 << 14,), 7.0) for _ in range(16)]
    assert (stock.numpy() == 3).all()
    assert live()["owners"] > before["owners"]
    del stock
    assert live() == before
    assert len(junk) == 16


def test_stock_session_fed_with_ours(tensor: torch.Tensor) -> None:
    session = onnxruntime.InferenceSession(unary("Neg", [2, 3]))
    (y,) = session.run_with_ort_values(["y"], {"x": to_ortvalue(tensor).to_onnxruntime()})
    assert from_ortvalue(y).tolist() == (-tensor).tolist()
    binding = session.io_binding()
    out = torch.zeros(2, 3)
    binding.bind_ortvalue_input("x", to_ortvalue(tensor).to_onnxruntime())
    binding.bind_ortvalue_output("y", to_ortvalue(out).to_onnxruntime())
    session.run_with_iobinding(binding)
    assert out.tolist() == (-tensor).tolist()


def test_our_session_fed_with_stock(tensor: torch.Tensor) -> None:
    session = InferenceSession(subtract([2, 3]))
    stock = Stock.ortvalue_from_numpy(np.ones((2, 3), np.float32))
    want = (tensor - 1).tolist()
    assert session(tensor, stock)[0].tolist() == want
    assert session(to_ortvalue(tensor), stock)[0].tolist() == want
    assert session(left=tensor, right=stock)[0].tolist() == want
    (y,) = session.run(None, {"left": to_ortvalue(tensor), "right": stock})
    assert y.tolist() == want
    with refused(ValueError, "right"):
        session(tensor, Stock.ortvalue_from_numpy(np.ones((3, 2), np.float32)))
    with refused(TypeError, "right"):
        session(tensor, Stock.ortvalue_from_numpy(np.ones((2, 3), np.float64)))


@takes_every_type
def test_packed_values_run_through_a_session() -> None:
    memory = torch.tensor([0x21, 0x43], dtype=torch.uint8)
    value = OrtValue.from_packed(memory, 22, [4])
    session = InferenceSession(unary("Cast", [4], 22, to=1))
    assert session(value)[0].tolist() == session(value.to_onnxruntime())[0].tolist() == [1, 2, 3, 4]


def test_pass_through_of_a_stock_value_is_a_copy() -> None:
    stock = Stock.ortvalue_from_numpy(np.ones(3, np.float32))
    (y,) = InferenceSession(passthrough(1))(stock)
    y.zero_()
    assert stock.numpy().tolist() == [1, 1, 1]


def test_outputs_of_stock_sessions_share_memory() -> None:
    session = onnxruntime.InferenceSession(unary("Neg"))
    x = Stock.ortvalue_from_numpy(np.ones(1 << 14, np.float32))
    (stock,) = session.run_with_ort_values(["y"], {"x": x})
    y = from_ortvalue(stock)
    assert y.data_ptr() == stock.data_ptr()
    del stock, session
    junk = [torch.full((1 << 14,), 7.0) for _ in range(16)]
    assert (y == -1).all()
    assert len(junk) == 16


# Each ends in a read of freed memory, and mostly in a crash, when stock does every step.
CHAINS = {
    "array, value, tensor": """
makers = [
    lambda: from_ortvalue(stock()),
    lambda: torch.from_dlpack(OrtValue(stock())),
    lambda: from_ortvalue(OrtValue(stock())),
]
""",
    "array of a temporary": """
makers = [
    lambda: OrtValue.ortvalue_from_numpy(np.full(N, 3, np.float32)).numpy(),
    lambda: OrtValue(stock()).numpy(),
    lambda: np.asarray(OrtValue(stock())),
]
""",
    "value of a value": """
from models import passthrough
session = onnxruntime.InferenceSession(passthrough(1))
makers = [
    lambda: from_ortvalue(OrtValue(OrtValue(stock()).to_onnxruntime())),
    lambda: from_ortvalue(session.run_with_ort_values(None, {"x": ours()})[0]),
]
def ours():
    return OrtValue(stock()).to_onnxruntime()
""",
}
RUN = """
import gc
import numpy as np, onnxruntime, torch
from ortdl_torch import OrtValue, from_ortvalue
N = 1 << 22  # memory of this size is unmapped when it is freed
def stock():
    return onnxruntime.OrtValue.ortvalue_from_numpy(np.full(N, 3, np.float32))
{make}
for make in makers:
    for _ in range(3):
        made = [make() for _ in range(3)]
        gc.collect()
        junk = [np.full(N, 7, np.float32) for _ in range(3)]
        assert all((array == 3).all() for array in made)
print("whole")
"""


@pytest.mark.parametrize("chain", CHAINS)
def test_chain_keeps_the_array_alive(chain: str, request: pytest.FixtureRequest) -> None:
    ended = in_new_process(RUN.replace("{make}", CHAINS[chain]), request.path.parent)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "whole\n", "")


def test_stock_value_by_dlpack_keeps_its_type() -> None:
    stock = Stock.ortvalue_from_numpy(np.array([True, False]))
    value = from_dlpack(stock)
    assert (value.dtype, value.data_ptr()) == (torch.bool, stock.data_ptr())


def test_batches_of_stock_values() -> None:
    stock = [Stock.ortvalue_from_numpy(np.full(3, k, np.float32)) for k in range(4)]
    tensors = ortdl_torch.from_ortvalues(stock)
    assert [t.data_ptr() for t in tensors] == [s.data_ptr() for s in stock]
    for value in (OrtValue(stock[2]), ortdl_torch.from_dlpack(ortdl_torch.to_dlpack(stock[2]))):
        assert from_ortvalue(value).tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("kind", "name"),
    [("string", "string"), ("sequence", "seq"), ("map", "map"), ("sparse", "sparse")],
)
def test_stock_value_that_is_no_tensor_is_named(
    kind: str, name: str, options: onnxruntime.SessionOptions
) -> None:
    if kind == "sparse":
        stock = Stock.ort_value_from_sparse_tensor(
            onnxruntime.SparseTensor.sparse_coo_from_numpy(
                np.array([3, 3], np.int64),
                np.ones(2, np.float32),
                np.array([0, 4], np.int64),
                onnxruntime.OrtDevice.make("cpu", 0),
            )
        )
    else:
        session = onnxruntime.InferenceSession(with_other_output(kind), options)
        x = Stock.ortvalue_from_numpy(np.ones(2, np.float32))
        (stock,) = session.run_with_ort_values(["other"], {"x": x})
    for call in (
        from_ortvalue,
        OrtValue,
        ortdl_torch.to_dlpack,
        lambda value: ortdl_torch.from_ortvalues([value]),
        to_ortvalue(torch.ones(2)).update_inplace,
    ):
        with refused(TypeError, name):
            call(stock)


def test_stock_value_by_dlpack_keeps_the_array(request: pytest.FixtureRequest) -> None:
    make = "makers = [lambda: from_ortvalue(OrtValue.from_dlpack(stock()))]"
    ended = in_new_process(RUN.replace("{make}", make), request.path.parent)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "whole\n", "")
