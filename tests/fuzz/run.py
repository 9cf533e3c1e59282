#!/usr/bin/env python3
"""Builds the fuzz target of the DLPack import with clang's sanitizers, and runs it.

    tests/fuzz/run.py [SECONDS]        fuzz (default: 60 seconds)
    tests/fuzz/run.py --replay FILE... run these inputs once each

CXX names a clang++ other than the newest found. All that is written is below build/fuzz.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import seeds

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / "build" / "fuzz"
TARGET = BUILD / "dlpack_import"
SANITIZERS = "address,undefined"
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
    common = [path.read_bytes() for path in sorted(ROOT.glob("csrc/ortdl/*.h"))]
    common += [path.read_bytes() for path in sorted(HERE.glob("*.h"))]

    def compile_one(source: Path) -> Path:
        built = BUILD / f"{source.parent.name}-{source.stem}.o"
        stamp = built.with_suffix(".stamp")
        state = digest(clang, flags, common, source.read_bytes())
        if not (built.is_file() and stamp.is_file() and stamp.read_text() == state):
            print(f"[fuzz] {source.relative_to(ROOT)}", flush=True)
            subprocess.run([clang, *flags, "-c", str(source), "-o", str(built)], check=True)
            stamp.write_text(state)
        return built

    sources = [*sorted(ROOT.glob("csrc/ortdl/*.cpp")), *sorted(HERE.glob("*.cpp"))]
    with ThreadPoolExecutor(int(os.environ.get("MAX_JOBS", "2"))) as pool:
        built = list(pool.map(compile_one, sources))
    libraries = torch / "lib"
    link = [f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-ltorch", "-ltorch_cpu", "-lc10", "-ldl"]
    command = [clang, f"-fsanitize=fuzzer,{SANITIZERS}", *map(str, built), *link]
    subprocess.run([*command, "-o", str(TARGET)], check=True)


def environment(clang: str) -> dict[str, str]:
    runtime = next((package_folder("onnxruntime") / "capi").glob("libonnxruntime.so.*"), None)
    if runtime is None:
        fail("the onnxruntime package holds no libonnxruntime.so")
    values = {
        **os.environ,
        "ORTDL_RUNTIME": str(runtime),
        "OMP_NUM_THREADS": "1",
        "ASAN_OPTIONS": f"strict_string_checks=1:{os.environ.get('ASAN_OPTIONS', '')}",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    symbolizer = Path(clang).resolve().parent / "llvm-symbolizer"
    if symbolizer.is_file():
        values["ASAN_SYMBOLIZER_PATH"] = str(symbolizer)
    return values


def main() -> int:
    arguments = sys.argv[1:]
    replayed = arguments[1:] if arguments[:1] == ["--replay"] else []
    if not replayed and not (len(arguments) < 2 and all(map(str.isdecimal, arguments))):
        print(__doc__, file=sys.stderr)
        return 2
    BUILD.mkdir(parents=True, exist_ok=True)
    clang = find_clang()
    build(clang)
    command = [str(TARGET)]
    if replayed:
        command += replayed
    else:
        seeds.write(BUILD / "corpus")
        seconds = arguments[0] if arguments else "60"
        (BUILD / "found").mkdir(exist_ok=True)
        command += [f"-max_total_time={seconds}", "-max_len=1400", "-timeout=20"]
        command += [f"-artifact_prefix={BUILD / 'found'}/", "-print_final_stats=1"]
        command += [str(BUILD / "corpus")]
    return subprocess.run(command, env=environment(clang)).returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        fail(f"`{error.cmd[0]}` failed with exit status {error.returncode}")
