#!/usr/bin/env python3
"""Makes a virtual environment in the clone, with the packages that the project pins.

    tools/environment.py         .venv, with all of requirements.txt and requirements-files.txt
    tools/environment.py cuda    .venv-cuda, with what requirements-cuda.txt names

It does nothing when the environment is already that, and says by name what this machine lacks.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "requirements.txt"
# Packages of which the files are used and nothing is imported.
FILES = ROOT / "requirements-files.txt"


@dataclass(frozen=True)
class Environment:
    """A virtual environment of the clone."""

    folder: Path
    requirements: Path
    # What was built against another environment is of no use in this one.
    built: tuple[str, ...]
    # Names packages to install without those that they require.
    files: Path | None
    # The folder whose ortdl_torch is importable there from anywhere, as it was built for it.
    package: Path

    @property
    def stamp(self) -> Path:
        """The file that says what the environment holds, once that is complete."""
        return self.folder / "ready"

    @property
    def python(self) -> str:
        """The environment's interpreter."""
        return str(self.folder / "bin" / "python")

    def packages(self) -> list[str]:
        """Returns the packages to install, each with its version."""
        pins = {line.partition("==")[0]: line for line in entries(PINS)}
        return [line if "==" in line else pins[line] for line in entries(self.requirements)]

    def alone(self) -> list[str]:
        """Returns the packages to install without those that they require."""
        return [] if self.files is None else entries(self.files)


ENVIRONMENTS = {
    "cpu": Environment(
        folder=ROOT / ".venv",
        requirements=PINS,
        files=FILES,
        built=(
            "build/*.stamp",
            "build/temp.*",
            "build/lib.*",
            "build/cmake",
            "ortdl_torch/_C.*.so",
        ),
        package=ROOT,
    ),
    "cuda": Environment(
        folder=ROOT / ".venv-cuda",
        requirements=ROOT / "requirements-cuda.txt",
        files=None,
        built=("build/cuda",),
        package=ROOT / "build" / "cuda" / "lib",
    ),
}


def entries(requirements: Path) -> list[str]:
    """Returns the lines of a requirements file that name a package."""
    lines = (line.strip() for line in requirements.read_text().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def missing() -> list[str]:
    """Returns one sentence for each thing this machine lacks."""
    lacks = []
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if sys.version_info < (3, 11):  # noqa: UP036 - whatever runs this need not be fit for the rest
        lacks.append(f"Python 3.11 or later, not {version}: name one with `make PYTHON=python3.11`")
    if find_spec("venv") is None or find_spec("ensurepip") is None:
        lacks.append(f"Python's venv module: `apt-get install python{version}-venv`")
    headers = Path(sysconfig.get_path("include"), "Python.h")
    if not headers.is_file():
        lacks.append(f"Python's headers ({headers}): `apt-get install python{version}-dev`")
    compiler = os.environ.get("CXX", "c++").split()[0]
    if shutil.which(compiler) is None:
        lacks.append(f"a C++20 compiler ({compiler}): `apt-get install g++`, or set CXX")
    return lacks


def make(environment: Environment) -> int:
    """Brings an environment up to date; returns the exit status."""
    identity = f"{sys.version} {sys.base_prefix} {ROOT}"
    packages, alone = environment.packages(), environment.alone()
    wanted = [
        hashlib.sha256(identity.encode()).hexdigest(),
        hashlib.sha256("\n".join([*packages, *alone]).encode()).hexdigest(),
    ]
    has = environment.stamp.read_text().split() if environment.stamp.is_file() else []
    if has == wanted:
        return 0
    lacks = missing()
    if lacks:
        print("error: this machine lacks", *lacks, sep="\n  - ", file=sys.stderr)
        return 1

    environment.stamp.unlink(missing_ok=True)
    for pattern in environment.built:
        for path in ROOT.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    name = environment.folder.name
    if has[:1] != wanted[:1]:
        print(f"[venv] making {name} with Python {sys.version.split()[0]}", flush=True)
        # Where sys.executable leads to, asked before the folder goes that it may be in.
        interpreter = os.path.realpath(sys.executable)
        shutil.rmtree(environment.folder, ignore_errors=True)
        subprocess.run([interpreter, "-m", "venv", str(environment.folder)], check=True)
    requirements = environment.requirements.name
    print(f"[venv] installing what {requirements} names into {name}", flush=True)
    install = [environment.python, "-m", "pip", "install", "--disable-pip-version-check", "-qq"]
    # What was installed alone by an earlier run lacks what it requires, as it should.
    wishes = [["--no-warn-conflicts", *packages]]
    if alone:
        wishes.append(["--no-deps", *alone])
    for wish in wishes:
        if subprocess.run([*install, *wish], cwd=ROOT).returncode != 0:
            print(f"error: pip could not install {requirements} (see above)", file=sys.stderr)
            return 1
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = subprocess.check_output([environment.python, "-c", ask], text=True).strip()
    Path(site, "ortdl_torch_clone.pth").write_text(f"{environment.package}\n")
    environment.stamp.write_text("\n".join(wanted) + "\n")
    return 0


def main() -> int:
    """Answers one request; see the module's text."""
    name = sys.argv[1] if len(sys.argv) == 2 else "cpu"
    if len(sys.argv) > 2 or name not in ENVIRONMENTS:
        print(__doc__, file=sys.stderr)
        return 2
    return make(ENVIRONMENTS[name])


if __name__ == "__main__":
    sys.exit(main())
