"""onnxruntime's own RunOptions, as they are: log, end from another thread, entries, adapters."""

import re
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from models import counting_loop, reshaped, subtract, unary, with_adapter_inputs
from onnxruntime import RunOptions
from support import refused

from ortdl_torch import InferenceSession, OrtError

FOREVER = 2**62


def turns(number: int) -> dict[str, torch.Tensor]:
    """Feeds of `counting_loop`."""
    return {"start": torch.zeros(1), "turns": torch.tensor(number)}


@pytest.mark.parametrize("options", [(), (None,), (RunOptions(),)], ids=["none", "None", "default"])
def test_options_may_be_left_out(options: tuple) -> None:
    session = InferenceSession(subtract())
    feeds = {"left": torch.tensor([5.0]), "right": torch.tensor([3.0])}
    assert session.run(None, feeds, *options)[0].tolist() == [2]
    assert session.run(["difference"], feeds, *options)[0].tolist() == [2]


def test_options_by_name_and_of_a_subclass() -> None:
    class Mine(RunOptions):
        pass

    options = Mine()
    options.terminate = True
    with refused(OrtError, "terminate"):
        InferenceSession(unary("Relu")).run(None, {"x": torch.ones(1)}, run_options=options)


def test_terminate_set_before_the_run() -> None:
    session = InferenceSession(unary("Relu"))
    options = RunOptions()
    options.terminate = True
    for _ in range(2):
        with refused(OrtError, "terminate"):
            session.run(None, {"x": torch.ones(1)}, options)
    options.terminate = False
    assert session.run(None, {"x": torch.ones(1)}, options)[0].tolist() == [1]


def test_terminate_from_another_thread_ends_a_run() -> None:
    session = InferenceSession(counting_loop())
    options = RunOptions()

    def end() -> None:
        time.sleep(0.05)
        options.terminate = True

    ending = threading.Thread(target=end)
    ending.start()
    with refused(OrtError, "terminate"):
        session.run(None, turns(FOREVER), options)
    ending.join()
    assert session.run(None, turns(3))[0].tolist() == [3]
    options.terminate = False
    assert session.run(None, turns(4), options)[0].tolist() == [4]


def test_terminate_ends_only_the_runs_that_have_the_options() -> None:
    session = InferenceSession(counting_loop())
    options = RunOptions()
    ended: list[str] = []

    def work() -> None:
        with pytest.raises(OrtError) as caught:
            session.run(None, turns(FOREVER), options)
        ended.append(str(caught.value))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert session.run(None, turns(1000), RunOptions())[0].tolist() == [1000]
    assert session.run(None, turns(1000))[0].tolist() == [1000]
    options.terminate = True
    for thread in threads:
        thread.join()
    assert len(ended) == 3
    assert all("terminate" in message for message in ended)


def logged(capfd: pytest.CaptureFixture, run: Callable[[RunOptions], object], level: int) -> str:
    """What a run with a tag of its own that fails writes, without times and colours."""
    options = RunOptions()
    options.logid = "a tag of mine"
    options.log_severity_level = level
    capfd.readouterr()
    with pytest.raises(Exception, match="Reshape"):
        run(options)
    lines = [line for line in capfd.readouterr().err.splitlines() if "a tag of mine" in line]
    return "\n".join(re.sub(r"^.*?\[E:", "[E:", line) for line in lines)


def test_log_severity_and_tag(capfd: pytest.CaptureFixture) -> None:
    ours, stock = InferenceSession(reshaped([4])), onnxruntime.InferenceSession(reshaped([4]))
    feeds = {"x": torch.ones(6), "shape": torch.tensor([4])}
    arrays = {name: tensor.numpy() for name, tensor in feeds.items()}
    told = logged(capfd, lambda options: ours.run(None, feeds, options), 3)
    assert "[E:onnxruntime:a tag of mine" in told
    assert told == logged(capfd, lambda options: stock.run(None, arrays, options), 3)
    assert logged(capfd, lambda options: ours.run(None, feeds, options), 4) == ""


def test_config_entries() -> None:
    ours, stock = InferenceSession(unary("Relu")), onnxruntime.InferenceSession(unary("Relu"))
    options = RunOptions()
    options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    assert ours.run(None, {"x": torch.ones(1)}, options)[0].tolist() == [1]
    options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "nothing:0")
    with pytest.raises(Exception, match="nothing") as wanted:
        stock.run(None, {"x": np.ones(1, np.float32)}, options)
    with pytest.raises(OrtError, match="nothing") as got:
        ours.run(None, {"x": torch.ones(1)}, options)
    assert str(got.value).split(": ", 2)[2] in str(wanted.value)


def test_lora_adapters(tmp_path: Path) -> None:
    path = str(tmp_path / "adapter.onnx_adapter")
    made = onnxruntime.AdapterFormat()
    made.set_adapter_version(1)
    made.set_model_version(1)
    parameters = {"a": np.array([[1], [2]], np.float32), "b": np.array([[3, 5]], np.float32)}
    made.set_parameters(
        {name: onnxruntime.OrtValue.ortvalue_from_numpy(a) for name, a in parameters.items()}
    )
    made.export_adapter(path)
    adapter = onnxruntime.LoraAdapter()
    adapter.Load(path)
    options = RunOptions()
    options.add_active_adapter(adapter)

    ours = InferenceSession(with_adapter_inputs())
    stock = onnxruntime.InferenceSession(with_adapter_inputs())
    x = torch.tensor([[1.0, 1.0], [0.5, -2.0]])
    for chosen in [options, options, None, None, None, options, options]:
        (y,) = ours.run(None, {"x": x}, chosen)
        assert y.numpy().tolist() == stock.run(None, {"x": x.numpy()}, chosen)[0].tolist()
        assert y[0].tolist() == ([4, 6] if chosen is None else [13, 21])


class Both(RunOptions, onnxruntime.SessionOptions):
    """Options with two classes of C++ under them."""

    def __init__(self) -> None:
        RunOptions.__init__(self)
        onnxruntime.SessionOptions.__init__(self)


class Pretender:
    """An object that says it is of the class."""

    __class__ = RunOptions


@pytest.mark.parametrize(
    "options",
    [
        3,
        True,
        {},
        {"terminate": True},
        "RunOptions",
        RunOptions,
        onnxruntime.SessionOptions(),
        RunOptions.__new__(RunOptions),
        Both(),
        Pretender(),
        object(),
    ],
    ids=lambda options: type(options).__name__,
)
def test_what_is_no_run_options(options: object) -> None:
    session = InferenceSession(unary("Relu"))
    with refused(TypeError, "RunOptions"):
        session.run(None, {"x": torch.ones(1)}, options)
    assert session.run(None, {"x": torch.ones(1)})[0].tolist() == [1]


def test_options_are_kept_during_the_run_and_not_longer() -> None:
    session = InferenceSession(counting_loop())
    options = RunOptions()
    before = sys.getrefcount(options)
    for _ in range(3):
        session.run(None, turns(10), options)
    assert sys.getrefcount(options) == before
    assert session.run(None, turns(10_000), RunOptions())[0].tolist() == [10_000]
