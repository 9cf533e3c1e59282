"""Say what every file of this repository is, with PyTorch at both ends of an ONNX model.

The model is the one inside the PyPI package `magika`. Bytes become features in PyTorch, the
features go into the ONNX model as they lie in memory, its probabilities come back as a tensor, and
PyTorch decides. Magika itself is asked about the same files: the answers have to be the same.

    python examples/magika_demo.py [folder] [--rounds N]

Exit code 0: all the same; 1: a difference, or memory that was not shared; 2: could not start.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import magika_features as mf
import onnxruntime
import side_by_side
import torch

import ortdl_torch

try:
    import magika
except ImportError:
    sys.exit("magika is not installed: `make demo` sets it up, or `pip install magika`")

NOT_CONTENT = {"build", "dist", "node_modules", "__pycache__"}


def files_of(folder: Path) -> tuple[list[Path], str]:
    """List a folder's files.

    Args:
        folder: where to look.

    Returns:
        What git tracks there; where git is absent or tracks nothing, all that lies there but
        hidden and build folders. And which of the two it was, in words.
    """
    try:
        listed = subprocess.run(
            ["git", "-C", str(folder), "ls-files", "-z"], capture_output=True, check=True
        ).stdout
        names = [os.fsdecode(name) for name in listed.split(b"\0") if name]
        how = "tracked by git"
    except (OSError, subprocess.CalledProcessError):
        names = []
    if not names:
        how = "found by walking the folder"
        for parent, folders, inside in os.walk(folder):
            folders[:] = sorted(
                x for x in folders if not x.startswith(".") and x not in NOT_CONTENT
            )
            names += [os.path.relpath(os.path.join(parent, x), folder) for x in sorted(inside)]
    # What git tracks may be deleted, a submodule, or a link to a folder.
    return [folder / name for name in dict.fromkeys(names) if (folder / name).is_file()], how


def shown(folder: Path, path: Path) -> str:
    """A file's name as it can be printed anywhere."""
    return str(path.relative_to(folder)).encode("ascii", "backslashreplace").decode()


def print_findings(folder: Path, answers: dict[Path, mf.Answer]) -> None:
    """Print a table of labels, the most frequent first."""
    found: dict[str, list[Path]] = defaultdict(list)
    for path, answer in answers.items():
        found[answer.label].append(path)
    print(f"  {'label':<16} {'files':>5}  example")
    for label, paths in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        print(f"  {label:<16} {len(paths):>5}  {shown(folder, paths[0])}")


def count_differences(folder: Path, answers: dict[Path, mf.Answer]) -> int:
    """Ask magika about every file and print where it says something else.

    Args:
        folder: what the names are relative to.
        answers: our answers by file.

    Returns:
        The number of files whose label, model label, score (to the bit) or reason differ.
    """
    peer = magika.Magika()
    different = 0
    for path, ours in answers.items():
        said = peer.identify_path(path).prediction
        theirs = mf.Answer(
            str(said.output.label), str(said.dl.label), said.score, str(said.overwrite_reason)
        )
        if ours != theirs:
            different += 1
            print(f"  DIFFERENT {shown(folder, path)}: here {ours}, magika {theirs}")
    return different


def compare_times(model: Path, features: list[torch.Tensor], rounds: int) -> None:
    """Print the time per file of this library and of stock onnxruntime.

    Args:
        model: the ONNX file.
        features: the model's inputs, one per file.
        rounds: how often to go through all of them.
    """
    # One thread: two sessions' idle thread pools would otherwise spin beside each other's work.
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = ortdl_torch.InferenceSession(str(model), options)
    stock = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    name = stock.get_inputs()[0].name

    def with_numpy(tensor: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(stock.run(None, {name: tensor.numpy()})[0])

    routes: dict[str, Callable[[torch.Tensor], object]] = {
        "ortdl_torch, tensors in and out": session,
        "onnxruntime run, through numpy": with_numpy,
    }
    side_by_side.one_round(routes, features[:3])
    done = []
    for number in range(rounds):
        done.append(side_by_side.one_round(routes, features))
        print(f"  round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    print(side_by_side.table(done, "file"))
    print(
        "  Nearly all of this is the model's own work, the same in both rows: what the library\n"
        "  saves is microseconds per call, and shows in models smaller than this one."
    )


def main() -> int:
    """Run the demo; the exit code."""
    parser = argparse.ArgumentParser(description="What is every file here? ONNX within PyTorch.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--rounds", type=int, default=10, help="rounds of timing, 0 for none")
    arguments = parser.parse_args()
    folder: Path = arguments.folder.resolve()

    package = Path(magika.__file__).parent
    model_name = magika.Magika().get_model_name()
    model, extract, decide = mf.load(package, model_name)
    session = ortdl_torch.InferenceSession(str(model))
    wanted, given = session.get_inputs()[0], session.get_outputs()[0]
    print(f"Model {model_name} of magika {magika.__version__}")
    print(f"  in  {wanted.name}: {wanted.type} {wanted.shape}")
    print(f"  out {given.name}: {given.type} {given.shape} (a softmax: probabilities)")

    paths, how = files_of(folder)
    if not paths:
        print(f"no files in {folder}")
        return 2
    print(f"{len(paths)} files {how}", flush=True)

    start = time.perf_counter()
    read = {path: extract.read(path) for path in paths}
    features = {path: x for path, x in read.items() if isinstance(x, torch.Tensor)}
    answers = {path: x for path, x in read.items() if isinstance(x, mf.Answer)}
    if features:
        outputs = [session(tensor)[0] for tensor in features.values()]
        answers |= zip(features, decide(torch.cat(outputs)), strict=True)
    seconds = time.perf_counter() - start
    print_findings(folder, answers)
    print(
        f"Reading, features, model and decision: {1e3 * seconds / len(paths):.2f} ms per file; "
        f"{len(paths) - len(features)} needed no model (empty, or hardly any bytes)",
        flush=True,
    )

    shared = 0
    for tensor in features.values():
        shared += ortdl_torch.to_ortvalue(tensor).data_ptr() == tensor.data_ptr()
    print(f"Input memory shared (same pointer): {shared} of {len(features)} inputs")

    different = count_differences(folder, answers)
    print(f"Equal to magika's own answer: {len(paths) - different} of {len(paths)} files", end=" ")
    print("(label, model's label, score to the bit, reason)", flush=True)

    if arguments.rounds > 0 and features:
        print(f"Time of the model per file, one thread, {len(features)} inputs:")
        compare_times(model, list(features.values()), arguments.rounds)
    return 1 if different or shared != len(features) else 0


if __name__ == "__main__":
    sys.exit(main())
