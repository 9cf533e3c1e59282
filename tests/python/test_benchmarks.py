"""What the benchmark makes of its figures: goals, tables, pictures, counts."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

# Behind the tests' own folder, which has a module `models` too.
sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import allocations
import instructions
import native
import picture
import report
import threads
import timing
from callgrind import instructions as counted
from case import Case, Excess, Goal, Verdict
from support import in_new_process
from timing import Route

SVG = "{http://www.w3.org/2000/svg}"


def case_with(**minima: float) -> Case:
    """A case whose routes took so many nanoseconds, and twice that in the middle round."""
    case = Case("work <1>", [], {}, torch.zeros(1))
    for name, taken in minima.items():
        times = [2 * taken, taken, 2 * taken]
        case.routes.append(Route(name.replace("_", " "), f"{name}()", lambda calls: 0.0, 1, times))
    return case


@pytest.mark.parametrize(
    ("goal", "measured", "met"),
    [
        (Goal("faster than", 2.5, "stock"), "3.00 x", True),
        (Goal("faster than", 3.5, "stock"), "3.00 x", False),
        (Goal("at most", 2.0, "floor"), "2.00 x", True),
        (Goal("at most", 1.9, "floor"), "2.00 x", False),
        (Goal("at most", 1.7, "empty op", "ours op"), "1.67 x", True),
        (Goal("at most", 1.6, "empty op", "ours op"), "1.67 x", False),
        (Excess(300, "ours op"), "300 ns", True),
        (Excess(299, "ours op"), "300 ns", False),
    ],
)
def test_goals_are_judged_by_minima(goal: Goal | Excess, measured: str, met: bool) -> None:
    case = case_with(floor=100, ours=200, stock=600, empty_op=300, ours_op=500)
    verdict = goal.judge(case)
    assert (verdict.measured, verdict.met) == (measured, met)


def test_what_a_goal_says() -> None:
    case = case_with(ours=200, stock=600, ours_op=500)
    assert (
        Goal("at most", 1.1, "stock", "ours op").judge(case).goal == "ours op at most 1.1 x stock"
    )
    assert (
        Goal("faster than", 2.5, "stock").judge(case).goal
        == "ours at least 2.5 x faster than stock"
    )
    assert Excess(300, "ours op").judge(case).goal == "ours op at most 300 ns longer than ours"


@pytest.mark.parametrize("expected", [torch.ones(2), [torch.ones(2), torch.zeros(1)]])
def test_a_route_that_gives_something_else_is_refused(expected: object) -> None:
    case = Case("work", [], {"right": expected, "torch": torch}, expected)
    case.add("ours", "right")
    case.add("left behind", "y = right", "y")
    with pytest.raises(AssertionError, match="work, stock: gives"):
        case.add("stock", "[torch.ones(2), torch.ones(1)]")
    with pytest.raises(AssertionError, match="work, stock: gives"):
        case.add("stock", "torch.zeros(2)")
    assert [route.name for route in case.routes] == ["ours", "left behind"]


def test_routes_take_turns_and_warm_first() -> None:
    turns = []

    def sample_of(name: str, per_call: float) -> timing.Sample:
        def sample(calls: int) -> float:
            turns.append((name, calls))
            return per_call * calls

        return sample

    routes = [Route("a", "", sample_of("a", 10)), Route("b", "", sample_of("b", 50))]
    rounds = timing.interleave(routes, 2, 100)
    assert next(rounds) == 1
    del turns[:-4]
    assert list(rounds) == [2]
    assert turns[:4] == [("a", 1), ("a", 10), ("b", 1), ("b", 2)]
    assert turns[4:] == [("b", 1), ("b", 2), ("a", 1), ("a", 10)]
    assert [route.times for route in routes] == [[10, 10], [50, 50]]


PART = """\
# callgrind format
positions: line
events: Ir
ob=(1) /somewhere/_C.so
fl=(1) session.cpp
fn=(1) run
10 5
+2 7
cob=(2) /elsewhere/libruntime.so
cfn=(2) Run
calls=3 20
12 1000
* 1
ob=(2)
fn=(2)
20 900
cob=(1)
cfn=(1)
calls=1 10
-1 30
ob=(1)
fn=(3) other
5 4
totals: 917
"""


def test_instructions_are_where_they_are_spent() -> None:
    assert counted(PART.splitlines()) == {"_C.so": 17, "libruntime.so": 900}


@pytest.mark.parametrize(
    ("file", "place"),
    [
        ("_C.cpython-311-x86_64-linux-gnu.so", "ortdl"),
        ("onnxruntime_pybind11_state.cpython-311-x86_64-linux-gnu.so", "onnxruntime"),
        ("libtorch_python.so", "torch"),
        ("python3.11", "python"),
        ("libc.so.6", "libc"),
        ("ortdl_floor.so", "other"),
    ],
)
def test_places(file: str, place: str) -> None:
    assert instructions.place_of(file) == place


def page_of(version: str, **paths: tuple[int, int]) -> list[str]:
    """The page of paths with so many instructions of ours and of ONNX Runtime's."""
    calls = instructions.CALLS
    counts = {
        name: Counter({"ortdl": ours * calls, "onnxruntime": theirs * calls})
        for name, (ours, theirs) in paths.items()
    }
    return instructions.page(counts, {"torch": version})


