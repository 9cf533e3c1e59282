"""Sessions saved with their model or by its path: every way there and back, and what is refused."""

import copy
import io
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
from models import external_weight, unary
from saved import loaded, state_of
from support import in_new_process, live, needs_onnxruntime, refused
from torch.utils.data import DataLoader

from ortdl_torch import InferenceSession, OnnxModule, OrtError

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning"),
]

X = torch.tensor([1.0, -2.0, 3.0, -4.0])
WEIGHT = torch.tensor([10.0, 20.0, 30.0, 40.0])
embedded = pytest.mark.parametrize("embed", [True, False], ids=["embedded", "by reference"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A model, and beside it the file with its weight."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "weight.bin").write_bytes(WEIGHT.numpy().tobytes())
    (folder / "model.onnx").write_bytes(external_weight())
    return folder / "model.onnx"


def stock(path: Path) -> torch.Tensor:
    """What onnxruntime's own session makes of X."""
    session = onnxruntime.InferenceSession(path)
    return torch.from_numpy(session.run(None, {"x": X.numpy()})[0])


def scripted_from(state: Any) -> torch.ScriptObject:
    """The same from a state with tensors, as TorchScript loads it."""
    made = torch.ScriptObject.__new__(torch.ScriptObject)
    made.__setstate__((state, InferenceSession(unary("Relu")).script_object.__getstate__()[1]))
    return made


def through_torch_save(module: OnnxModule, folder: Path) -> Callable[[], Any]:
    torch.save(module, folder / "module.pt")
    return lambda: torch.load(folder / "module.pt", weights_only=False)


def through_script(module: OnnxModule, folder: Path) -> Callable[[], Any]:
    torch.jit.save(torch.jit.script(module), folder / "script.pt")
    return lambda: torch.jit.load(folder / "script.pt")


def through_export(module: OnnxModule, folder: Path) -> Callable[[], Any]:
    torch.export.save(torch.export.export(module, (X,)), folder / "program.pt2")
    return lambda: torch.export.load(folder / "program.pt2").module()


def through_pickle(protocol: int) -> Callable[[OnnxModule, Path], Callable[[], Any]]:
    def saved(module: OnnxModule, folder: Path) -> Callable[[], Any]:
        data = pickle.dumps(module, protocol)
        return lambda: pickle.loads(data)

    return saved


ROUTES = {
    "pickle 2": through_pickle(2),
    "pickle 4": through_pickle(4),
    "pickle 5": through_pickle(5),
    "torch.save": through_torch_save,
    "script": through_script,
    "export": through_export,
}


@embedded
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.usefixtures("fresh_compilers", "nothing_exported")
def test_saved_and_loaded(route: str, embed: bool, path: Path, tmp_path: Path) -> None:
    wanted = stock(path)
    load = ROUTES[route](OnnxModule(path, embed=embed), tmp_path)
    if embed:
        path.unlink()
        (path.parent / "weight.bin").unlink()
    for _again in range(2):
        assert torch.equal(load()(X), wanted)
    if not embed:
        path.unlink()
        # torch.export.load keeps the message to its log.
        words = "deserializing" if route == "export" else r"(?s)model\.onnx.*embed=True"
        with pytest.raises(RuntimeError, match=words):
            load()


class Both(torch.nn.Module):
    """The outputs of a model that is saved whole, and of one that is saved by reference."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.whole = OnnxModule(path)
        self.reference = OnnxModule(path, embed=False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.whole(x), self.reference(x)


@pytest.mark.filterwarnings("ignore")  # what the package's loader warns of changes with PyTorch
@pytest.mark.usefixtures("fresh_compilers", "nothing_exported")
def test_aotinductor_package_runs_elsewhere(path: Path, tmp_path: Path) -> None:
    package = str(tmp_path / "package.pt2")
    program = torch.export.export(Both(path), (X,))
    torch._inductor.aoti_compile_and_package(program, package_path=package)
    code = (
        "import torch, ortdl_torch\n"
        f"runner = torch._inductor.aoti_load_package({package!r})\n"
        f"print([y.tolist() for y in runner(torch.tensor({X.tolist()}))])\n"
    )
    done = in_new_process(code)
    assert (done.returncode, done.stdout) == (0, f"{[stock(path).tolist()] * 2}\n"), done.stderr
    (path.parent / "weight.bin").unlink()
    done = in_new_process(code)
    assert done.returncode != 0
    assert "weight.bin" in done.stderr
    assert "embed=True" in done.stderr


class Outputs(torch.utils.data.Dataset):
    """What each of some modules makes of X."""

    def __init__(self, *modules: OnnxModule) -> None:
        self.modules = modules

    def __len__(self) -> int:
        return len(self.modules)

    def __getitem__(self, i: int) -> torch.Tensor:
        return self.modules[i](X)


def test_spawned_data_loader_workers(path: Path) -> None:
    modules = [OnnxModule(path, embed=embed) for embed in (True, False)]
    loader = DataLoader(
        Outputs(*modules), batch_size=2, num_workers=1, multiprocessing_context="spawn"
    )
    (batch,) = list(loader)
    assert torch.equal(batch, stock(path).expand(2, 4))


def work(rank: int, sessions: list[InferenceSession], results: torch.Tensor) -> None:
    """Runs in a spawned process."""
    for i, session in enumerate(sessions):
        results[i] = session(X)[0]


def test_torch_multiprocessing_spawn(path: Path) -> None:
    sessions = [InferenceSession(path, embed=embed) for embed in (True, False)]
    results = torch.zeros(2, 4).share_memory_()
    torch.multiprocessing.spawn(work, (sessions, results))
    assert torch.equal(results, stock(path).expand(2, 4))


@embedded
def test_deep_copies_share_the_session(embed: bool, path: Path) -> None:
    module = OnnxModule(path, embed=embed)
    assert copy.deepcopy(module.script_object) == module.script_object
    assert torch.equal(copy.deepcopy(module)(X), stock(path))
    assert live()["sessions"] == 1


@embedded
def test_saved_again_is_the_same(embed: bool, path: Path) -> None:
    state = state_of(InferenceSession(path, embed=embed))
    assert state_of(loaded(tuple(state))) == state
    held = [(b"", digest) for _name, digest, _bytes in state[1]]
    if embed:
        assert state[1] == [
            ("", "", path.read_bytes()),
            ("weight.bin", "", WEIGHT.numpy().tobytes()),
        ]
    else:
        assert [(data, digest) for _name, digest, data in state[1]] == held
        assert [name for name, _, _ in state[1]] == [str(path), str(path.parent / "weight.bin")]


@embedded
def test_a_path_means_what_it_meant_when_the_session_was_made(
    embed: bool, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    session = InferenceSession("model.onnx", embed=embed)
    monkeypatch.chdir(tmp_path)
    assert torch.equal(pickle.loads(pickle.dumps(session))(X)[0], stock(path))


def test_no_copy_of_the_bytes_where_pickle_needs_none() -> None:
    buffers: list[pickle.PickleBuffer] = []
    session = InferenceSession(unary("Relu"))
    data = pickle.dumps(session, 5, buffer_callback=buffers.append)
    assert [bytes(buffer) for buffer in buffers] == [unary("Relu")]
    assert pickle.loads(data, buffers=buffers)(X)[0].tolist() == [1, 0, 3, 0]


def rewrite(file: Path, data: bytes) -> None:
    """Write another content, so that the file system's clock tells."""
    before = file.stat().st_ctime_ns
    while file.stat().st_ctime_ns == before:
        file.write_bytes(data)


@embedded
@pytest.mark.parametrize("changed", ["model.onnx", "weight.bin"])
def test_a_file_that_changed_since_is_not_saved(embed: bool, changed: str, path: Path) -> None:
    session = InferenceSession(path, embed=embed)
    file = path.parent / changed
    rewrite(file, file.read_bytes()[:-1] + b"\1")
    with refused(RuntimeError, str(file), "changed", "make the session again"):
        pickle.dumps(session)
    file.unlink()
    with refused(RuntimeError, str(file), "gone", "make the session again"):
        pickle.dumps(session)


@pytest.mark.parametrize("changed", ["model.onnx", "weight.bin"])
def test_another_file_in_the_place_of_the_saved_one(changed: str, path: Path) -> None:
    data = pickle.dumps(InferenceSession(path, embed=False))
    file = path.parent / changed
    same = file.read_bytes()
    file.unlink()
    with refused(RuntimeError, str(file), "there is none", "embed=True"):
        pickle.loads(data)
    file.write_bytes(same[:-1] + bytes([same[-1] ^ 1]))
    with refused(RuntimeError, str(file), "digest", "make the session again"):
        pickle.loads(data)
    file.write_bytes(same)
    assert torch.equal(pickle.loads(data)(X)[0], stock(path))


@pytest.mark.parametrize("make", [InferenceSession, OnnxModule])
def test_bytes_have_no_path_to_save(make: Any) -> None:
    with refused(ValueError, "embed=False", "path"):
        make(unary("Relu"), embed=False)


def test_a_path_that_is_no_text(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.onnx"
    Path(os.fsdecode(path)).write_bytes(unary("Relu"))
    with refused(ValueError, "UTF-8", "embed=True"):
        InferenceSession(os.fsdecode(path), embed=False)
    assert pickle.loads(pickle.dumps(InferenceSession(os.fsdecode(path))))(X)[0].tolist()[0] == 1


@pytest.mark.parametrize("name", ["embed", "move_inputs"])
@pytest.mark.parametrize("wrong", ["maybe", None, 1])
@pytest.mark.parametrize("make", [InferenceSession, OnnxModule])
def test_flags_are_true_or_false(make: Any, wrong: object, name: str) -> None:
    with refused(TypeError, name, "True or False", repr(wrong)):
        make(unary("Relu"), **{name: wrong})


def test_a_made_session_is_given_no_other_way_of_saving() -> None:
    session = InferenceSession(unary("Relu"))
    with refused(ValueError, "other options"):
        InferenceSession(session.script_object, embed=False)
    with refused(ValueError, "other options"):
        OnnxModule(session, embed=False)


def test_external_data_of_bytes_cannot_be_saved(
    path: Path, options: onnxruntime.SessionOptions
) -> None:
    options.add_session_config_entry(
        "session.model_external_initializers_file_folder_path", str(path.parent)
    )
    session = InferenceSession(path.read_bytes(), options)
    assert torch.equal(session(X)[0], stock(path))
    with refused(ValueError, "as bytes", "weight.bin", "path of the model's file"):
        pickle.dumps(session)


@needs_onnxruntime("1.25", "name of the file in what it says")
def test_external_data_of_bytes_without_a_folder(options: onnxruntime.SessionOptions) -> None:
    with refused(OrtError, "weight.bin"):
        InferenceSession(external_weight(), options)


@pytest.mark.parametrize("where", ["subgraph", "function"])
def test_external_data_that_onnxruntime_reads_from_files_only(where: str, path: Path) -> None:
    path.write_bytes(external_weight(where=where))
    wanted = stock(path)
    with refused(ValueError, "other places", "embed=False"):
        pickle.dumps(InferenceSession(path))
    data = pickle.dumps(InferenceSession(path, embed=False))
    assert torch.equal(pickle.loads(data)(X)[0], wanted)


# 1.27 to 1.30 abort the process at such a file, without this library as well.
@needs_onnxruntime("1.31", "way with an empty file of external data")
def test_an_empty_file_of_external_data(path: Path) -> None:
    path.write_bytes(external_weight(elements=0))
    (path.parent / "weight.bin").write_bytes(b"")
    session = InferenceSession(path)
    assert pickle.loads(pickle.dumps(session))(torch.ones(0))[0].shape == (0,)


@pytest.mark.parametrize("location", ["../weight.bin", "absolute", "link.bin"])
def test_external_data_outside_of_the_models_folder(location: str, path: Path) -> None:
    outside = path.parent.parent / "weight.bin"
    (path.parent / "weight.bin").rename(outside)
    (path.parent / "link.bin").symlink_to(outside)
    path.write_bytes(external_weight(str(outside) if location == "absolute" else location))
    with refused(OrtError, "external data", "path"):
        InferenceSession(path)
    with refused(ValueError, "external data", "outside"):
        InferenceSession(path, embed=False)


@embedded
@needs_onnxruntime("1.25", "way with such links")
def test_links_as_a_cache_of_downloads_has_them(embed: bool, path: Path, tmp_path: Path) -> None:
    wanted = stock(path)
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir()
    snapshot.mkdir()
    for i, name in enumerate(("model.onnx", "weight.bin")):
        (path.parent / name).rename(blobs / str(i))
        (snapshot / name).symlink_to(f"../blobs/{i}")
    session = InferenceSession(snapshot / "model.onnx", embed=embed)
    assert torch.equal(pickle.loads(pickle.dumps(session))(X)[0], wanted)


@pytest.mark.parametrize("version", [1, 3, 0, -1, 2**40])
def test_another_version(version: int) -> None:
    for rest in (state_of(InferenceSession(unary("Relu")))[1:], [b"model", {}, {}, []], []):
        with refused(ValueError, f"version {version}", "reads version 2"):
            loaded((version, *rest))


FILE = ("", "", unary("Relu"))
WRONG: dict[str, Any] = {
    "None": None,
    "text": "state",
    "empty": (),
    "no version": ("2", [FILE], {}, {}, []),
    "short": (2, [FILE], {}, {}, []),
    "long": (2, [FILE], {}, {}, [], [], []),
    "files of another kind": (2, unary("Relu"), {}, {}, [], []),
    "no files": (2, [], {}, {}, [], []),
    "file of another kind": (2, [unary("Relu")], {}, {}, [], []),
    "short file": (2, [("", "")], {}, {}, [], []),
    "model as text": (2, [("", "", "model")], {}, {}, [], []),
    "model as numbers": (2, [("", "", [1, 2])], {}, {}, [], []),
    "model as tensor": (2, [("", "", torch.ones(2))], {}, {}, [], []),
    "model's name": (2, [("name", "", unary("Relu"))], {}, {}, [], []),
    "name of another kind": (2, [(1, "", unary("Relu"))], {}, {}, [], []),
    "nameless data": (2, [FILE, ("", "", b"12")], {}, {}, [], []),
    "two of one name": (2, [FILE, ("a", "", b"12"), ("a", "", b"12")], {}, {}, [], []),
    "name with a NUL": (2, [FILE, ("a\0b", "", b"12")], {}, {}, [], []),
    "digest beside bytes": (2, [FILE, ("a", "0" * 40, b"12")], {}, {}, [], []),
    "path without digest": (2, [("/a", "0" * 40, b""), ("/b", "", b"")], {}, {}, [], []),
    "digest without path": (2, [("", "0" * 40, b"")], {}, {}, [], []),
    "path with a NUL": (2, [("/a\0b", "0" * 40, b"")], {}, {}, [], []),
    "properties of another kind": (2, [FILE], [], {}, [], []),
    "property that is no text": (2, [FILE], {"logid": 1}, {}, [], []),
    "entries of another kind": (2, [FILE], {}, "entries", [], []),
    "entry that is no text": (2, [FILE], {}, {1: "1"}, [], []),
    "providers of another kind": (2, [FILE], {}, {}, {"CPUExecutionProvider": {}}, []),
    "provider without options": (2, [FILE], {}, {}, ["CPUExecutionProvider"], []),
    "options of another kind": (2, [FILE], {}, {}, [("CPUExecutionProvider", [])], []),
    "initializers of another kind": (2, [FILE], {}, {}, [], {"w": b"1234"}),
    "short initializer": (2, [FILE], {}, {}, [], [("w", 1, [1])]),
    "initializer's bytes as text": (2, [FILE], {}, {}, [], [("w", 1, [1], "1234")]),
    "initializer of no type": (2, [FILE], {}, {}, [], [("w", 99, [1], b"1234")]),
    "initializer of texts": (2, [FILE], {}, {}, [], [("w", 8, [1], b"1234")]),
    "initializer too short": (2, [FILE], {}, {}, [], [("w", 1, [2], b"1234")]),
    "initializer of negative size": (2, [FILE], {}, {}, [], [("w", 1, [-1, -1], b"1234")]),
    "initializer of too many": (2, [FILE], {}, {}, [], [("w", 1, [2**62, 2**62], b"1234")]),
}


@pytest.mark.parametrize("state", WRONG.values(), ids=WRONG.keys())
def test_damaged_state(state: Any) -> None:
    with refused(ValueError, "damaged"):
        loaded(state)


def test_state_whose_words_mean_nothing() -> None:
    with refused(ValueError, "no session option", "threads"):
        loaded((2, [FILE], {"threads": "1"}, {}, [], []))
    with refused(ValueError, "logid|log_severity_level", "integer"):
        loaded((2, [FILE], {"log_severity_level": "much"}, {}, [], []))


def test_truncated_bytes(path: Path) -> None:
    version, (model, weight), *rest = state_of(InferenceSession(path))
    for files in (
        [(*model[:2], model[2][:-9]), weight],
        [(*model[:2], b""), weight],
        [model, (*weight[:2], weight[2][:-1])],
        [model, (*weight[:2], b"")],
        [model, ("other.bin", *weight[1:])],
        [model],
    ):
        with pytest.raises(OrtError):
            loaded((version, files, *rest))


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.untyped_storage().resize_(0),
        lambda t: t.untyped_storage().resize_(1),
        lambda t: t.resize_(0),
        lambda t: t.fill_(255),
    ],
    ids=["no storage", "short storage", "no bytes", "other bytes"],
)
def test_damaged_state_of_a_script_object(change: Callable[[torch.Tensor], Any]) -> None:
    scripted = InferenceSession(unary("Relu")).script_object
    version, files, *rest = scripted.__getstate__()[0]
    change(files[0][2])
    with pytest.raises((RuntimeError, ValueError)):
        scripted_from((version, files, *rest))


@pytest.mark.parametrize(
    "bytes_", [torch.zeros(1, dtype=torch.uint8).expand(2**40), torch.zeros(4), torch.zeros(2, 2)]
)
def test_script_object_with_a_tensor_of_another_kind(bytes_: torch.Tensor) -> None:
    scripted = InferenceSession(unary("Relu")).script_object
    version, _files, *rest = scripted.__getstate__()[0]
    with refused(ValueError, "damaged"):
        scripted_from((version, [("", "", bytes_)], *rest))


def test_reference_that_says_nothing_of_a_file(path: Path) -> None:
    version, files, *rest = state_of(InferenceSession(path, embed=False))
    with refused(ValueError, "damaged", "weight.bin"):
        loaded((version, files[:1], *rest))


def test_a_provider_that_is_not_here() -> None:
    state = state_of(InferenceSession(unary("Relu")))
    state[4] = [("TensorrtExecutionProvider", {"device_id": "0"})]
    words = (
        "'TensorrtExecutionProvider'",
        "the saved session",
        onnxruntime.__version__,
        *onnxruntime.get_available_providers(),
        "install",
    )
    with refused(ValueError, *words):
        loaded(tuple(state))
    scripted = InferenceSession(unary("Relu")).script_object
    version, files, properties, entries, _, weights = scripted.__getstate__()[0]
    with refused(ValueError, *words):
        scripted_from((version, files, properties, entries, state[4], weights))


def test_a_script_file_of_a_damaged_session_says_so(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(OnnxModule(unary("Relu"))), buffer)
    data = buffer.getvalue()
    assert data.count(unary("Relu")) == 1
    # The file keeps no checksum that PyTorch looks at.
    spoilt = data.replace(unary("Relu"), b"\xff" * len(unary("Relu")))
    with pytest.raises(RuntimeError):
        torch.jit.load(io.BytesIO(spoilt))
