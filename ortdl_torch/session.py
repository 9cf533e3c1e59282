"""ONNX models that take tensors and give tensors."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Coroutine, Mapping, Sequence
from pickle import PickleBuffer
from typing import Any, NamedTuple, Self, SupportsIndex, cast

import onnxruntime
import torch

from ortdl_torch import _C, _async
from ortdl_torch._devices import providers_for
from ortdl_torch._numpy import bytes_of
from ortdl_torch._runtime import capture_options
from ortdl_torch._wording import counted
from ortdl_torch.binding import Bindable, IOBinding

# The options that a saved session keeps. Those that name files to write are left out, so that
# loading a session writes none.
_SAVED_PROPERTIES = (
    "enable_cpu_mem_arena",
    "enable_mem_pattern",
    "execution_mode",
    "graph_optimization_level",
    "inter_op_num_threads",
    "intra_op_num_threads",
    "log_severity_level",
    "log_verbosity_level",
    "logid",
    "use_deterministic_compute",
    "use_per_session_threads",
)

Model = str | os.PathLike[str] | bytes | torch.ScriptObject
Initializers = Mapping[str, "torch.Tensor | _C.OrtValueBase"]
Providers = Sequence[str | tuple[str, Mapping[str, Any]]]


class NodeArg(NamedTuple):
    """An input or output that a model declares."""

    name: str
    type: str
    """As onnxruntime spells it, such as ``tensor(float)``."""
    shape: list[int | str | None]
    """A number, or a name or None where the model leaves the size open."""


def is_dense(node: NodeArg) -> bool:
    """Whether what ``node`` declares is a dense tensor of numbers."""
    return node.type.startswith("tensor(") and node.type != "tensor(string)"


class InferenceSession(_C.InferenceSessionBase):
    """An ONNX model loaded into ONNX Runtime, called with tensors.

    ``session(*tensors, **named_tensors)`` runs the model and returns a tuple of its outputs as
    tensors. Contiguous inputs are read in place; other layouts are copied. Outputs are ONNX
    Runtime's own memory, never that of an input, and outlive the session. Any number of threads may
    call one session at once; Python's GIL is released while a model loads and runs.

    Inputs and outputs that are no dense tensors are Python's own objects:

    ==================  =================================================  ======================
    declared            as an input                                        as an output
    ==================  =================================================  ======================
    ``tensor(string)``  str or bytes, lists of them nested alike, arrays   str, or lists of the
                        of strings                                         output's shape
    ``seq(T)``          list or tuple of what ``T`` takes; tensors on the  list
                        CPU, shared unless they have to be copied
    ``map(K,V)``        dict                                               dict
    ``optional(T)``     None, or what ``T`` takes                          None, or as ``T``
    ==================  =================================================  ======================

    An OrtValue of the declared type is taken everywhere. The tensors in a list of an output are
    copies, since ONNX Runtime gives no others.

    A session on an accelerator takes inputs and leaves outputs there. Its work is ordered after
    PyTorch's current stream and before what follows on it, and the host does not wait unless an
    output is on the CPU; it cannot run while that stream is captured into a graph. CUDA and ROCm
    providers allocate from PyTorch's caching allocator.

    Args:
        model: path of an ONNX file, its bytes, or a ``torch.classes.ortdl.InferenceSession`` to
            stand for. Bytes are copied and kept, for saving the session.
        sess_options: every option set on it holds for the session. It is not kept.
        providers: names of execution providers or pairs of name and options, preferred first;
            the CPU's if None.
        provider_options: a dict of options for each of ``providers``.
        move_inputs: copy inputs from other devices to where the session wants them, which is
            otherwise an error.
        embed: whether a saved session holds the model with its external data. If not, it holds the
            absolute path and a digest of each file, which then must be the same when it is loaded;
            making the session reads the files once more for that.
        initializers: tensors or OrtValues instead of the model's initializers of these names. Their
            memory is shared and kept alive, and each run computes with what is in it then. Graph
            optimizations and prepacking are switched off for that, whatever ``sess_options`` say,
            and only the CPU's provider can be asked for.

    Calling it raises:
        ValueError: a wrong name, number, rank, size or device of an input, ragged lists, a str
            that UTF-8 has not, or one in an output that is no UTF-8.
        TypeError: a wrong dtype, another kind of object than the input takes, or an output that
            PyTorch has no tensor for (packed types such as int4; sparse tensors).
        BufferError: an input requires grad while grad mode is on, or has no memory to read.
        OrtError: ONNX Runtime failed.

    Raises:
        OrtError: ONNX Runtime refuses the model.
        ValueError: a provider is asked for that this ONNX Runtime does not offer, or whose device
            PyTorch lacks.
        RuntimeError: the first provider is an accelerator's and none of the model's inputs and
            outputs is there, since ONNX Runtime would silently run it elsewhere.
        ValueError: ``embed=False`` with a model that is no path.
        ValueError: an initializer's name that the model has not, another shape, a device that is
            not the CPU, or a layout that is not contiguous.
        BufferError: an initializer that requires grad while grad mode is on (use ``.detach()``), or
            has no memory to share.
        TypeError: an initializer of another dtype, or a wrong kind of argument.

    Sessions can be pickled and deep-copied: the model is saved as ``embed`` says, with its
    providers and those options that onnxruntime lets one read back (not: free dimension overrides,
    initializers added to ``sess_options``, custom operator libraries and files to write). A model
    file that has changed since it was loaded is a RuntimeError then. What ``initializers`` hold at
    that time is saved too; a deep copy shares them.

    A process forked after a session was made can run it only if the session has no threads, and
    gets a RuntimeError otherwise.
    """

    def __init__(
        self,
        model: Model,
        sess_options: onnxruntime.SessionOptions | None = None,
        providers: Providers | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        *,
        move_inputs: bool = False,
        embed: bool = True,
        initializers: Initializers | None = None,
    ) -> None:
        self._require_unmade()
        for name, flag in (("move_inputs", move_inputs), ("embed", embed)):
            if not isinstance(flag, bool):
                raise TypeError(f"{name} must be True or False, not {flag!r}")
        if isinstance(model, torch.ScriptObject):
            given = (sess_options, providers, provider_options, move_inputs or None, initializers)
            if not embed or any(argument is not None for argument in given):
                raise ValueError("a loaded session cannot be given other options or providers")
            self._set_script_object(model)
            return
        options = onnxruntime.SessionOptions() if sess_options is None else sess_options
        _C.require_session_options(options)
        if initializers is not None and not isinstance(initializers, Mapping):
            raise TypeError(
                f"initializers must map names to tensors, not {type(initializers).__name__}"
            )
        weights = dict(initializers or {})
        pairs = _provider_pairs(providers, provider_options)
        source, is_path = _model_source(model)
        if is_path and not embed:
            _require_utf8(source)
        capture_options(options)
        properties = _saved_properties(options)
        self._set_script_object(
            _C.make_session(source, is_path, properties, pairs, move_inputs, embed, weights)
        )

    def run(
        self,
        output_names: Sequence[str] | None,
        feeds: Mapping[str, Any],
        run_options: onnxruntime.RunOptions | None = None,
    ) -> list[Any]:
        """Run the model for some of its outputs.

        Args:
            output_names: the outputs to compute, in the order wanted; None or none for all.
            feeds: every input of the model by name: tensors, and what else an input may take.
            run_options: onnxruntime's own, used as they are, also by several runs at once:
                ``terminate = True``, set on any thread, ends a run in progress with an OrtError.

        Returns:
            The outputs asked for: tensors, and what else a model may give. Errors are those of
            calling the session.

        Raises:
            TypeError: also for run_options that are none.
        """
        if not isinstance(feeds, Mapping):
            raise TypeError(f"feeds must map names to tensors, not {type(feeds).__name__}")
        if isinstance(output_names, (list, tuple)) and not output_names:
            output_names = None
        return self._run(output_names, dict(feeds), run_options)

    def run_into(
        self,
        outputs: Sequence[Bindable] | Mapping[str, Bindable],
        inputs: Sequence[Bindable] | Mapping[str, Bindable],
        run_options: onnxruntime.RunOptions | None = None,
    ) -> None:
        """Run the model and write its outputs into tensors, in place.

        ONNX Runtime writes into their memory without a copy, except for an output that is an input
        of the model. Autograd sees the tensors as written to, also if the run fails half-way. On an
        accelerator it is a write on the current stream.

        Args:
            outputs: a contiguous tensor or OrtValue for every output in order, or some by name.
            inputs: every input, in order or by name, as in a call.
            run_options: as :meth:`run` takes them.

        Raises:
            ValueError: as a call; also for outputs that are an empty dict, a target of a wrong
                shape or device, one that is not contiguous, or that shares memory with an input,
                another target or one of the session's ``initializers``.
            TypeError: as a call; also for a target of a wrong dtype.
            BufferError: as a call; also for a target that requires grad while grad mode is on, has
                no memory, or is a read-only OrtValue.
            RuntimeError: an inference tensor outside of inference mode.
            OrtError: ONNX Runtime failed; also if an output has another shape than its target.
        """
        self._run_into(_group(outputs, "outputs"), _group(inputs, "inputs"), run_options)

    def io_binding(self) -> IOBinding:
        """A new, empty binding, for :meth:`run_with_iobinding`."""
        return IOBinding(self)

    def run_async(
        self,
        /,
        *tensors: torch.Tensor | _C.OrtValueBase | onnxruntime.OrtValue,
        run_options: onnxruntime.RunOptions | None = None,
        **named_tensors: torch.Tensor | _C.OrtValueBase | onnxruntime.OrtValue,
    ) -> Coroutine[Any, Any, tuple[torch.Tensor, ...]]:
        """Start a run, and await its outputs: ``outputs = await session.run_async(x)``.

        The run has started when this returns, and goes on in ONNX Runtime's threads: as many at
        once as the session has intra-op threads beside one, the others in turn. With a single
        intra-op thread, or on an accelerator, they go on in PyTorch's inter-op threads instead.
        Inputs are kept until the run ends; writing to one before changes what the run reads.

        Cancelling the task that awaits it, as ``asyncio.wait_for`` does, or dropping what this
        returns terminates the run at the model's next node.

        Args:
            tensors: inputs in order: tensors and OrtValues.
            named_tensors: inputs by name.
            run_options: as :meth:`run` takes them, kept until the run ends; but LoRA adapters have
                no effect. Cancelling sets ``terminate`` on them, which then stays set. A model's
                input that is called ``run_options`` can be given by position only.

        Returns:
            A coroutine for any event loop of asyncio. Awaiting it gives what calling the session
            returns, and raises OrtError where ONNX Runtime failed.

        Raises:
            ValueError, TypeError, BufferError: at once, for what calling the session refuses.
            RuntimeError: the interpreter is ending, and runs in flight with it.
        """
        return _async.outcome(self._start(tensors, named_tensors, run_options))

    def get_inputs(self) -> list[NodeArg]:
        """The inputs that the model takes, in order."""
        return [NodeArg(*node) for node in self._input_nodes()]

    def get_outputs(self) -> list[NodeArg]:
        """The outputs that the model gives, in order."""
        return [NodeArg(*node) for node in self._output_nodes()]

    def get_providers(self) -> list[str]:
        """The execution providers in use, preferred first; the CPU's is always last."""
        return self._provider_names()

    def _device(self) -> torch.device:
        """Where it takes inputs and leaves outputs: its accelerator, or the CPU."""
        script_object: Any = self.script_object
        ((_, text),) = script_object.__obj_flatten__()
        places = [node["device"] for nodes in json.loads(text).values() for node in nodes]
        return torch.device(next((place for place in places if place != "cpu"), "cpu"))

    def _on(self, device: torch.device) -> Self:
        """The same model and options, as far as they are saved, on the provider for `device`."""
        providers = providers_for(device)
        saved: Any = self.__reduce_ex__(5)
        _, (_, state) = saved
        known = {name: dict(options) for name, options in state[4]}
        wanted = [(name, {**known.get(name, {}), **options}) for name, options in providers]
        moved = _from_state(type(self), (*state[:4], wanted, *state[5:]))
        moved.__dict__.update(self.__dict__)
        return cast(Self, moved)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # A session never changes, so one serves every copy.
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        copied.__dict__.update(copy.deepcopy(self.__dict__, memo))
        copied._set_script_object(self.script_object)
        return copied

    def __copy__(self) -> InferenceSession:
        # A session is immutable, so that its copy may share it.
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__)
        copied._set_script_object(self.script_object)
        return copied

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        saved: Any = self.script_object.__getstate__()
        (version, files, *rest, initializers), _script_class = saved

        # Bytes, since a tensor would be sent to a spawned process by a file that is gone by then.
        # Large ones: the newer protocols copy none, and the older a file at a time.
        def held(saved: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
            result = []
            while saved:
                *described, tensor = saved.pop(0)
                array: Any = bytes_of(tensor)
                result.append((*described, PickleBuffer(array) if newer else bytes(array)))
            return result

        newer = int(protocol) > 4
        state = (version, held(files), *rest, held(initializers))
        made = (_from_state, (type(self), state))
        return (*made, self.__dict__) if self.__dict__ else made


def _from_state(cls: type[InferenceSession], state: tuple[Any, ...]) -> InferenceSession:
    session = cls.__new__(cls)
    session._set_script_object(_C.load_session(state))
    return session


def _group(
    tensors: Sequence[Bindable] | Mapping[str, Bindable], what: str
) -> tuple[Bindable, ...] | dict[str, Bindable]:
    if isinstance(tensors, Mapping):
        return dict(tensors)
    if isinstance(tensors, (list, tuple)):
        return tuple(tensors)
    raise TypeError(
        f"{what} must be a list or tuple of tensors, or map names to them, not "
        f"{type(tensors).__name__}"
    )


def _model_source(model: object) -> tuple[bytes, bool]:
    """The model's bytes, or its path's, and whether it is a path."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model), False
    if isinstance(model, (str, os.PathLike)):
        path = os.fspath(model)
        try:
            encoded = os.fsencode(path)
        except UnicodeEncodeError:
            encoded = b"\0"
        if b"\0" in encoded:
            raise ValueError(f"no file can have the path {path!r}")
        return encoded, True
    raise TypeError(
        "model must be the path of an ONNX file, its bytes or a "
        f"torch.classes.ortdl.InferenceSession, not {type(model).__name__}"
    )


def _require_utf8(path: bytes) -> None:
    try:
        path.decode()
    except UnicodeDecodeError:
        raise ValueError(
            f"embed=False saves the model's path as text, and {os.fsdecode(path)!r} is no UTF-8: "
            "rename the file, or leave embed=True"
        ) from None


def _saved_properties(options: onnxruntime.SessionOptions) -> dict[str, str]:
    def text(value: Any) -> str:
        return value if isinstance(value, str) else str(int(value))

    return {name: text(getattr(options, name)) for name in _SAVED_PROPERTIES}


def _provider_pairs(
    providers: Providers | None, provider_options: Sequence[Mapping[str, Any]] | None
) -> list[tuple[str, dict[str, str]]]:
    if isinstance(providers, str):
        raise TypeError(f"providers must be a list, not a string: pass [{providers!r}]")
    named = _sequence("providers", "names, or of pairs of a name and a dict", providers)
    pairs: list[tuple[str, Mapping[str, Any]]] = []
    for provider in named:
        name, options = (provider, {}) if isinstance(provider, str) else _pair(provider)
        pairs.append((name, options))
    if provider_options is not None:
        added = _sequence("provider_options", "dicts, one for each provider", provider_options)
        if len(added) != len(named):
            raise ValueError(
                f"provider_options holds {counted(len(added), 'dict')}, and there "
                f"{'is' if len(named) == 1 else 'are'} {counted(len(named), 'provider')}: give one "
                "for each"
            )
        for i, options in enumerate(added):
            if not isinstance(options, Mapping):
                raise TypeError(
                    f"provider_options[{i}] must be a dict of the options of {pairs[i][0]}, not "
                    f"{type(options).__name__}: give an empty one for none"
                )
            pairs[i] = (pairs[i][0], {**pairs[i][1], **options})
    made = [(name, {str(key): str(v) for key, v in options.items()}) for name, options in pairs]
    for name, texts in made:
        for text in (name, *texts, *texts.values()):
            _require_provider_text(name, text)
    return made


def _sequence(what: str, of: str, given: Any) -> list[Any]:
    if isinstance(given, Sequence) and not isinstance(given, (str, bytes, bytearray)):
        return list(given)
    if given is None:
        return []
    raise TypeError(f"{what} must be a list or tuple of {of}, not {type(given).__name__}")


def _pair(provider: Any) -> tuple[str, Mapping[str, Any]]:
    if not isinstance(provider, tuple) or len(provider) != 2:
        raise TypeError(f"expected a provider's name, or it and a dict, not {provider!r}")
    name, options = provider
    if not isinstance(name, str) or not isinstance(options, Mapping):
        raise TypeError(f"expected a provider's name and a dict of its options, not {provider}")
    return name, options


def _require_provider_text(name: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"the text {text!r} was given for the provider {name!r}, and UTF-8 has no lone "
            "surrogates: no provider has such a name or option"
        ) from None
