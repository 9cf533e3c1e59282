#!/usr/bin/env python3
"""Builds the fuzz targets with clang's sanitizers, and runs one of them.

    tests/fuzz/run.py TARGET [SECONDS]         fuzz (default: 60 seconds)
    tests/fuzz/run.py TARGET --replay FILE...  run these inputs once each

TARGET is dlpack_import, from_packed, model, session or session_state. CXX names a clang++ other
than the newest found. All that is written is below build/fuzz.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import seeds

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / "build" / "fuzz"
PROGRAM = BUILD / "targets"
SANITIZERS = "address,undefined"
# The most bytes of an input.
LENGTHS = {
    "dlpack_import": 1400,
    "from_packed": 700,
    "model": 4096,
    "session": 4096,
    "session_state": 1024,
}
PROBE = 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }'


def fail(message: str) -> None:
    sys.exit(f"error: {message}")


def package_folder(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        fail(f"this Python has no {name}: `make build`, then .venv/bin/python {sys.argv[0]}")
    return Path(spec.submodule_search_locations[0])


def find_clang() -> str:
    """Returns a clang++ that links libFuzzer and the sanitizers."""
    names = [f"clang++-{version}" for version in range(23, 14, -1)]
    named = os.environ.get("CXX", "")
    candidates = [named] if "clang" in named else [*names, "clang++"]
    clang = next((found for found in map(shutil.which, candidates) if found), None)
    if clang is None:
        fail("no clang++ (15 or later) found: `apt-get install clang-16 libclang-rt-16-dev`")
    probe = BUILD / "probe.cpp"
    probe.write_text(PROBE)
    command = [clang, f"-fsanitize=fuzzer,{SANITIZERS}", str(probe), "-o", str(BUILD / "probe")]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        version = subprocess.check_output([clang, "-dumpversion"], text=True).split(".")[0]
        fail(
            f"{clang} cannot link its sanitizers and libFuzzer: "
            f"`apt-get install libclang-rt-{version}-dev`\n{done.stderr}"
        )
    return clang


def digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def build(clang: str) -> None:
    torch = package_folder("torch")
    tool = [sys.executable, str(ROOT / "tools" / "headers.py"), "onnxruntime"]
    headers = subprocess.run(tool, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    flags = [
        *("-std=c++20", "-O1", "-g", "-fno-omit-frame-pointer"),
        *(f"-fsanitize=fuzzer-no-link,{SANITIZERS}", "-fno-sanitize-recover=all"),
        f"-I{ROOT / 'csrc'}",
        *(f"-isystem{folder}" for folder in (headers, torch / "include")),
    ]
    core = [path.read_bytes() for path in sorted(ROOT.glob("csrc/ortdl/*.h"))]
    models = ROOT / "tests" / "cpp"
    of_tests = [path.read_bytes() for path in (*sorted(HERE.glob("*.h")), models / "onnx_bytes.h")]

    def compile_one(source: Path) -> Path:
        built = BUILD / f"{source.parent.name}-{source.stem}.o"
        stamp = built.with_suffix(".stamp")
        is_core = source.is_relative_to(ROOT / "csrc")
        headers_of_it = core if is_core else [*core, *of_tests]
        state = digest(clang, flags, headers_of_it, source.read_bytes())
        if not (built.is_file() and stamp.is_file() and stamp.read_text() == state):
            print(f"[fuzz] {source.relative_to(ROOT)}", flush=True)
            # PyTorch hides the type information of a class that the check of virtual calls wants.
            own = [] if is_core else [f"-I{models}", "-fno-sanitize=vptr"]
            subprocess.run([clang, *flags, *own, "-c", str(source), "-o", str(built)], check=True)
            stamp.write_text(state)
        return built

    sources = [*sorted(ROOT.glob("csrc/ortdl/*.cpp")), models / "onnx_bytes.cpp"]
    sources += [source for source in sorted(HERE.glob("*.cpp")) if source.stem != "replay"]
    with ThreadPoolExecutor(int(os.environ.get("MAX_JOBS", "2"))) as pool:
        built = list(pool.map(compile_one, sources))
    libraries = torch / "lib"
    link = [f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-ltorch", "-ltorch_cpu", "-lc10", "-ldl"]
    command = [clang, f"-fsanitize=fuzzer,{SANITIZERS}", *map(str, built), *link]
    subprocess.run([*command, "-o", str(PROGRAM)], check=True)


def environment(clang: str, target: str) -> dict[str, str]:
    runtime = next((package_folder("onnxruntime") / "capi").glob("libonnxruntime.so.*"), None)
    if runtime is None:
        fail("the onnxruntime package holds no libonnxruntime.so")
    # A model may ask for any memory: ONNX Runtime is to be told that there is none.
    options = "strict_string_checks=1:allocator_may_return_null=1:max_allocation_size_mb=512"
    # Where targets put models in files; what was killed left its own there.
    shutil.rmtree(BUILD / "tmp", ignore_errors=True)
    (BUILD / "tmp").mkdir()
    values = {
        **os.environ,
        "ORTDL_RUNTIME": str(runtime),
        "TMPDIR": str(BUILD / "tmp"),
        "ORTDL_FUZZ_TARGET": target,
        "OMP_NUM_THREADS": "1",
        "ASAN_OPTIONS": f"{options}:{os.environ.get('ASAN_OPTIONS', '')}",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    version = subprocess.check_output([clang, "-dumpversion"], text=True).split(".")[0]
    symbolizer = shutil.which(f"llvm-symbolizer-{version}") or shutil.which("llvm-symbolizer")
    if symbolizer is not None:
        values["ASAN_SYMBOLIZER_PATH"] = symbolizer
    return values


def is_theirs(report: str) -> bool:
    """Whether a crash is within ONNX Runtime, and no claim of a target that does not hold."""
    frames = [line for line in report.splitlines() if line.lstrip().startswith("#")]
    known = [line for line in frames if "libonnxruntime" in line or " ortdl::" in line]
    # ONNX Runtime allocates what this library forgets to release.
    ours = "NOT TRUE" in report or "LeakSanitizer" in report
    return not ours and bool(known) and "libonnxruntime" in known[0]


def run_once(command: list[str], values: dict[str, str]) -> tuple[int, str]:
    """Runs a command; returns its exit status and the end of what it said."""
    said: deque[str] = deque(maxlen=1000)
    with subprocess.Popen(
        command, env=values, stderr=subprocess.PIPE, text=True, errors="replace"
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            sys.stderr.write(line)
            said.append(line)
    return process.returncode, "".join(said)


def fuzz(target: str, seconds: int, values: dict[str, str]) -> int:
    corpus, found = BUILD / "corpus" / target, BUILD / "found" / target
    seeds.write(corpus, target)
    found.mkdir(parents=True, exist_ok=True)
    command = [str(PROGRAM), f"-max_len={LENGTHS[target]}", "-timeout=60", "-rss_limit_mb=4096"]
    command += ["-print_final_stats=1", f"-artifact_prefix={found}/", str(corpus)]
    # ONNX Runtime keeps memory from session to session: to look for leaks after each input takes
    # twenty times as long as all else. They are looked for at the end.
    command += ["-detect_leaks=0"] if target in ("model", "session", "session_state") else []
    end = time.monotonic() + seconds
    while (left := round(end - time.monotonic())) > 0:
        status, said = run_once([*command, f"-max_total_time={left}"], values)
        if status == 0 or not is_theirs(said):
            return status
        print("[fuzz] that was in ONNX Runtime: the input is kept, and it goes on", flush=True)
    return 0


def main() -> int:
    target, *rest = sys.argv[1:] or [""]
    replayed = rest[1:] if rest[:1] == ["--replay"] else []
    is_duration = len(rest) < 2 and all(map(str.isdecimal, rest))
    if target not in LENGTHS or not (replayed or is_duration):
        print(__doc__, file=sys.stderr)
        return 2
    BUILD.mkdir(parents=True, exist_ok=True)
    clang = find_clang()
    build(clang)
    values = environment(clang, target)
    if replayed:
        return subprocess.run([str(PROGRAM), *replayed], env=values).returncode
    return fuzz(target, int(rest[0]) if rest else 60, values)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        fail(f"`{error.cmd[0]}` failed with exit status {error.returncode}")
