"""The documents' Python examples run as printed, and print what the documents say they print."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# A block of Python, and the block of text behind it, if there is one, which it prints.
EXAMPLE = re.compile(r"```python\n(.*?)```(?:\n+```text\n(.*?)```)?", re.DOTALL)
PAGES = ["README.md", *(f"docs/{page}.md" for page in ("dlpack", "graphs", "state", "values"))]


@pytest.mark.usefixtures("fresh_compilers", "nothing_exported")
@pytest.mark.parametrize("name", PAGES)
def test_the_examples_run_as_printed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    examples = EXAMPLE.findall((ROOT / name).read_text())
    assert examples
    for code, printed in examples:
        exec(compile(code, name, "exec"), {"__name__": "__example__"})
        assert capsys.readouterr().out == printed