def test_a_page_of_instructions() -> None:
    line = page_of("2", path=(900, 9000))[-1]
    assert instructions.numbers_of(line) == ("path", [9900, 900, 9000, 0, 0, 0, 0])


def test_only_what_changed_is_written_anew() -> None:
    old = page_of("2", same=(10_000, 10_000), ours=(10_000, 0), theirs=(0, 10_000), few=(100, 0))
    new = page_of("2", same=(10_100, 10_900), ours=(10_101, 0), theirs=(0, 11_001), few=(139, 0))
    got = instructions.settled(new, old)
    assert got == [*new[:4], old[4], new[5], new[6], old[7]]
    assert instructions.settled(new, []) == new


def test_other_versions_and_other_paths_are_written_anew() -> None:
    old = page_of("2", path=(10_000, 0), gone=(5, 5))
    other = page_of("3", path=(10_001, 0), gone=(5, 5))
    assert instructions.settled(other, old) == other
    fresh = page_of("2", path=(10_001, 0), more=(7, 7))
    assert instructions.settled(fresh, old) == [*fresh[:4], old[4], fresh[5]]


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (98.4, "98 ns"),
        (999.4, "999 ns"),
        (999.6, "1.00 µs"),
        (12_345, "12.3 µs"),
        (123_456, "123 µs"),
        (1_234_567, "1.23 ms"),
        (2.5e9, "2500 ms"),
    ],
)
def test_times_have_three_digits(nanoseconds: float, text: str) -> None:
    assert picture.shown(nanoseconds) == text


def test_the_axis_is_logarithmic() -> None:
    axis = picture.Axis.over([150.0, 90_000.0])
    assert (axis.low, axis.high) == (2, 5)
    thirds = [axis.x(10.0**power) for power in range(2, 6)]
    assert thirds[0] == picture.NAMES
    assert thirds[3] == pytest.approx(picture.WIDTH - picture.VALUES)
    assert thirds[2] - thirds[1] == pytest.approx(thirds[1] - thirds[0])


@pytest.mark.parametrize("theme", picture.THEMES, ids=lambda theme: theme.name)
def test_a_picture_shows_every_route_and_the_floor(theme: picture.Theme) -> None:
    case = case_with(floor=100, ours=200, stock=600, empty_op=300)
    root = ElementTree.fromstring(picture.in_full([case], "all & more", theme))
    words = [node.text for node in root.iter(f"{SVG}text")]
    assert {"work <1>", "floor", "ours", "stock", "empty op", "600 ns"} <= set(words)
    assert root.find(f"{SVG}title").text == "all & more"
    axis = picture.Axis.over([100, 1200])
    (circle,) = [node for node in root.iter(f"{SVG}circle") if float(node.get("cy")) > 30]
    assert float(circle.get("cx")) == pytest.approx(axis.x(200), abs=0.1)
    upright = [
        float(node.get("x1"))
        for node in root.iter(f"{SVG}line")
        if node.get("x1") == node.get("x2") and node.get("stroke") == theme.kinds["floor"]
    ]
    assert upright.count(pytest.approx(axis.x(100), abs=0.1)) == 2  # its mark, and through the case


