"""TorchScript archives of a session that were damaged or edited by hand: an error each."""

from pathlib import Path

import pytest
import torch
from archives import (
    FILES,
    INITIALIZERS,
    OPTIONS,
    PROVIDERS,
    Bytes,
    Tagged,
    archive_of,
    loaded,
    with_records,
    with_state,
)
from models import external_weight, scaled, unary
from support import refused

from ortdl_torch import InferenceSession, OnnxModule

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")

MODEL = unary("Neg")
SIZE = len(MODEL)
NOTHING = Tagged({}, OPTIONS)
SIZES = Tagged([4], "List[int]")


def files(*entries: object) -> Tagged:
    """The files of a saved session."""
    return Tagged(list(entries), FILES)


def state(**changed: object) -> tuple[object, ...]:
    """What a session of `MODEL` saves, with other values for some of it."""
    known = {
        "version": 2,
        "files": files(("", "", Bytes(SIZE))),
        "properties": NOTHING,
        "entries": NOTHING,
        "providers": Tagged([], PROVIDERS),
        "initializers": Tagged([], INITIALIZERS),
    }
    assert changed.keys() <= known.keys()
    return tuple((known | changed).values())


@pytest.fixture(scope="module")
def archive() -> bytes:
    """An archive that holds `MODEL`."""
    return archive_of(OnnxModule(MODEL))


def test_an_archive_that_was_written_again_is_loaded(archive: bytes) -> None:
    entries = Tagged({"session.force_spinning_stop": "1"}, OPTIONS)
    properties = Tagged({"intra_op_num_threads": "1"}, OPTIONS)
    again = with_state(archive, state(properties=properties, entries=entries))
    assert loaded(again)(torch.ones(2)).tolist() == [-1, -1]


def test_another_version(archive: bytes) -> None:
    for version in (-1, 0, 1, 3, 2**31 - 1):
        with refused(ValueError, f"version {version},", "reads version 2", "save it again"):
            loaded(with_state(archive, state(version=version)))


# PyTorch itself holds the state's type, as far as it can see it, against what is saved.
def test_a_state_of_another_form(archive: bytes) -> None:
    whole = state()
    for changed in (
        state(version=None),
        state(version="2"),
        state(files=NOTHING),
        (*whole, 1),
        whole[:-1],
        (),
        5,
        None,
        Tagged([1], "List[int]"),
    ):
        with pytest.raises(RuntimeError, match=r"found type|TupleElements|Expected Tuple"):
            loaded(with_state(archive, changed))


def test_values_that_are_not_of_the_type_that_they_are_said_to_be(archive: bytes) -> None:
    model, weight = ("", "", Bytes(SIZE)), ("w", 1, SIZES, Bytes(16))
    for changed in (
        *(state(files=files((name, *model[1:]))) for name in (1, None)),
        *(state(files=files((*model[:2], content))) for content in ("x", None, 1)),
        state(files=files(model, (*model, 1))),
        *(state(properties=Tagged({"logid": value}, OPTIONS)) for value in (1, None, True)),
        state(properties=Tagged({1: "1"}, OPTIONS)),
        state(properties=Tagged({"logid": 1}, "Dict[str, int]")),
        state(entries=Tagged({"session.set_denormal_as_zero": 1}, OPTIONS)),
        state(providers=Tagged([(1, NOTHING)], PROVIDERS)),
        state(providers=Tagged([("CPUExecutionProvider", Tagged({"a": 1}, OPTIONS))], PROVIDERS)),
        state(initializers=Tagged([("w", None, *weight[2:])], INITIALIZERS)),
        state(initializers=Tagged([("w", 1, Tagged(["x"], "List[int]"), Bytes(16))], INITIALIZERS)),
    ):
        with refused(ValueError, "damaged", "of other types than are saved"):
            loaded(with_state(archive, changed))


def test_values_that_make_no_sense(archive: bytes) -> None:
    model = ("", "", Bytes(SIZE))
    for changed, words in (
        (state(files=files()), "it holds no model"),
        (state(files=files(model, model)), "has no name, or one that another has"),
        (state(files=files(("", "0" * 40, model[2]))), "without its path or digest"),
        (state(files=files(("name", "", model[2]))), "has no name"),
        (state(properties=Tagged({"nothing": "1"}, OPTIONS)), "'nothing'"),
        (state(properties=Tagged({"execution_mode": "x"}, OPTIONS)), "must be an integer"),
        (state(entries=Tagged({"a.path": "x"}, OPTIONS)), "'a.path' names a file"),
        (state(providers=Tagged([("NoProvider", NOTHING)], PROVIDERS)), "'NoProvider'"),
        (
            state(initializers=Tagged([("w", 1, SIZES, Bytes(12))], INITIALIZERS)),
            "the initializer 'w' makes no sense",
        ),
    ):
        with refused(ValueError, words):
            loaded(with_state(archive, changed))


