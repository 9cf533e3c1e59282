"""The stress test and the soak test, for moments: `make stress` and `make soak` take longer."""

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]


def output_of(script: str, *arguments: str) -> list[str]:
    """The lines that `script` prints, which must end well."""
    done = subprocess.run(
        [sys.executable, TESTS / script, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, ""), (done.stdout, done.stderr)
    return done.stdout.splitlines()


def test_threads_share_a_session_and_a_value() -> None:
    *ways, total, verdict = output_of("stress/run.py", "4", "1", "16")
    assert verdict == "every result right, nothing left alive"
    assert total.endswith("in 4 s by 16 threads, seed 1")
    assert sum(int(line.split()[0]) for line in ways) >= 16


def test_conversions_and_runs_leave_nothing() -> None:
    short = ("--conversions", "20000", "--runs", "2000", "--grows", "-1")
    conversions, runs, verdict = output_of("soak/run.py", *short)
    assert conversions.startswith("20000 conversions: ")
    assert runs.startswith("2000 runs: ")
    assert verdict == "nothing left alive"
