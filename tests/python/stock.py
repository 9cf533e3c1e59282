"""The stock route that the models' results are held against."""

from collections.abc import Sequence

import numpy as np
import onnxruntime
import torch
from support import bits


def stock(model: bytes, *tensors: torch.Tensor) -> list[np.ndarray]:
    """The model's outputs by onnxruntime's own session, from the tensors' arrays."""
    session = onnxruntime.InferenceSession(model)
    names = [node.name for node in session.get_inputs()]
    feeds = dict(zip(names, [tensor.numpy() for tensor in tensors], strict=True))
    return session.run(None, feeds)


def same_as_stock(got: object, model: bytes, *tensors: torch.Tensor) -> bool:
    """Whether a tensor, or a tuple of tensors, is the stock route's result bit by bit."""
    results: Sequence[torch.Tensor] = [got] if isinstance(got, torch.Tensor) else tuple(got)
    wanted = stock(model, *tensors)
    return len(results) == len(wanted) and all(
        tuple(a.shape) == b.shape
        and a.dtype is torch.from_numpy(b).dtype
        and torch.equal(bits(a), bits(torch.from_numpy(b)))
        for a, b in zip(results, wanted, strict=True)
    )
