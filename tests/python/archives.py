"""TorchScript archives of a session, with any state written into them."""

import io
import zipfile
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from ortdl_torch import OnnxModule

FILES = "List[Tuple[str, str, Tensor]]"
OPTIONS = "Dict[str, str]"
PROVIDERS = "List[Tuple[str, Dict[str, str]]]"
INITIALIZERS = "List[Tuple[str, int, List[int], Tensor]]"


class Tagged(NamedTuple):
    """A list or dict, and the type that the archive says that it has."""

    value: list[Any] | dict[Any, Any]
    tag: str


class Bytes(NamedTuple):
    """A flat tensor over the archive's record `data/<key>`."""

    size: int
    key: str = "0"
    storage: str = "ByteStorage"


def archive_of(module: OnnxModule) -> bytes:
    """The file in which PyTorch saves the module."""
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(module), buffer)
    return buffer.getvalue()


def with_records(archive: bytes, records: Mapping[str, bytes | None]) -> bytes:
    """The archive with other records of these names; without those that are None."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(buffer, "w") as new:
        kept = {item.filename: old.read(item) for item in old.infolist()}
        for name, content in records.items():
            kept[f"archive/{name}"] = content
        for name, content in kept.items():
            if content is not None:
                new.writestr(name, content)
    return buffer.getvalue()


def with_state(archive: bytes, state: object, **data: bytes) -> bytes:
    """The archive with `state` as the session's, and records `data/0`, ... given as `_0`, ..."""
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        pickled = file.read("archive/data.pkl")
    name = b"classes.ortdl\nInferenceSession\n"
    start = pickled.index(b")\x81", pickled.index(name)) + 2
    # The state is built into the session, which is the last attribute of the module.
    changed = pickled[:start] + written(state) + b"bub."
    records = {f"data/{key[1:]}": content for key, content in data.items()}
    return with_records(archive, {"data.pkl": changed, **records})


def written(value: object) -> bytes:
    """The value as PyTorch's pickles have it."""
    if value is None:
        return b"N"
    if isinstance(value, bool):
        return b"\x88" if value else b"\x89"
    if isinstance(value, int):
        return b"J" + value.to_bytes(4, "little", signed=True)
    if isinstance(value, str):
        return b"X" + len(value.encode()).to_bytes(4, "little") + value.encode()
    if isinstance(value, Bytes):
        storage = (
            b"(" + written("storage") + b"ctorch\n" + value.storage.encode() + b"\n"
            + written(value.key) + written("cpu") + written(value.size) + b"tQ"
        )  # fmt: skip
        described = written(0) + b"(" + written(value.size) + b"t(" + written(1) + b"t\x89"
        hooks = b"ccollections\nOrderedDict\n)R"
        return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + described + hooks + b"tR"
    if isinstance(value, Tagged):
        content = value.value
        if isinstance(content, dict):
            items = b"".join(written(k) + written(v) for k, v in content.items())
            pickled = b"}(" + items + b"u" if content else b"}"
        else:
            pickled = b"](" + b"".join(map(written, content)) + b"e" if content else b"]"
        return b"ctorch.jit._pickle\nrestore_type_tag\n" + pickled + written(value.tag) + b"\x86R"
    assert isinstance(value, tuple)
    return b"(" + b"".join(map(written, value)) + b"t"


def loaded(archive: bytes) -> torch.jit.ScriptModule:
    """What PyTorch loads from it."""
    return torch.jit.load(io.BytesIO(archive))
