"""Compiles nanobind_peer.cpp into build/peers, once for each state of what it is made of."""

import hashlib
import importlib.util
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import nanobind

SOURCE = Path(__file__).with_name("nanobind_peer.cpp")
FOLDER = Path(__file__).resolve().parents[2] / "build" / "peers"
NANOBIND = Path(nanobind.__file__).parent
FLAGS = ["-std=c++17", "-O1", "-fPIC", "-fvisibility=hidden", "-DNDEBUG"]
INCLUDES = [
    sysconfig.get_path("include"),
    NANOBIND / "include",
    NANOBIND / "ext" / "robin_map" / "include",
]


def compiled() -> Path:
    """The extension's file; compiling it takes about 15 seconds."""
    compiler = os.environ.get("CXX", "c++").split()
    common = [*compiler, *FLAGS, *(f"-isystem{path}" for path in INCLUDES)]
    made_of = [*map(str, common), nanobind.__version__, sys.version, SOURCE.read_text()]
    digest = hashlib.sha256("\0".join(made_of).encode()).hexdigest()[:16]
    folder = FOLDER / digest
    extension = folder / f"nanobind_peer{sysconfig.get_config_var('EXT_SUFFIX')}"
    if extension.is_file():
        return extension
    folder.mkdir(parents=True, exist_ok=True)
    # Names of their own until all is done: two test runs may build at once.
    library, partial = (folder / f"{os.getpid()}{suffix}" for suffix in (".o", ".so"))
    # nanobind's own sources are not held to our warnings.
    quiet = [*common, "-w", "-fno-strict-aliasing", "-c", NANOBIND / "src" / "nb_combined.cpp"]
    subprocess.run([*quiet, "-o", library], check=True)
    strict = [*common, "-Wall", "-Wextra", "-Werror", "-shared", SOURCE, library]
    subprocess.run([*strict, "-o", partial], check=True)
    library.unlink()
    partial.rename(extension)
    return extension


def load() -> ModuleType:
    """The extension as a module."""
    spec = importlib.util.spec_from_file_location("nanobind_peer", compiled())
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
