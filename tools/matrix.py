#!/usr/bin/env python3
"""Runs the tests with other versions of onnxruntime and torch, and prints a table of the results.

    tools/matrix.py [ARGUMENTS FOR PYTEST]

ONNXRUNTIME="1.24.1 1.32.0" and TORCH="2.13.0 2.14.1" name versions: each of one is tested with each
of the other. Without them every minor version of onnxruntime is tested with the pinned torch, and
every torch with the pinned onnxruntime.

All is made below build/matrix. A version of a package is a folder that comes before .venv on the
module path. Another torch has a copy of the clone, with an extension that is compiled for it. The
C++ tests of `make test-cpp` run beside the pinned torch if they are compiled. A pair's log is its
result: a pair whose log ends with one, and is newer than every source, is not run again. With
arguments for pytest the tests are others, so such runs have logs of their own and always run.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from environment import PINS, entries

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "matrix"
PINNED = dict(line.split("==") for line in entries(PINS))
# Of each minor version the newest patch, but of the first the oldest one that there is.
ONNXRUNTIME = ["1.24.1", "1.25.1", "1.26.0", "1.27.0", "1.28.0", "1.29.0", "1.30.0", "1.31.1"]
TORCH = ["2.14.1"]
SOURCES = ("csrc", "ortdl_torch", "tests", "benchmarks", "examples", "docs", "README.md")
# What is built or installed in a clone, and no part of it.
NOT_COPIED = shutil.ignore_patterns(".git", ".venv*", "build", "dist", "__pycache__", "_C.*.so")
SUMMARY = re.compile(r"(\d+) (passed|failed|skipped|xfailed|xpassed|error)")
CPP = re.compile(r"^\[  (PASSED|FAILED|SKIPPED) ? ?\] (\d+) tests?", re.MULTILINE)


def say(text: str) -> None:
    """Prints a line of progress."""
    print(f"[matrix] {text}", flush=True)


def run(*command: str, cwd: Path = ROOT, **variables: str) -> None:
    """Runs a step; the first one that fails ends it all."""
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **variables})
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(command[:6])} failed (see above)")


def installed(name: str, version: str) -> Path:
    """Returns a folder with a version of a package, and what it needs that .venv may not have."""
    folder = WORK / f"{name}-{version}"
    if not folder.is_dir():
        say(f"installing {name} {version}")
        unfinished = folder.with_name(f"{folder.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        # What onnxruntime needs is in .venv; what torch needs depends on its version.
        alone = ["--no-deps"] if name == "onnxruntime" else []
        install = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "-qq"]
        run(*install, *alone, "--target", str(unfinished), f"{name}=={version}")
        unfinished.rename(folder)
    return folder


def clone_for(torch: str, site: Path) -> Path:
    """Returns a copy of the clone with an extension for another torch, which lies in `site`."""
    copy = WORK / f"clone-{torch}"
    copy.mkdir(exist_ok=True)
    for old in copy.iterdir():
        if old.name not in ("build", ".venv"):
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    # Times are copied as well, so only what was edited is compiled again.
    shutil.copytree(ROOT, copy, ignore=NOT_COPIED, dirs_exist_ok=True)
    if not (copy / ".venv").is_symlink():
        (copy / ".venv").symlink_to(ROOT / ".venv")
    headers = [sys.executable, "tools/headers.py", "onnxruntime"]
    include = subprocess.check_output(headers, cwd=ROOT, text=True).strip()
    say(f"compiling for torch {torch}")
    build = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    with open(WORK / f"build-{torch}.log", "wb") as log:
        variables = {"PYTHONPATH": str(site), "ORT_INCLUDE_DIR": include}
        done = subprocess.run(build, cwd=copy, env={**os.environ, **variables}, stdout=log)
    if done.returncode != 0:
        sys.exit(f"error: it does not compile for torch {torch}: see {log.name}")
    return copy


def python_tests(log: Path, clone: Path, path: list[Path], chosen: list[str]) -> None:
    """Runs the Python tests of a clone, with folders first on the module path, into a log."""
    command = [sys.executable, "-m", "pytest", "-q", "--color=no", *chosen]
    # As `make test-python` does.
    jobs = os.environ.get("MAX_JOBS", "2")
    command += [f"--numprocesses={jobs}", "--dist=loadfile", "--no-loadscope-reorder"]
    paths = os.pathsep.join(map(str, path))
    variables = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, cwd=clone, env=variables, stdout=subprocess.PIPE) as tests:
        assert tests.stdout is not None
        unfinished = log.with_suffix(".unfinished")
        with open(unfinished, "wb") as file:
            for line in tests.stdout:
                file.write(line)
                if line.rstrip().endswith(b"%]"):
                    print(line.decode(errors="replace"), end="", flush=True)
            # What comes after a result takes it back.
            if tests.wait() not in (0, 1):
                file.write(f"\npytest ended by {tests.returncode}\n".encode())
    unfinished.rename(log)


def summary(log: Path) -> str:
    """Returns what a log of pytest says at its end, or "" if it broke off."""
    last = log.read_text(errors="replace").rstrip().rpartition("\n")[2] if log.is_file() else ""
    return ", ".join(f"{count} {what}" for count, what in SUMMARY.findall(last))


def cpp_tests(onnxruntime: Path) -> str:
    """Returns how many C++ tests pass with an onnxruntime, if they are compiled."""
    program = ROOT / "build" / "cmake" / "ortdl_tests"
    if not program.is_file():
        return "not compiled"
    (runtime,) = onnxruntime.glob("onnxruntime/capi/libonnxruntime.so.*")
    variables = {**os.environ, "ORTDL_RUNTIME": str(runtime)}
    done = subprocess.run([program], cwd=program.parent, env=variables, stdout=subprocess.PIPE)
    log = WORK / f"cpp-{onnxruntime.name}.log"
    log.write_bytes(done.stdout)
    counts = CPP.findall(done.stdout.decode(errors="replace"))
    end = [f"ended by {done.returncode}"] if done.returncode != 0 else []
    return ", ".join([*(f"{n} {what.lower()}" for what, n in counts), *end])


def pairs() -> list[tuple[str, str]]:
    """Returns the versions of torch and onnxruntime to test together."""
    torches, runtimes = os.environ.get("TORCH", ""), os.environ.get("ONNXRUNTIME", "")
    if torches or runtimes:
        chosen = runtimes.split() or [PINNED["onnxruntime"]]
        return [(t, o) for t in torches.split() or [PINNED["torch"]] for o in chosen]
    with_pinned = [(PINNED["torch"], o) for o in [*ONNXRUNTIME, PINNED["onnxruntime"]]]
    return with_pinned + [(t, PINNED["onnxruntime"]) for t in TORCH]


def main() -> int:
    """Tests each pair and prints the table; returns 1 unless each one passed."""
    WORK.mkdir(parents=True, exist_ok=True)
    files = [f for s in SOURCES for f in [ROOT / s, *(ROOT / s).rglob("*")] if f.is_file()]
    newest = max(f.stat().st_mtime for f in files if f.suffix not in (".pyc", ".so"))
    chosen = sys.argv[1:]
    python = ".".join(map(str, sys.version_info[:2]))
    rows, good = [], True
    for torch, onnxruntime in pairs():
        # The pinned ones are in .venv, but the program of the C++ tests is given a folder.
        runtime = installed("onnxruntime", onnxruntime)
        clone, path = ROOT, [runtime]
        log = WORK / f"{'some' if chosen else 'all'}-torch-{torch}-onnxruntime-{onnxruntime}.log"
        fresh = log.is_file() and log.stat().st_mtime > newest and summary(log) and not chosen
        say(f"torch {torch}, onnxruntime {onnxruntime}: {'known from' if fresh else ''} {log}")
        if not fresh:
            if torch != PINNED["torch"]:
                site = installed("torch", torch)
                clone = clone_for(torch, site)
                path = [clone, runtime, site]
            python_tests(log, clone, path, chosen)
        result = summary(log) or "broke off"
        cpp = "not run" if torch != PINNED["torch"] or chosen else cpp_tests(runtime)
        good = good and re.search("failed|error|broke|ended", f"{result} {cpp}") is None
        rows.append(f"| {python} | {torch} | {onnxruntime} | {result} | {cpp} |")
    print("\n| Python | torch | onnxruntime | Python tests | C++ tests |\n|---|---|---|---|---|")
    print("\n".join(rows))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
