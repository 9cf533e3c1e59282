#!/usr/bin/env python3
"""Makes the virtual environment .venv in the clone, with what requirements.txt pins.

It does nothing when .venv is already that, and says by name what this machine lacks.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "ready"
REQUIREMENTS = ROOT / "requirements.txt"
# What was built against another environment is of no use in this one.
BUILT = ("build/*.stamp", "build/temp.*", "build/lib.*", "build/cmake", "ortdl_torch/_C.*.so")


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


def main() -> int:
    """Brings .venv up to date."""
    identity = f"{sys.version} {sys.base_prefix} {ROOT}"
    wanted = [
        hashlib.sha256(identity.encode()).hexdigest(),
        hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest(),
    ]
    has = STAMP.read_text().split() if STAMP.is_file() else []
    if has == wanted:
        return 0
    lacks = missing()
    if lacks:
        print("error: this machine lacks", *lacks, sep="\n  - ", file=sys.stderr)
        return 1

    STAMP.unlink(missing_ok=True)
    for pattern in BUILT:
        for path in ROOT.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    python = str(VENV / "bin" / "python")
    if has[:1] != wanted[:1]:
        print(f"[venv] making .venv with Python {sys.version.split()[0]}", flush=True)
        shutil.rmtree(VENV, ignore_errors=True)
        # Not sys.executable, which may be the one inside the folder just removed.
        interpreter = os.path.realpath(sys.executable)
        subprocess.run([interpreter, "-m", "venv", str(VENV)], check=True)
    print("[venv] installing what requirements.txt pins", flush=True)
    install = [python, "-m", "pip", "install", "--disable-pip-version-check", "-qq"]
    if subprocess.run([*install, "-r", str(REQUIREMENTS)], cwd=ROOT).returncode != 0:
        print("error: pip could not install requirements.txt (see above)", file=sys.stderr)
        return 1
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.check_output([python, "-c", ask], text=True).strip()
    # The clone itself is importable from anywhere, as it was built in place.
    Path(packages, "ortdl_torch_clone.pth").write_text(f"{ROOT}\n")
    STAMP.write_text("\n".join(wanted) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
