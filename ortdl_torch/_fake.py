"""What torch.compile and torch.export see of a session: shapes and dtypes, without running it."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch._library.fake_class_registry import register_fake_class

from ortdl_torch._wording import counted, were_given

Size = int | torch.SymInt


class Node(NamedTuple):
    """An input or output, as ``GraphShapes::json`` has it."""

    name: str
    type: str
    dtype: torch.dtype | None
    device: torch.device
    shape: list[int | str | None]

    def __str__(self) -> str:
        sizes = ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"'{self.name}: {self.type}[{sizes}]'"

    @property
    def per_element(self) -> int:
        """How many of ONNX's elements one of PyTorch's holds."""
        return 2 if self.dtype is torch.float4_e2m1fn_x2 else 1


class Graph(NamedTuple):
    """What a model declares."""

    inputs: list[Node]
    outputs: list[Node]


class FakeSession:
    """Stands for a ``torch.classes.ortdl.InferenceSession`` while PyTorch traces."""

    def __init__(self, shapes: str) -> None:
        self.shapes = shapes

    @classmethod
    def __obj_unflatten__(cls, flat: tuple[tuple[str, str], ...]) -> FakeSession:
        return cls(**dict(flat))

    def __obj_flatten__(self) -> tuple[tuple[str, str], ...]:
        return (("shapes", self.shapes),)

    def __len__(self) -> int:
        return 0

    def tracing_mode(self) -> str:
        return "fake"

    def run(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        return run_fake(graph_of(self), inputs)

    def run_async(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        raise NotImplementedError("run_async cannot be traced: trace run")


@lru_cache(maxsize=64)
def _parse(text: str) -> Graph:
    def nodes(items: list[dict[str, Any]]) -> list[Node]:
        return [
            Node(
                item["name"],
                item["type"],
                None if item["dtype"] is None else getattr(torch, item["dtype"]),
                torch.device(item["device"]),
                item["shape"],
            )
            for item in items
        ]

    return Graph(*map(nodes, json.loads(text).values()))


def graph_of(session: Any) -> Graph:
    """What the model of ``session``, real or fake, declares."""
    ((_, text),) = getattr(session, "wrapped_obj", session).__obj_flatten__()
    return _parse(text)


def run_fake(graph: Graph, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Tensors without elements that are as the model's outputs will be.

    Args:
        graph: what the model declares.
        inputs: tensors without elements, in the model's order.

    Returns:
        A contiguous tensor for each output, on the device where the session leaves it. Its sizes
        are what the model declares: fixed ones, those of the inputs' dimensions of the same name,
        and new symbols where only running tells.

    Raises:
        ValueError: a wrong number, rank or size of the inputs.
        TypeError: a wrong dtype, or an output that PyTorch has no tensor for.
        BufferError: an input requires grad while grad mode is on.
    """
    expected = f"The model's inputs are: {', '.join(map(str, graph.inputs)) or '(none)'}"
    if len(inputs) != len(graph.inputs):
        raise ValueError(
            f"the model takes {counted(len(graph.inputs), 'input')}, but "
            f"{were_given(len(inputs))}. {expected}"
        )
    known: dict[str, Size] = {}
    for node, tensor in zip(graph.inputs, inputs, strict=True):
        _check_input(node, tensor, expected)
        _bind(node, tensor, known)
    for node in graph.outputs:
        if node.dtype is None:
            raise TypeError(
                f"the output {node} is of a type that PyTorch has no tensor for: call the session "
                "itself, in eager code, outside of what is compiled or exported"
            )
    # A tensor on the meta device stands for one wherever the session takes it.
    meta = torch.device("meta") if any(tensor.is_meta for tensor in inputs) else None
    return [_output(node, known, meta or node.device) for node in graph.outputs]


def _check_input(node: Node, tensor: torch.Tensor, expected: str) -> None:
    if node.dtype is None:
        raise TypeError(
            f"the input {node} is of a type that no tensor can be: call the session itself, in "
            f"eager code, outside of what is compiled or exported. {expected}"
        )
    if tensor.dtype is not node.dtype:
        raise TypeError(
            f"the input {node} must have dtype {node.dtype}, but a tensor of dtype {tensor.dtype} "
            f"was given: convert it with tensor.to(dtype). {expected}"
        )
    _refuse_grad(node, tensor)
    # ONNX Runtime reports rank 0 for a scalar and for an open rank alike.
    if node.shape and tensor.dim() != len(node.shape):
        raise ValueError(
            f"the input {node} must have {counted(len(node.shape), 'dimension')}, but one of shape "
            f"{tuple(tensor.shape)} was given. {expected}"
        )


