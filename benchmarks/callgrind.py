"""What callgrind counted, by the file of the program in which the instructions are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

OBJECT = re.compile(r"ob=\((\d+)\)(?: (.*))?")
COST = re.compile(r"(?:\+\d+|-\d+|\*|\d+) (\d+)")


def instructions(lines: Iterable[str]) -> Counter[str]:
    """The instructions of each object file, those of what it called in other files left out.

    Args:
        lines: one part of callgrind's output, which counts instructions only.

    Returns:
        Counts by the files' names, without folders.
    """
    counts: Counter[str] = Counter()
    names: dict[str, str] = {}
    current = ""
    is_call = False
    for line in lines:
        if match := OBJECT.match(line.removeprefix("c")):
            number, path = match.groups()
            if path is not None:
                names[number] = Path(path).name
            if not line.startswith("c"):
                current = names[number]
        elif line.startswith("calls="):
            is_call = True
        elif match := COST.fullmatch(line.strip()):
            # The line behind calls= has what the call cost, which is told where it was spent.
            if not is_call:
                counts[current] += int(match[1])
            is_call = False
    return counts
