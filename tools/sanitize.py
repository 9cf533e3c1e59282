#!/usr/bin/env python3
"""Runs the tests with GCC's sanitizers compiled into what is tested.

    tools/sanitize.py address|thread [cpp] [device] [fuzz] [python] [-- ARGUMENTS FOR PYTEST]

`address` looks for wrong accesses, leaks and undefined behaviour, `thread` for races. cpp is
tests/cpp, device tests/device, fuzz the short form of tests/fuzz, python the Python tests with an
extension that is compiled so as well. Where no part is named, those run that are known to pass: see
docs/reliability.md.

All is compiled below build/asan or build/tsan, with -O1 -g1 and no asserts, as PyTorch's wheels
are. PyTorch, ONNX Runtime and Python are not compiled so. What is left out is printed and what is
suppressed stands in tools/*.supp, both with the reason.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
JOBS = os.environ.get("MAX_JOBS", "2")
# What is compiled for each part. The tests of it begin with the same words.
PARTS = {
    "cpp": "ortdl_tests",
    "device": "ortdl_device_tests",
    "fuzz": "ortdl_fuzz",
    "python": "ortdl_extension",
}
# Files of Python tests that say nothing about the extension compiled here, or cannot run with it.
NO_PYTHON = {
    "tests/python/test_benchmarks.py": "it is about the benchmarks",
    "tests/python/test_build.py": "it is about what setup.py and `make cmake` build",
    "tests/python/test_examples.py": "the examples take long, and call what other tests call",
}


@dataclass(frozen=True)
class Sanitizer:
    """Sanitizers that go together."""

    command: str
    build: str
    flags: str
    # What a Python that was not compiled so must load before all else.
    runtimes: tuple[str, ...]
    # The variable with the options, the options, and more of them where Python runs.
    variable: str
    options: str
    python_options: str
    environment: dict[str, str]
    # What runs where nothing else is asked for.
    parts: tuple[str, ...]
    # C++ tests and files of Python tests to leave out, and why.
    no_cpp: dict[str, str] = field(default_factory=dict)
    no_python: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Where all of it is built."""
        return ROOT / self.build

    def say(self, text: str) -> None:
        """Prints a line of progress."""
        print(f"[{self.command}] {text}", flush=True)


SANITIZERS = {
    "address": Sanitizer(
        command="test-asan",
        build="build/asan",
        flags="address,undefined",
        # Its exceptions can be followed only if they are there when the first runtime starts.
        runtimes=("libasan.so", "libubsan.so", "libstdc++.so"),
        variable="ASAN_OPTIONS",
        options="strict_string_checks=1:detect_stack_use_after_return=1",
        # What is too big raises, as it does without.
        python_options="allocator_may_return_null=1",
        environment={
            "UBSAN_OPTIONS": "print_stacktrace=1",
            "LSAN_OPTIONS": f"print_suppressions=0:suppressions={ROOT / 'tools' / 'leak.supp'}",
            # Each object of Python's is an allocation of its own.
            "PYTHONMALLOC": "malloc",
        },
        parts=("cpp", "device", "fuzz"),
        no_python=NO_PYTHON,
    ),
    "thread": Sanitizer(
        command="test-tsan",
        build="build/tsan",
        flags="thread",
        runtimes=("libtsan.so",),
        variable="TSAN_OPTIONS",
        options=f"ignore_noninstrumented_modules=1:suppressions={ROOT / 'tools' / 'thread.supp'}",
        python_options="",
        environment={},
        parts=("cpp",),
        no_cpp={"ForkTest.*": "GCC's sanitizer of threads allows no thread in a forked child"},
        no_python={
            **NO_PYTHON,
            "tests/python/test_fork.py": "GCC's sanitizer of threads allows no thread in a child",
        },
    ),
}


def run(*command: str, **environment: str) -> int:
    """Runs a step and returns its exit status."""
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}).returncode


