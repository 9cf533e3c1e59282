"""Everything that the caller set in an onnxruntime.SessionOptions reaches the session."""

import json
from pathlib import Path

import onnx
import onnxruntime
import pytest
import torch
from models import info, model, unary
from onnx import helper
from support import in_new_process, refused

import ortdl_torch
from ortdl_torch import InferenceSession

Level = onnxruntime.GraphOptimizationLevel


@pytest.mark.parametrize(
    ("level", "left"),
    [(Level.ORT_DISABLE_ALL, ["Identity", "Relu"]), (Level.ORT_ENABLE_ALL, ["Relu"])],
    ids=["disabled", "enabled"],
)
def test_optimization_level_and_path_of_the_optimized_model(
    level: Level, left: list[str], tmp_path: Path, options: onnxruntime.SessionOptions
) -> None:
    nodes = [helper.make_node("Identity", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    options.graph_optimization_level = level
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    InferenceSession(model(nodes, [info("x")], [info("y")]), options)
    graph = onnx.load(tmp_path / "optimized.onnx").graph
    assert [n.op_type for n in graph.node] == left


def test_free_dimension_override(options: onnxruntime.SessionOptions) -> None:
    options.add_free_dimension_override_by_name("batch", 4)
    session = InferenceSession(unary("Relu", ["batch", 2]), options)
    assert session.get_inputs()[0].shape == [4, 2]
    with refused(ValueError, "x", "4"):
        session(torch.ones(3, 2))
    assert session(torch.ones(4, 2))[0].shape == (4, 2)


def test_profiling(tmp_path: Path, options: onnxruntime.SessionOptions) -> None:
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    session = InferenceSession(unary("Relu"), options)
    session(torch.ones(2))
    del session
    (written,) = tmp_path.iterdir()
    assert written.name.startswith("profile")
    assert any("Relu" in str(event) for event in json.loads(written.read_text()))


def test_config_entry_of_loading(options: onnxruntime.SessionOptions) -> None:
    options.add_session_config_entry("session.load_model_format", "ORT")
    with refused(ortdl_torch.OrtError, "ORT model verification failed"):
        InferenceSession(unary("Relu"), options)


def test_config_entry_of_saving(tmp_path: Path, options: onnxruntime.SessionOptions) -> None:
    options.add_session_config_entry("session.save_model_format", "ORT")
    options.optimized_model_filepath = str(tmp_path / "relu.ort")
    InferenceSession(unary("Relu"), options)
    assert (tmp_path / "relu.ort").read_bytes()[4:8] == b"ORTM"
    (y,) = InferenceSession(tmp_path / "relu.ort")(torch.tensor([-1.0, 2.0]))
    assert y.tolist() == [0, 2]


@pytest.mark.parametrize("logid", ["first-name", "other-name"])
def test_log_id_and_severity(logid: str) -> None:
    done = in_new_process(
        "import onnxruntime, torch, ortdl_torch\n"
        "o = onnxruntime.SessionOptions()\n"
        f"o.logid = {logid!r}\n"
        "o.log_severity_level = 0\n"
        f"s = ortdl_torch.InferenceSession({unary('Relu')!r}, o)\n"
        "print(s(torch.ones(1))[0].item())\n"
    )
    assert (done.returncode, done.stdout) == (0, "1.0\n"), done.stderr
    assert logid in done.stderr


def test_memory_pattern_arena_and_threads_are_taken() -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    (y,) = InferenceSession(unary("Relu"), options)(torch.tensor([-1.0, 2.0]))
    assert y.tolist() == [0, 2]


def test_options_serve_many_sessions_of_either_side(options: onnxruntime.SessionOptions) -> None:
    options.add_free_dimension_override_by_name("batch", 4)
    graph = unary("Relu", ["batch"])
    shapes = [s(graph, options).get_inputs()[0].shape for s in [InferenceSession] * 3]
    shapes.append(onnxruntime.InferenceSession(graph, options).get_inputs()[0].shape)
    assert shapes == [[4]] * 4
    options.add_free_dimension_override_by_name("other", 5)
    assert InferenceSession(unary("Relu", ["other"]), options).get_inputs()[0].shape == [5]


@pytest.mark.parametrize("wrong", [3, "options", {}, object(), onnxruntime.RunOptions()])
def test_what_is_no_session_options(wrong: object) -> None:
    with refused(TypeError, type(wrong).__name__):
        InferenceSession(unary("Relu"), wrong)


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"session.force_spinning_stop": "0"},
        {"session.intra_op.allow_spinning": "1"},
        {"session.intra_op.allow_spinning": "0"},
    ],
    ids=str,
)
def test_threads_stop_spinning_after_a_run_unless_options_say(
    said: dict[str, str], options: onnxruntime.SessionOptions
) -> None:
    for key, value in said.items():
        options.add_session_config_entry(key, value)
    session = InferenceSession(unary("Relu"), options)
    assert session(torch.tensor([-1.0, 2.0]))[0].tolist() == [0, 2]
    (_version, _model, _properties, entries, *_), _ = session.script_object.__getstate__()
    assert dict(entries) == (said or {"session.force_spinning_stop": "1"})
