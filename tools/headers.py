#!/usr/bin/env python3
"""Prints the folder of a dependency's headers, fetching them into build/headers where it must.

    tools/headers.py onnxruntime    the folder that holds onnxruntime_c_api.h
    tools/headers.py googletest     the folder that holds GoogleTest's CMakeLists.txt
    tools/headers.py hip            the folder that holds hip/hip_runtime_api.h
    tools/headers.py cuda           the folder that holds cuda_runtime_api.h

They come from the folder that an environment variable names, from an installed package, or, but for
CUDA's, from Debian's archive: apt-get, with lists and cache of its own, needs neither root nor a
change to the machine. CUDA's are in Python packages that requirements.txt pins.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FETCHED = ROOT / "build" / "headers"
APT = ROOT / "build" / "apt"
# The first Debian release whose ONNX Runtime is new enough.
SUITE = "forky"
DEBIAN_SUITES = {"bookworm", "trixie", "forky", "sid", "stable", "testing", "unstable"}


@dataclass(frozen=True)
class Dependency:
    """What is looked for, and where: `folders` of a machine, of Python's packages, or unpacked."""

    title: str
    variable: str
    file: str
    folders: tuple[str, ...]
    # Debian's, or else Python's.
    package: str
    is_debian: bool = True
    # The file must `#define` this at least so high.
    version: tuple[str, int] | None = None

    def is_in(self, folder: Path) -> bool:
        """Tells whether `folder` holds the dependency, new enough."""
        file = folder / self.file
        if not file.is_file():
            return False
        if self.version is None:
            return True
        name, least = self.version
        found = re.search(rf"#define\s+{name}\s+(\d+)", file.read_text(errors="replace"))
        return found is not None and int(found[1]) >= least


DEPENDENCIES = {
    "onnxruntime": Dependency(
        title="ONNX Runtime's C header (API 23 or later)",
        variable="ORT_INCLUDE_DIR",
        file="onnxruntime_c_api.h",
        folders=(
            "usr/local/include/onnxruntime",
            "usr/local/include/onnxruntime/core/session",
            "usr/local/include",
            "usr/include/onnxruntime",
            "usr/include/onnxruntime/core/session",
            "usr/include",
        ),
        package="libonnxruntime-dev",
        version=("ORT_API_VERSION", 23),
    ),
    "googletest": Dependency(
        title="GoogleTest's sources",
        variable="GOOGLETEST_DIR",
        file="CMakeLists.txt",
        folders=("usr/src/googletest",),
        package="googletest",
    ),
    "hip": Dependency(
        title="HIP's headers",
        variable="HIP_INCLUDE_DIR",
        file="hip/hip_runtime_api.h",
        folders=("opt/rocm/include", "usr/include"),
        package="libamdhip64-dev",
    ),
    "cuda": Dependency(
        title="CUDA's headers (13 or later)",
        variable="CUDA_INCLUDE_DIR",
        file="cuda_runtime_api.h",
        folders=("nvidia/cu13/include", "usr/local/cuda/include"),
        package="nvidia-cuda-runtime",
        is_debian=False,
        version=("CUDART_VERSION", 13000),
    ),
}


class NotFoundError(Exception):
    """A dependency that can't be had, in words for the user."""


