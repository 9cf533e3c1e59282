"""Builds the extension module ortdl_torch._C; everything else stands in pyproject.toml."""

import fcntl
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension, include_paths

ROOT = Path(__file__).resolve().parent

# torch's own default is one job per core, which the memory of small machines does not bear.
os.environ.setdefault("MAX_JOBS", "2")
# torch looks for ninja on the PATH, where an environment that is not activated does not put it.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def files(pattern: str) -> list[str]:
    """Returns the sorted paths, relative to the root, that match `pattern`."""
    return sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(pattern))


def together(folder: str) -> list[str]:
    """Returns sources that include those of csrc/`folder`, each several of them.

    Most of the time goes into the headers of torch, which are read once for each.
    """
    sources = [Path(name).relative_to("csrc") for name in files(f"csrc/{folder}/*.cpp")]
    count = -(-len(sources) // TOGETHER)
    made = [ROOT / "build" / "together" / f"{folder}_{i}.cpp" for i in range(count)]
    for i, file in enumerate(made):
        text = "".join(f"#include <{source}>\n" for source in sources[i::count])
        # One that is written again is compiled again.
        if not file.is_file() or file.read_text() != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    return [str(file.relative_to(ROOT)) for file in made]


def onnxruntime_headers() -> str:
    """Returns the folder of onnxruntime_c_api.h."""
    command = [sys.executable, str(ROOT / "tools" / "headers.py"), "onnxruntime"]
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if answer.returncode != 0:
        sys.exit(answer.returncode)
    return answer.stdout.strip()


# As system headers they may warn of what they like; the project's own may not.
system_headers = [onnxruntime_headers(), *include_paths(), sysconfig.get_path("include")]
EXPORTS = "tools/exports.map"
TOGETHER = 6

# Two builds at once of one clone would spoil the sources made here, and ninja's record of what
# depends on what.
(ROOT / "build").mkdir(exist_ok=True)
lock = open(ROOT / "build" / "lock", "w")  # noqa: SIM115 - until the process ends
fcntl.flock(lock, fcntl.LOCK_EX)

extension = CppExtension(
    "ortdl_torch._C",
    together("ortdl") + together("python"),
    depends=[*files("csrc/*/*.cpp"), *files("csrc/*/*.h"), EXPORTS, "setup.py"],
    extra_compile_args=[
        "-std=c++20",
        "-O2",
        "-g1",
        "-fvisibility=hidden",
        "-fstack-protector-strong",
        "-U_FORTIFY_SOURCE",
        "-D_FORTIFY_SOURCE=2",
        "-Wall",
        "-Wextra",
        # Structs of options, CPython's among them, are given by name what differs from the default.
        "-Wno-missing-field-initializers",
        # GCC 12 overlooks the check of the size in torch's tuples of more than three.
        "-Wno-array-bounds",
        "-Werror",
        *(f"-isystem{folder}" for folder in system_headers),
    ],
    extra_link_args=[f"-Wl,--version-script={EXPORTS}", "-Wl,-z,relro,-z,now,-z,noexecstack"],
)
extension.include_dirs = [str(ROOT / "csrc")]

setup(ext_modules=[extension], cmdclass={"build_ext": BuildExtension})
