#!/usr/bin/env python3
"""Runs tests/cuda with PyTorch's CUDA build: on the machine's GPUs, else on emulated devices.

    tools/test_cuda.py [ARGUMENTS FOR PYTEST]

It makes .venv-cuda (5.6 GB), compiles the extension for its PyTorch below build/cuda, and says on
which kind of devices the tests run. Beside emulated devices it compiles the fake execution provider
of tests/fake_gpu_ep and tells the tests its path in FAKE_GPU_EP. What is made already is not made
again, and then it needs no network.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = str(ROOT / ".venv-cuda" / "bin" / "python")
BUILD = Path("build") / "cuda"
PROVIDER = ROOT / "tests" / "fake_gpu_ep"
PROVIDER_LIBRARY = ROOT / BUILD / "fake_gpu_ep" / "libfake_gpu_ep.so"
NAMES = """
import torch
for index in range(torch.cuda.device_count()):
    print(torch.cuda.get_device_name(index))
"""


def say(text: str) -> None:
    """Prints a line of progress."""
    print(f"[test-cuda] {text}", flush=True)


def run(*command: str) -> None:
    """Runs a step; the first one that fails ends it all."""
    done = subprocess.run(command, cwd=ROOT)
    if done.returncode != 0:
        sys.exit(done.returncode)


def build() -> None:
    """Compiles the extension, whose commands torch's ninja would print: only sources are shown."""
    say(f"compiling ortdl_torch for this PyTorch into {BUILD}")
    command = [PYTHON, "setup.py", "--quiet", "build", "--build-base", str(BUILD)]
    command += ["--build-lib", str(BUILD / "lib")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            compiled = re.match(r"(\[\d+/\d+\]) .* -c (\S+)", line)
            if compiled:
                line = f"{compiled[1]} {os.path.relpath(compiled[2], ROOT)}\n"
            print(line, end="", flush=True)
    if process.returncode != 0:
        sys.exit(process.returncode)


def build_provider() -> None:
    """Compiles the fake execution provider, as its CMakeLists.txt does, if it is not up to date."""
    sources = sorted(PROVIDER.glob("*.cpp"))
    newest = max(file.stat().st_mtime for file in [*sources, *PROVIDER.glob("*.h")])
    if PROVIDER_LIBRARY.is_file() and PROVIDER_LIBRARY.stat().st_mtime > newest:
        return
    say("compiling the fake execution provider")
    headers = [PYTHON, "tools/headers.py", "onnxruntime"]
    found = subprocess.run(headers, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if found.returncode != 0:
        sys.exit(found.returncode)
    PROVIDER_LIBRARY.parent.mkdir(parents=True, exist_ok=True)
    unfinished = PROVIDER_LIBRARY.with_suffix(f".{os.getpid()}")
    command = [*os.environ.get("CXX", "c++").split(), "-std=c++20", "-O1", "-g1", "-fPIC"]
    command += ["-fvisibility=hidden", "-Wall", "-Wextra", "-Werror"]
    command += [f"-isystem{found.stdout.strip()}", "-shared", "-Wl,-z,nodelete"]
    run(*command, *map(str, sources), "-ldl", "-o", str(unfinished))
    unfinished.rename(PROVIDER_LIBRARY)


def gpus() -> list[str]:
    """Returns the names of the GPUs that PyTorch finds on this machine."""
    return subprocess.check_output([PYTHON, "-c", NAMES], text=True).splitlines()


def main() -> int:
    """Makes what is missing and runs the tests; returns pytest's exit status."""
    run(os.environ.get("PYTHON", sys.executable), "tools/environment.py", "cuda")
    say("checking what is assumed of CUDA and HIP against this PyTorch's headers")
    run(PYTHON, "tests/compile/check.py")
    build()
    # The clone's own ortdl_torch, built for another PyTorch, must not come first because it lies in
    # the current folder.
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    command = [PYTHON, "-m", "pytest", "tests/cuda", *sys.argv[1:]]
    found = gpus()
    if found:
        say(f"real GPUs: {', '.join(found)}")
    else:
        build_provider()
        say("emulated CUDA devices and a fake execution provider: no GPU on this machine")
        environment["FAKE_GPU_EP"] = str(PROVIDER_LIBRARY)
        command = [PYTHON, "tests/cuda_emulator/run.py", *command]
    return subprocess.run(command, cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