def debian_sources() -> Iterator[tuple[str, str]]:
    """Yields (address, keyring or "") of every Debian archive that this machine's apt uses."""
    etc = Path("/etc/apt")
    lists = [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*.list"))]
    for file in filter(Path.is_file, lists):
        for line in file.read_text().splitlines():
            entry = re.match(r"deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s+(.*)", line.strip())
            if entry:
                options = dict(word.partition("=")[::2] for word in (entry[1] or "").split())
                if entry[3] in DEBIAN_SUITES and "main" in entry[4].split():
                    yield entry[2], options.get("signed-by", "")
    for file in sorted((etc / "sources.list.d").glob("*.sources")):
        for stanza in re.split(r"\n\s*\n", file.read_text()):
            text = re.sub(r"^#.*\n?", "", stanza, flags=re.M)
            fields = dict(re.findall(r"^([\w-]+):[ \t]*(.*(?:\n[ \t].*)*)", text, flags=re.M))
            if (
                fields.get("Enabled", "yes").strip() != "no"
                and "deb" in fields.get("Types", "").split()
                and "main" in fields.get("Components", "").split()
                and DEBIAN_SUITES.intersection(fields.get("Suites", "").split())
            ):
                keyring = fields.get("Signed-By", "").strip()
                for address in fields.get("URIs", "").split():
                    yield address, keyring if keyring.startswith("/") else ""


def run(command: list[str], **options: object) -> None:
    """Runs a command whose output goes to stderr: stdout carries only the answer."""
    done = subprocess.run(command, stdout=sys.stderr, **options)  # type: ignore[call-overload]
    if done.returncode != 0:
        raise NotFoundError(f"`{command[0]}` failed with exit status {done.returncode}")


def fetch(package: str, target: Path) -> None:
    """Downloads Debian's `package` and unpacks it to `target`."""
    for tool in ("apt-get", "dpkg"):
        if shutil.which(tool) is None:
            raise NotFoundError(f"`{tool}` is not on this machine")
    source = next(debian_sources(), None)
    if source is None:
        raise NotFoundError("apt's sources on this machine name no Debian archive")
    address, keyring = source
    for folder in ("state/lists/partial", "cache/archives/partial", "download"):
        (APT / folder).mkdir(parents=True, exist_ok=True)
    signed = f"[signed-by={keyring}] " if keyring else ""
    (APT / "sources.list").write_text(f"deb {signed}{address} {SUITE} main\n")
    settings = {
        "Dir::Etc::sourcelist": APT / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::State": APT / "state",
        "Dir::Cache": APT / "cache",
        "Acquire::Languages": "none",
        "Acquire::Retries": "3",
        # Else root's apt-get becomes a user who may not write below this folder.
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", "-q", *(f"-o{name}={value}" for name, value in settings.items())]
    run([*apt, "update"])
    run([*apt, "download", package], cwd=APT / "download")
    archives = sorted((APT / "download").glob(f"{package}_*.deb"))
    unfinished = target.with_name(target.name + ".part")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    run(["dpkg", "-x", str(archives[-1]), str(unfinished)])
    shutil.rmtree(target, ignore_errors=True)
    unfinished.rename(target)
    shutil.rmtree(APT)


def find(dependency: Dependency) -> Path:
    """Returns the dependency's folder; fetches it when it is nowhere on the machine."""
    named = os.environ.get(dependency.variable)
    if named:
        if not dependency.is_in(Path(named)):
            raise NotFoundError(f"{dependency.variable}={named} does not hold {dependency.title}")
        return Path(named).resolve()
    target = FETCHED / dependency.package
    for base in (Path(sysconfig.get_path("platlib")), Path("/"), target):
        for folder in dependency.folders:
            if dependency.is_in(base / folder):
                return base / folder
    if not dependency.is_debian:
        raise NotFoundError("it is in no folder where it might be")
    print(f"[headers] fetching {dependency.package} from Debian {SUITE}", file=sys.stderr)
    fetch(dependency.package, target)
    for folder in dependency.folders:
        if dependency.is_in(target / folder):
            return target / folder
    raise NotFoundError(f"Debian's {dependency.package} does not hold it")


def main() -> int:
    """Answers one request; see the module's text."""
    if len(sys.argv) != 2 or sys.argv[1] not in DEPENDENCIES:
        print(__doc__, file=sys.stderr)
        return 2
    dependency = DEPENDENCIES[sys.argv[1]]
    try:
        print(find(dependency))
    except NotFoundError as reason:
        install = (
            f"Debian {SUITE} or later: `apt-get install {dependency.package}`"
            if dependency.is_debian
            else f"`pip install {dependency.package}`"
        )
        print(
            f"error: {dependency.title} not found: {reason}.\n"
            f"Install it ({install}), or set "
            f"{dependency.variable} to the folder that holds {dependency.file}.",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
