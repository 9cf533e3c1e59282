"""Saved sessions that would read or write files or change while read, and what copies keep."""

import _ctypes
import copy
import ctypes
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
from models import external_weight, unary
from saved import loaded, state_of
from support import refused

from ortdl_torch import InferenceSession


def test_only_files_beside_the_model_are_read_for_their_digests(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(external_weight("/proc/self/pagemap"))
    with refused(ValueError, "/proc/self/pagemap", "outside"):
        InferenceSession(path, embed=False)


def test_entries_that_name_files_are_neither_saved_nor_loaded(tmp_path: Path) -> None:
    options = onnxruntime.SessionOptions()
    key = "session.collect_node_memory_stats_to_file"
    options.add_session_config_entry(key, str(tmp_path / "stats.csv"))
    state = state_of(InferenceSession(unary("Relu"), options))
    assert key not in state[3]
    for hostile in (key, "session.model_external_initializers_file_folder_path"):
        with refused(ValueError, "damaged", hostile):
            loaded((*state[:3], {**state[3], hostile: str(tmp_path)}, *state[4:]))


def mapped(library: Path) -> bool:
    return str(library) in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize("place", [2, 3, 4], ids=["properties", "entries", "providers"])
def test_no_library_is_loaded_by_a_state(place: int, tmp_path: Path) -> None:
    library = tmp_path / "plugin.so"
    library.write_bytes(Path(_ctypes.__file__).read_bytes())
    keys = ("library", "ep_library", "backend_lib", "trt_extra_plugin_libs", "shared_lib")
    options = dict.fromkeys(keys, str(library))
    providers = onnxruntime.get_available_providers()
    state = state_of(InferenceSession(unary("Relu")))
    others = [(name, options) for name in ("PluginExecutionProvider", "QNNExecutionProvider")]
    for hostile in [options] if place < 4 else [[other] for other in others]:
        damaged = (*state[:place], hostile, *state[place + 1 :])
        if place == 3:  # ONNX Runtime knows no such entry, and keeps what it does not know
            loaded(damaged)
        else:
            with refused(ValueError, "library" if place == 2 else hostile[0][0]):
                loaded(damaged)
    assert onnxruntime.get_available_providers() == providers
    assert not mapped(library)
    ctypes.CDLL(str(library))
    assert mapped(library)


def test_lists_that_change_while_they_are_read_do_no_harm() -> None:
    state = state_of(InferenceSession(unary("Relu")))

    class Fickle:
        def __init__(self, among: list[Any], parts: tuple[Any, ...]) -> None:
            self.among, self.parts = among, parts

        def __len__(self) -> int:
            return len(self.parts)

        def __getitem__(self, index: int) -> Any:
            self.among.clear()
            return self.parts[index]

    for place, parts in ((1, ("", "", b"x")), (5, ("w", 1, [1], b"x"))):
        items: list[Any] = []
        items += [Fickle(items, parts) for _ in range(1000)]
        with pytest.raises((ValueError, RuntimeError)):
            loaded((*state[:place], items, *state[place + 1 :]))


class Labelled(InferenceSession):
    """A session with an attribute of its own."""

    label = "none"


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))]
)
def test_copies_keep_the_attributes(copied: Callable[[Labelled], Labelled]) -> None:
    session = Labelled(unary("Relu"))
    session.label = "first"
    again = copied(session)
    assert type(again) is Labelled
    assert again.label == "first"