def build(sanitizer: Sanitizer, parts: list[str]) -> int:
    """Compiles what is not up to date."""
    configure = ["-S", ".", "-B", sanitizer.build, "-G", "Ninja", "--log-level=WARNING"]
    configure += [f"-DCMAKE_MAKE_PROGRAM={BIN / 'ninja'}", f"-DPython_EXECUTABLE={sys.executable}"]
    configure += ["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O1 -g1 -DNDEBUG"]
    configure += [
        "-DORTDL_BUILD_TESTS=ON",
        "-DCMAKE_UNITY_BUILD=ON",
        f"-DORTDL_SANITIZE={sanitizer.flags}",
    ]
    status = run(str(BIN / "cmake"), *configure)
    if status != 0:
        return status
    sanitizer.say(f"compiling with {JOBS} jobs")
    command = [str(BIN / "cmake"), "--build", sanitizer.build, "--parallel", JOBS, "--target"]
    return run(*command, *(PARTS[part] for part in parts))


def test_cpp(sanitizer: Sanitizer, part: str) -> int:
    """Runs a part's GoogleTests."""
    for name, reason in sanitizer.no_cpp.items():
        sanitizer.say(f"left out: {name}: {reason}")
    options = {
        sanitizer.variable: sanitizer.options,
        "GTEST_FILTER": f"-{':'.join(sanitizer.no_cpp)}" if sanitizer.no_cpp else "*",
        "OMP_NUM_THREADS": "1",
    }
    command = [str(BIN / "ctest"), "--test-dir", sanitizer.build, "--output-on-failure"]
    command += ["--parallel", JOBS, "--tests-regex", f"^{PARTS[part]}"]
    return run(*command, **sanitizer.environment, **options)


def package(sanitizer: Sanitizer) -> Path:
    """Returns the folder of a copy of the package, with the extension that was compiled here."""
    folder = sanitizer.folder / "python"
    shutil.rmtree(folder, ignore_errors=True)
    copy = folder / "ortdl_torch"
    shutil.copytree(ROOT / "ortdl_torch", copy, ignore=shutil.ignore_patterns("*.so", "__pyc*"))
    for extension in sanitizer.folder.glob("_C.*.so"):
        (copy / extension.name).symlink_to(extension)
    return folder


def library(name: str) -> str:
    """Returns the path of a library of the compiler's."""
    compiler = os.environ.get("CXX", "c++").split()
    command = [*compiler, f"-print-file-name={name}"]
    return os.path.realpath(subprocess.check_output(command, text=True).strip())


def test_python(sanitizer: Sanitizer, arguments: list[str]) -> int:
    """Runs the Python tests, or those that `arguments` name."""
    for name, reason in sanitizer.no_python.items():
        sanitizer.say(f"left out: {name}: {reason}")
    # The processes that tests start are seldom looked at closely: all say here what was found.
    reports = sanitizer.folder / "reports"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir()
    options = {
        sanitizer.variable: f"{sanitizer.options}:{sanitizer.python_options}:log_path={reports}/of",
        "LD_PRELOAD": ":".join(map(library, sanitizer.runtimes)),
        "PYTHONPATH": str(package(sanitizer)),
        # The clone's own ortdl_torch must not come first because it lies in the current folder.
        "PYTHONSAFEPATH": "1",
        "OMP_NUM_THREADS": "1",
    }
    workers = [f"--numprocesses={JOBS}", "--dist=loadfile", "--no-loadscope-reorder"]
    command = [sys.executable, "-m", "pytest"]
    command += arguments or [*workers, "tests/python", "tests/peers"]
    command += [f"--ignore={name}" for name in sanitizer.no_python]
    status = run(*command, **sanitizer.environment, **options)
    texts = [report.read_text(errors="replace") for report in sorted(reports.iterdir())]
    found = [text for text in texts if "ERROR: " in text or "WARNING: Thread" in text]
    print(*found, sep="\n")
    sanitizer.say(f"reports: {len(found)}")
    return status or len(found)


def main() -> int:
    """Compiles and runs what is asked for; see the module's text."""
    name, *parts = sys.argv[1:] or [""]
    arguments: list[str] = []
    if "--" in parts:
        end = parts.index("--")
        parts, arguments = parts[:end], parts[end + 1 :]
    if name not in SANITIZERS or not set(parts) <= set(PARTS):
        print(__doc__, file=sys.stderr)
        return 2
    sanitizer = SANITIZERS[name]
    parts = parts or list(sanitizer.parts)
    failed = build(sanitizer, parts)
    if failed:
        return failed
    for part in parts:
        python = part == "python"
        failed |= test_python(sanitizer, arguments) if python else test_cpp(sanitizer, part)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
