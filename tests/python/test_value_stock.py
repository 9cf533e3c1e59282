"""Values that stock onnxruntime made."""

import numpy as np
import onnxruntime
import pytest
from models import with_other_output
from support import refused

import ortdl_torch
from ortdl_torch import from_ortvalue


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_, np.float16, np.uint16], ids=str)
def test_stock_value_becomes_tensor(dtype: type) -> None:
    stock = onnxruntime.OrtValue.ortvalue_from_numpy(np.ones((2, 3), dtype))
    y = from_ortvalue(stock)
    assert y.data_ptr() == stock.data_ptr()
    assert y.numpy().dtype == dtype
    assert y.tolist() == stock.numpy().tolist()


@pytest.mark.parametrize(
    ("kind", "name"),
    [("string", "string"), ("sequence", "seq"), ("map", "map"), ("sparse", "sparse")],
)
def test_stock_value_that_is_no_tensor_is_named(
    kind: str, name: str, options: onnxruntime.SessionOptions
) -> None:
    if kind == "sparse":
        stock = onnxruntime.OrtValue.ort_value_from_sparse_tensor(
            onnxruntime.SparseTensor.sparse_coo_from_numpy(
                np.array([3, 3], np.int64),
                np.ones(2, np.float32),
                np.array([0, 4], np.int64),
                onnxruntime.OrtDevice.make("cpu", 0),
            )
        )
    else:
        session = onnxruntime.InferenceSession(with_other_output(kind), options)
        x = onnxruntime.OrtValue.ortvalue_from_numpy(np.ones(2, np.float32))
        (stock,) = session.run_with_ort_values(["other"], {"x": x})
    with refused(TypeError, name):
        from_ortvalue(stock)
    with refused(TypeError, name):
        ortdl_torch.from_ortvalues([stock])