def test_bytes_of_another_type(archive: bytes) -> None:
    for storage in ("CharStorage", "BoolStorage", "FloatStorage"):
        with pytest.raises((ValueError, RuntimeError), match=r"no bytes of the model|a storage of"):
            loaded(with_state(archive, state(files=files(("", "", Bytes(SIZE, storage=storage))))))


# PyTorch takes the number of bytes from the state, whatever the record holds: nothing is to be read
# beyond it. malloc gives some more than it was asked for, so the last ones may miss unnoticed.
def test_a_truncated_model(archive: bytes) -> None:
    # What malloc gave beyond a record's end belongs to it as far as anyone can tell.
    either = r"damaged.*no bytes of the model|ONNX Runtime: INVALID_PROTOBUF"
    for kept in (0, 1, 20, SIZE // 2):
        with pytest.raises((ValueError, RuntimeError), match=either):
            loaded(with_state(archive, state(), _0=MODEL[:kept]))
    with refused(ValueError, "damaged", "no bytes of the model"):
        loaded(with_state(archive, state(files=files(("", "", Bytes(2**27))))))
    for content, size in ((bytes(SIZE), SIZE), (MODEL, SIZE - 1), (MODEL, 20)):
        changed = with_state(archive, state(files=files(("", "", Bytes(size)))), _0=content)
        with pytest.raises(RuntimeError, match=r"ONNX Runtime: .*(PROTOBUF|GRAPH|FAIL)"):
            loaded(changed)


def test_truncated_initializers() -> None:
    whole = archive_of(OnnxModule(scaled(), initializers={"w": torch.ones(4)}))
    model = files(("", "", Bytes(len(scaled()), "0")))
    given = Tagged([("w", 1, SIZES, Bytes(16, "1"))], INITIALIZERS)
    changed = state(files=model, initializers=given)
    weight = torch.full((4,), 3.0).numpy().tobytes()
    twos = loaded(with_state(whole, changed, _0=scaled(), _1=weight))
    assert twos(torch.ones(4)).tolist() == [3, 3, 3, 3]
    large = Tagged([("w", 1, Tagged([1000], "List[int]"), Bytes(4000, "1"))], INITIALIZERS)
    for content in (b"", weight):
        with refused(ValueError, "damaged", "the initializer 'w' makes no sense"):
            loaded(
                with_state(whole, state(files=model, initializers=large), _0=scaled(), _1=content)
            )


@pytest.mark.parametrize("name", ["data.pkl", "data/0", "constants.pkl"])
def test_a_record_that_is_gone(archive: bytes, name: str) -> None:
    with refused(RuntimeError, name.removesuffix(".pkl")):
        loaded(with_records(archive, {name: None}))


def test_a_state_that_is_cut_off(archive: bytes) -> None:
    for kept in (0, 2, 160, 300):
        changed = with_state(archive, state())
        with pytest.raises((RuntimeError, ValueError)):
            loaded(with_records(changed, {"data.pkl": b"\x80\x02"[:kept]}))


def test_references_to_files(archive: bytes, tmp_path: Path) -> None:
    path, data = tmp_path / "model.onnx", tmp_path / "weight.bin"
    path.write_bytes(external_weight())
    data.write_bytes(torch.ones(4).numpy().tobytes())
    saved = InferenceSession(path, embed=False).__reduce_ex__(4)[1][1][1]
    model, weight = ((name, digest, Bytes(0)) for name, digest, _ in saved)
    again = loaded(with_state(archive, state(files=files(model, weight))))
    assert again(torch.zeros(4)).tolist() == [1, 1, 1, 1]
    for kind, changed, words in (
        (RuntimeError, ((*model[:1], "0" * 40, model[2]), weight), ("digest", "0" * 40, "model")),
        (RuntimeError, (model, (weight[0], weight[1][::-1], weight[2])), ("digest", "weight.bin")),
        (RuntimeError, ((f"{path}x", *model[1:]), weight), ("there is none", f"{path}x")),
        (ValueError, (model,), ("says nothing of", "weight.bin")),
        (ValueError, (model, ("", *weight[1:])), ("without its path or digest",)),
        (ValueError, (model, (weight[0], "", weight[2])), ("without its path or digest",)),
        (ValueError, (("a\0b", *model[1:]), weight), ("without its path or digest",)),
    ):
        with refused(kind, *words):
            loaded(with_state(archive, state(files=files(*changed))))