def _refuse_grad(node: Node, tensor: torch.Tensor) -> None:
    if tensor.requires_grad and torch.is_grad_enabled():
        raise BufferError(
            f"the tensor for the input {node} requires grad, and ONNX Runtime would compute "
            "without gradients: use tensor.detach(), or run under torch.no_grad()"
        )


def _bind(node: Node, tensor: torch.Tensor, known: dict[str, Size]) -> None:
    for i, declared in enumerate(node.shape):
        size: Size = tensor.shape[i]
        if i == len(node.shape) - 1:
            size = size * node.per_element
        if declared is None:
            continue
        required = known.setdefault(declared, size) if isinstance(declared, str) else declared

        def message(i: int = i, size: Size = size, required: Size = required) -> str:
            return (
                f"the input {node} must have size {required} in dimension {i}, but {size} was given"
            )

        torch._check_value(size == required, message)  # type: ignore[no-untyped-call]


def _output(node: Node, known: dict[str, Size], device: torch.device) -> torch.Tensor:
    shape = [_size(declared, known) for declared in node.shape]
    if shape:
        shape[-1] = shape[-1] // node.per_element
    return torch.empty(shape, dtype=node.dtype, device=device)


def _size(declared: int | str | None, known: dict[str, Size]) -> Size:
    if isinstance(declared, int):
        return declared
    if declared is None:
        return torch.library.get_ctx().new_dynamic_size()
    if declared not in known:
        known[declared] = torch.library.get_ctx().new_dynamic_size()
    return known[declared]


def _run(session: Any, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    return run_fake(graph_of(session), inputs)


def _run_autograd(session: Any, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    for node, tensor in zip(graph_of(session).inputs, inputs, strict=False):
        _refuse_grad(node, tensor)
    with torch._C._AutoDispatchBelowAutograd():
        results: list[torch.Tensor] = torch.ops.ortdl.run.default(session, inputs)
    return results


def _run_each(
    info: Any, in_dims: tuple[None, list[int | None]], session: Any, inputs: list[torch.Tensor]
) -> tuple[list[torch.Tensor], list[int]]:
    """One run for each element of the batch: none can tell which of a model's dimensions is one."""
    if info.batch_size == 0:
        raise ValueError(
            "torch.vmap over no elements would not run the model: give it at least one"
        )

    def item(tensor: torch.Tensor, dim: int | None, i: int) -> torch.Tensor:
        return tensor if dim is None else tensor.select(dim, i)

    runs = [
        torch.ops.ortdl.run(
            session, [item(*pair, i) for pair in zip(inputs, in_dims[1], strict=True)]
        )
        for i in range(info.batch_size)
    ]
    stacked = [torch.stack(outputs) for outputs in zip(*runs, strict=True)]
    return stacked, [0] * len(stacked)


def _to_ortvalue(self: torch.Tensor, copy: bool | None = False) -> Any:
    if self.device.type == "meta":
        raise BufferError("a tensor on the meta device has no memory to share")
    raise _untraceable(f"torch.ops.ortdl.to_ortvalue(tensor, copy={copy})")


def _from_ortvalue(value: Any) -> Any:
    raise _untraceable("torch.ops.ortdl.from_ortvalue(value)")


def _untraceable(call: str) -> Exception:
    from torch._subclasses.fake_tensor import UnsupportedFakeTensorException

    # torch.compile breaks its graph at this one, unless fullgraph forbids that.
    return UnsupportedFakeTensorException(
        f"{call} cannot be traced: an OrtValue shares memory, and PyTorch's compilers assume that "
        "objects do not. Convert outside of the compiled or exported code, or run the model in it "
        "with torch.ops.ortdl.run or an ortdl_torch.OnnxModule"
    )


def register() -> None:
    """Tell PyTorch, unless this package was imported in this process before and forgotten."""
    run = torch.ops.ortdl.run.default
    if torch._C.DispatchKey.Autograd in run.py_kernels:
        return
    register_fake_class("ortdl::InferenceSession")(FakeSession)
    torch.library.register_fake("ortdl::run", _run)
    torch.library.register_fake("ortdl::to_ortvalue", _to_ortvalue)
    torch.library.register_fake("ortdl::from_ortvalue", _from_ortvalue)
    # PyTorch takes an op on an object for one that changes it, and then orders its calls by tokens.
    torch.library._register_effectful_op("ortdl::run", None)
    # The kernel in C++ takes no fake session.
    run.py_impl(torch._C.DispatchKey.Autograd)(_run_autograd)
    torch.library.register_vmap("ortdl::run", _run_each)