def test_the_overview_has_what_can_be_compared() -> None:
    cases = [case_with(floor=100, ours=200, stock=600), case_with(ours=200)]
    root = ElementTree.fromstring(picture.overview(cases, "title", picture.THEMES[0]))
    words = [node.text for node in root.iter(f"{SVG}text")]
    assert words.count("work <1>") == 1
    assert "3 x" in words


THROUGHPUTS = {threads.JUDGED: {1: 1000.0, 2: 1900.0, 4: 1700.0, 8: 1850.0}}


def test_threads_are_judged_on_two_cores() -> None:
    met = [(verdict.measured, verdict.met) for verdict in threads.verdicts(THROUGHPUTS, 2)]
    assert met == [("1.90 x", True), ("1.70 x", False), ("1.85 x", True)]
    assert threads.verdicts(THROUGHPUTS, 1) == []


def test_threads_make_calls_together() -> None:
    made = []

    def make(x: torch.Tensor) -> threads.Call:
        made.append(x)
        return lambda: x

    assert threads.calls_per_second(threads.Work("work", make), 3, 0.01) > 0
    assert len(made) == 3


def test_the_page_has_ratios_counts_and_goals(tmp_path: Path) -> None:
    case = case_with(floor=100, ours=200, stock=600)
    case.goals = [Goal("at most", 1.4, "floor")]
    case.facts.append(Verdict("0 bytes copied", "same pointer", True))
    case.route("ours").allocations, case.route("ours").peak = 40.0, 640
    measured = report.Measured({"runs": [case]}, 200, 2, 0.1, THROUGHPUTS)
    report.write(measured, tmp_path)
    lines = (tmp_path / "figures.md").read_text().splitlines()
    assert "| ours | 2.00 | 3.00 | 40 | 640 | `ours()` |" in lines
    assert "| work <1> | ours at most 1.4 x floor | 2.00 x | **no** |" in lines
    assert "| work <1> | 0 bytes copied | same pointer | yes |" in lines
    assert f"| {threads.JUDGED} | 1.90 | 1.70 | 1.85 |" in lines
    shown = {path.name for path in tmp_path.iterdir()}
    for name in ("overview", "runs"):
        assert f'<img alt="{report.TITLES[name]}" src="bench-{name}-light.svg">' in lines
        assert {f"bench-{name}-light.svg", f"bench-{name}-dark.svg"} <= shown


COUNT = """
import ctypes, json
from allocations import Counter

c = ctypes.CDLL(None)
for name in ("malloc", "calloc", "realloc", "aligned_alloc"):
    getattr(c, name).restype = ctypes.c_void_p
size, held = ctypes.c_size_t(1 << 20), ctypes.c_size_t(4 << 20)
block = ctypes.c_void_p()

def plain(calls):
    for _ in range(calls):
        c.free(ctypes.c_void_p(c.malloc(size)))

def others(calls):
    for _ in range(calls):
        c.free(ctypes.c_void_p(c.calloc(1, size)))
        c.free(ctypes.c_void_p(c.aligned_alloc(64, size)))
        c.posix_memalign(ctypes.byref(block), 64, size)
        block.value = c.realloc(block, held)
        c.free(block)

counter = Counter()
print(json.dumps([(counter.per_call(f), counter.peak(f)) for f in (plain, others)]))
"""


def test_the_floor_is_built_and_called() -> None:
    code = """
import torch
import floor
bare = floor.load()
print(bare.time_to_values([torch.ones(4)], 100) > 0, torch.ops.ortdl_floor.run.default.name())
"""
    done = in_new_process(code, native.ROOT / "benchmarks")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "True ortdl_floor::run"


def test_blocks_and_bytes_are_counted() -> None:
    environment = {
        **os.environ,
        "LD_PRELOAD": str(native.library("malloc_count")),
        "PYTHONPATH": str(Path(allocations.__file__).parent),
    }
    command = [sys.executable, "-c", COUNT]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    (plain, plain_peak), (others, others_peak) = json.loads(done.stdout)
    assert (plain, others) == (1, 4)
    megabyte, slack = 1 << 20, 1 << 15
    assert megabyte <= plain_peak <= megabyte + slack
    assert 4 * megabyte <= others_peak <= 4 * megabyte + slack


def test_a_process_without_the_counter_says_so() -> None:
    with pytest.raises(SystemExit, match="nothing counts in this process: set LD_PRELOAD"):
        allocations.Counter()
