"""Find the models that PyPI packages carry, without importing what those packages import."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def file_in(package: str, name: str, *, pypi: str) -> Path:
    """A file of an installed package; where it is missing, the example ends with exit code 2.

    Args:
        package: the name that one would import.
        name: the file's path inside the package.
        pypi: the name that one installs.
    """
    spec = importlib.util.find_spec(package)
    for folder in (spec and spec.submodule_search_locations) or []:
        if (path := Path(folder, name)).is_file():
            return path
    print(
        f"{pypi}'s {name} was not found: `make demo` sets it up, or `pip install --no-deps {pypi}`",
        file=sys.stderr,
    )
    raise SystemExit(2)
