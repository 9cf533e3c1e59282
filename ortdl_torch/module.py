"""An ONNX model as a ``torch.nn.Module``."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self
from weakref import WeakValueDictionary

import onnxruntime
import torch
from torch._C import DispatchKey
from torch._library.fake_class_registry import FakeScriptObject
from torch.compiler import is_dynamo_compiling

from ortdl_torch._outputs import Outputs, maker, outputs_type
from ortdl_torch._script import as_identifiers, scriptable
from ortdl_torch._wording import with_article
from ortdl_torch.session import InferenceSession, Initializers, Model, NodeArg, Providers, is_dense

# Tensors with these have no memory to read: what they stand for is reached through the dispatcher.
_STAND_INS = (
    DispatchKey.Python,
    DispatchKey.Functionalize,
    DispatchKey.FuncTorchBatched,
    DispatchKey.FuncTorchGradWrapper,
)


# What an input called self is called on its way to `forward`: nothing that a model can have.
_SELF = "\udcffself"
_SCRIPT_OBJECT = (
    "module.script_object is that of module.session, and is neither set nor deleted by itself: "
    "assign an InferenceSession to module.session"
)


@dataclass(frozen=True, slots=True)
class _Bound:
    """A session and what a module derives from it: exchanged as a whole, and read once per call."""

    session: InferenceSession
    script_object: torch.ScriptObject
    input_names: tuple[str, ...]
    renamed: dict[str, str]  # names that programs have: names of the model
    output_names: tuple[str, ...]
    make: Callable[[Iterable[torch.Tensor]], Any] | None  # None for a single output
    eager_only: str | None  # why it can be in no graph

    def in_order(
        self, tensors: tuple[torch.Tensor, ...], named: dict[str, torch.Tensor]
    ) -> list[torch.Tensor]:
        rest = self.input_names[len(tensors) :]
        for name in named:
            if name not in rest:
                what = "was given twice" if name in self.input_names else "is none of the model's"
                raise ValueError(f"the input '{name}' {what}: {', '.join(self.input_names)}")
        for name in rest:
            if name not in named:
                raise ValueError(
                    f"the input '{name}' was not given. The model's inputs are: "
                    f"{', '.join(self.input_names)}"
                )
        return [*tensors, *[named[name] for name in rest]]


class OnnxModule(torch.nn.Module):
    """An ONNX model as a module: in eager code, TorchScript, torch.compile and torch.export.

    ``module(*tensors, **named_tensors)`` runs the model. A name that cannot be Python's can also be
    given as exported and scripted programs have it, such as ``input_1`` for ``input.1``, and
    ``torch.export`` takes it only so. The result is a tensor if the model has
    one output, else a tuple: a named one if the outputs' names can be Python's. In exported and
    traced programs it is a plain tuple, since their files cannot hold the class of a named one.

    The module has no parameters: the weights are ONNX Runtime's, or tensors of the caller's that
    ``initializers`` names, which ``state_dict()`` does not hold. It can be pickled and deep-copied,
    scripted, traced, compiled and exported, alone or inside other modules. What is saved contains
    the model, or with ``embed=False`` its path and digest; a deep copy shares the session, which
    never changes.

    ``module.to(device)``, ``.cuda()`` and ``.cpu()``, of this module or one around it, move it to
    the execution provider for that device: the session is made anew from what is saved of it, and
    inputs are expected there. A device that no provider works on is a ValueError, and the module
    stays as it was. A dtype, as in ``.half()``, changes nothing: the model has its own. What was
    scripted or exported before keeps its session, and so does whoever shares it.

    Where PyTorch traces, shapes are what the model declares: dimensions of one name have one size,
    fixed sizes are checked, and sizes that only running tells are unbacked symbols. A model whose
    outputs are not as declared is a RuntimeError when the traced program first runs it; eager code
    and scripted modules take its outputs as they are.

    Args:
        model: path of an ONNX file, its bytes, or a session, which then is shared. One of a class
            with an ``__call__`` of its own is a TypeError, since no graph would use that.
        sess_options: this and the rest as :class:`InferenceSession` takes them.
        providers: names of execution providers, or pairs of name and options.
        provider_options: a dict of options for each of ``providers``.

    Attributes:
        session: the :class:`InferenceSession` that runs the model. Another one can be assigned;
            what was scripted or exported before keeps its own, and a call under way in another
            thread ends with the one that it began with. It cannot be deleted.

    Calling it raises what calling the session does: also where PyTorch traces, an input that
    requires grad while grad mode is on is a BufferError. A model with strings, sequences, maps or
    optional values among its inputs and outputs works as its session does, in eager code only:
    scripting, tracing, compiling and exporting it is a TypeError that names what is no tensor.
    """

    __jit_ignored_attributes__: ClassVar[list[str]] = ["session", "_bound"]
    _bound: _Bound
    _declared: ClassVar[type[OnnxModule]]  # of a class that `_with_signature` made
    script_object: torch.ScriptObject

    def __init__(
        self,
        model: Model | InferenceSession,
        sess_options: onnxruntime.SessionOptions | None = None,
        providers: Providers | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        *,
        move_inputs: bool = False,
        embed: bool = True,
        initializers: Initializers | None = None,
    ) -> None:
        super().__init__()
        options = (sess_options, providers, provider_options)
        if not isinstance(model, InferenceSession):
            model = InferenceSession(
                model, *options, move_inputs=move_inputs, embed=embed, initializers=initializers
            )
        elif move_inputs or not embed or any(g is not None for g in (*options, initializers)):
            raise ValueError("a session cannot be given other options or providers")
        self._set_session(model)

    @property
    def session(self) -> InferenceSession:
        """The session that runs the model."""
        return self._bound.session

    @session.setter
    def session(self, session: InferenceSession) -> None:
        if not isinstance(session, InferenceSession):
            raise TypeError(
                f"module.session must be an InferenceSession, not {type(session).__name__}"
            )
        self._set_session(session)

    @session.deleter
    def session(self) -> None:
        raise AttributeError(
            "module.session cannot be deleted, since a module has always one: assign another "
            "InferenceSession, or delete the module"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        # PyTorch would keep a module or parameter of this name beside the session.
        if name == "session":
            object.__setattr__(self, name, value)
            return
        # While it traces, PyTorch puts a fake one there, and then the own one again.
        if name == "script_object" and not (
            isinstance(value, FakeScriptObject) or self._is_own(value)
        ):
            raise AttributeError(_SCRIPT_OBJECT)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        if name == "script_object":
            raise AttributeError(_SCRIPT_OBJECT)
        super().__delattr__(name)

    def _is_own(self, value: object) -> bool:
        bound = self.__dict__.get("_bound")
        return bound is not None and value is bound.script_object

    def _set_session(self, session: InferenceSession) -> None:
        _require_plain_call(type(session))
        inputs, outputs = session.get_inputs(), session.get_outputs()
        _require_text((*inputs, *outputs))
        names = tuple(node.name for node in inputs)
        output_names = tuple(node.name for node in outputs)
        made = zip(as_identifiers(names), names, strict=True)
        result = outputs_type(output_names)
        bound = _Bound(
            session=session,
            script_object=session.script_object,
            input_names=names,
            renamed={identifier: name for identifier, name in made if identifier != name},
            output_names=output_names,
            make=None if result is None else maker(result),
            eager_only=_reason_for_eager(session),
        )
        cls = _class_for(type(self).__dict__.get("_declared", type(self)), session)
        self.__dict__["_bound"] = bound
        # Tracing and exporting find what the op takes only as an attribute.
        self.__dict__["script_object"] = bound.script_object
        self.__class__ = cls

    def forward(self, *tensors: Any, **named: Any) -> Outputs:
        """Run the model on its inputs, by position or by name."""
        bound = self._bound
        if _SELF in named:
            named = {"self" if name == _SELF else name: x for name, x in named.items()}
        if named and bound.renamed:
            given, named = named, {bound.renamed.get(n, n): x for n, x in named.items()}
            if len(named) != len(given):
                raise _given_twice(given)
        try:
            outputs = (
                None if is_dynamo_compiling() else bound.session._call_untraced(tensors, named)
            )
        except BufferError:
            if not any(map(_stands_for_another, (*tensors, *named.values()))):
                raise
            script_object = bound.script_object
        else:
            if outputs is not None:
                result: Outputs = outputs[0] if bound.make is None else bound.make(outputs)
                return result
            # Here it may be what PyTorch has put in its place.
            script_object = self.script_object
        if bound.eager_only is not None:
            raise TypeError(bound.eager_only)
        ordered = bound.in_order(tensors, named) if named else list(tensors)
        results: list[torch.Tensor] = torch.ops.ortdl.run(script_object, ordered)
        if bound.make is None:
            return results[0]
        return tuple(results) if torch.compiler.is_exporting() else bound.make(results)

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Self:
        # `to`, `cuda` and `cpu`, and those of modules around it, say only by `fn` where to go.
        before = self.session
        here = before._device()
        wanted = fn(torch.empty(0, device=here)).device
        session = before if wanted == here else before._on(wanted)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if session is not before:
            self._set_session(session)
        return self

    def extra_repr(self) -> str:
        """What ``repr`` says of the model."""
        names = [", ".join(some) for some in (self._bound.input_names, self._bound.output_names)]
        return "inputs=({}), outputs=({})".format(*names)

    def __prepare_scriptable__(self) -> torch.nn.Module:
        bound = self._bound
        if bound.eager_only is not None:
            raise TypeError(bound.eager_only)
        what = None
        if "_declared" not in type(self).__dict__:
            what = "a forward of its own"
        elif self._forward_hooks or self._forward_pre_hooks:
            what = "forward hooks"
        if what is not None:
            raise TypeError(
                f"torch.jit.script takes only the model of a {type(self).__name__}, and this one "
                f"has {what}: script a module that holds an OnnxModule and does the rest, or use "
                "torch.jit.trace"
            )
        return scriptable(bound.script_object, bound.input_names, bound.output_names)

    def __reduce__(self) -> tuple[Any, ...]:
        cls = type(self).__dict__.get("_declared", type(self))
        return _blank, (cls,), self.__getstate__()

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()  # type: ignore[no-untyped-call]
        del state["script_object"]
        state["session"] = state.pop("_bound").session
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        rest = {name: value for name, value in state.items() if name != "session"}
        super().__setstate__(rest)  # type: ignore[no-untyped-call]
        self._set_session(state["session"])


def _blank(cls: type[OnnxModule]) -> OnnxModule:
    return cls.__new__(cls)


def _require_text(nodes: Sequence[NodeArg]) -> None:
    for node in nodes:
        for name in (node.name, *(size for size in node.shape if isinstance(size, str))):
            try:
                name.encode()
            except UnicodeEncodeError:
                raise ValueError(
                    f"the model has the name {name!r}, which is no UTF-8, and graphs keep names "
                    "as text: rename it in the model, or use an InferenceSession"
                ) from None


def _require_plain_call(cls: type[InferenceSession]) -> None:
    if cls.__call__ is not InferenceSession.__call__:
        raise TypeError(
            f"a {cls.__name__} has an __call__ of its own, which graphs and torch.vmap would leave "
            "out, since they run the model: give an InferenceSession, and do the rest in a module "
            "of your own that holds the OnnxModule"
        )


def _reason_for_eager(session: InferenceSession) -> str | None:
    """Why a model cannot be in a graph; None if it can."""
    for what, nodes in (("input", session.get_inputs()), ("output", session.get_outputs())):
        for node in nodes:
            if not is_dense(node):
                return (
                    f"the {what} '{node.name}' is {with_article(node.type)}, and TorchScript, "
                    "torch.compile and torch.export have no values but tensors for a model: call "
                    "the module, or its session, in eager code"
                )
    return None


def _stands_for_another(tensor: object) -> bool:
    if not isinstance(tensor, torch.Tensor):
        return False
    keys = torch._C._dispatch_keys(tensor)
    return any(keys.has(key) for key in _STAND_INS)


# By what a model declares and the class that was asked for. None is kept without a module of it.
_classes: WeakValueDictionary[tuple[type[OnnxModule], str], type[OnnxModule]] = (
    WeakValueDictionary()
)


def _class_for(cls: type[OnnxModule], session: InferenceSession) -> type[OnnxModule]:
    """The class of modules that are declared as a `cls` and have models like that of `session`."""
    if cls.forward is not OnnxModule.forward:
        return cls
    inputs = session.get_inputs()
    key = (cls, repr((inputs, session.get_outputs())))
    return _classes.get(key) or _classes.setdefault(key, _with_signature(cls, inputs))


def _with_signature(cls: type[OnnxModule], inputs: list[NodeArg]) -> type[OnnxModule]:
    forward = _own(OnnxModule.forward)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = as_identifiers(tuple(node.name for node in inputs))
    # torch.export asks for the signature: by it dimensions are named, and inputs in the program.
    parameters = [
        inspect.Parameter("self", kind, annotation=torch.Tensor),
        *(
            inspect.Parameter(name, kind, annotation=torch.Tensor if is_dense(node) else Any)
            for name, node in zip(names, inputs, strict=True)
        ),
    ]
    forward.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    scope = {"forward": forward, "_declared": cls, "__module__": cls.__module__}
    if any(node.name == "self" for node in inputs):
        scope["__call__"] = _own(_call_with_self)
    return type(cls.__name__, (cls,), scope | {"__doc__": cls.__doc__})


def _own(function: Callable[..., Any]) -> types.FunctionType:
    # PyTorch keeps a limited number of compiled forms for each code object.
    code = function.__code__.replace()
    made = types.FunctionType(code, function.__globals__, function.__name__)
    made.__doc__ = function.__doc__
    return made


# PyTorch's functions on the way to `forward` have a parameter of this name themselves.
def _call_with_self(module: OnnxModule, /, *tensors: Any, **named: Any) -> Any:
    if "self" in named:
        named[_SELF] = named.pop("self")
    declared: type[OnnxModule] = module._declared
    return declared.__call__(module, *tensors, **named)


def _given_twice(names: Iterable[str]) -> ValueError:
    return ValueError(
        "an input was given by its name and by the name that programs have for it: "
        f"{', '.join(map(repr, names))}. Give each once"
    )
