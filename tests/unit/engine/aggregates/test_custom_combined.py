"""Classes of `Custom` with a `combine` of their own, over arrays (FN13)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from sluice.api import custom
from sluice.api.class_loader import ClassError
from sluice.engine.aggregates.custom_functions import _combined
from sluice.testing import run_case
from tests.spec.comparing import equal

SCHEMA = {"k": "string", "f": "float64", "g": "float64?", "e": "float64"}
ROWS = [
    {"k": "ab"[n % 2], "f": float(n * n * 5 % 11), "g": None if n % 3 else float(n), "e": float(n + n // 6)}
    for n in range(24)
]
EVENTS: list[dict[str, Any]] = [{"at": float(n), "tuple": row} for n, row in enumerate(ROWS)]


class Rise:
    """The largest rise from a value to a later one: associative, and not commutative."""

    signature = "float64 -> float64"
    calls: ClassVar[list[int]] = []
    lifted: ClassVar[list[int]] = []

    def lift(self, values: pa.Array) -> Sequence[Any]:
        self.lifted.append(len(values))
        numbers = values.to_numpy()
        if (numbers == 99.0).any():
            raise ArithmeticError(values)
        return values, numbers, np.zeros(len(values))

    def combine(self, older: list[np.ndarray], younger: list[np.ndarray]) -> Sequence[Any]:
        self.calls.append(len(older[0]))
        rise = np.maximum(younger[1] - older[0], np.maximum(older[2], younger[2]))
        return np.minimum(older[0], younger[0]), pa.array(np.maximum(older[1], younger[1])), rise

    def result(self, least: np.ndarray, greatest: np.ndarray, rise: np.ndarray) -> np.ndarray:
        assert (least <= greatest).all()
        return rise


class Careful(Rise):
    """`combine` fails if it gets a value of 9."""

    def combine(self, older: list[np.ndarray], younger: list[np.ndarray]) -> Sequence[Any]:
        if max(*older[1], *younger[1]) == 9:
            raise ArithmeticError(older)
        return super().combine(older, younger)


class Short(Rise):
    def combine(self, older: list[np.ndarray], younger: list[np.ndarray]) -> Sequence[Any]:
        return super().combine(older, younger)[:2]


def rise(values: list[float]) -> float:
    return max([0.0, *(b - a for n, a in enumerate(values) for b in values[n + 1 :])])


def of(name: str, *arguments: str) -> str:
    return f'Custom("{__name__}:{name}", {", ".join(arguments)})'


EVENT_TIME = {"timeInterval", "session", "cumulate", "slidingTime"}
WINDOWS = [
    "sliding, count(5), count(1), partitioned", "sliding, count(20), count(3)", "tumbling, count(5)",
    "sliding, time(4), count(1)", "sliding, delta(f, 2.0), count(1)", "tumbling, time(5)", "tumbling, delta(e, 4.0)",
    "timeInterval, intervalDuration(6), creationPeriod(2), partitioned",
    "cumulate, maximumDuration(8), step(2), partitioned", "session, inactivityGap(1)", "slidingTime, timeDifference(4)",
]  # fmt: skip


def case(call: str, window: str, **more: Any) -> dict[str, Any]:
    timed = window.split(",", maxsplit=1)[0] in EVENT_TIME
    operator = {
        "window": window, "partition_by": ["k"] if timed or "partitioned" in window else [], "schema": SCHEMA,
        "output": {"content": "Collect(f)", "out": call}, **({"event_time": "e"} if timed else {}),
        **({"aggregate_incomplete_windows": True} if window.startswith("sliding,") else {}), **more,
    }  # fmt: skip
    marks = [{"at": 24.0, "watermark": 30.0}] if timed else []
    return {"operator": operator, "input": [*EVENTS, *marks]}


def rows(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [record["tuple"] for record in records if "tuple" in record]


@pytest.mark.parametrize("cuts", [None, [1] * 24, [7, 0, 9]])
@pytest.mark.parametrize("window", WINDOWS)
def test_each_window_gives_what_the_formula_gives(window: str, cuts: list[int] | None):
    made = rows(run_case(case(of("Rise", "f"), window), cuts))
    assert len(made) > 2
    assert all(equal(row["out"], rise(row["content"])) for row in made)


def test_groups_and_a_condition():
    made = rows(run_case(case(of("Rise", "f", "where: f > 4.0"), "tumbling, count(6)", group_by=["k"])))
    for row in made:
        part = [value for value in row["content"] if value > 4.0]
        assert equal(row["out"], rise(part) if part else None)


def test_a_call_for_each_doubling_of_the_windows():
    """24 tuples in windows of 8: four, two and one pairs in each of the three windows."""
    Rise.calls.clear()
    Rise.lifted.clear()
    rows(run_case(case(of("Rise", "f"), "tumbling, count(8)"), [24]))
    assert Rise.calls == [12, 6, 3]
    assert Rise.lifted == [24]


def test_a_failing_combine_takes_the_value_of_its_windows_alone():
    windows = case(of("Careful", "f"), "tumbling, count(3)") | {"dead_letters": True}
    records = run_case(windows)
    contents = [[row["f"] for row in ROWS[n : n + 3]] for n in range(0, 24, 3)]
    right = [content for content in contents if 9.0 not in content]
    assert 0 < len(right) < len(contents)
    assert [row["content"] for row in rows(records)] == right
    assert len([record for record in records if "dead_letter" in record]) == len(contents) - len(right)


def test_a_tuple_for_which_lift_fails_is_a_dead_letter():
    events = [{"at": float(n), "tuple": ROWS[0] | {"f": f}} for n, f in enumerate([1.0, 99.0, 4.0, 99.0, 2.0])]
    records = run_case(case(of("Rise", "f"), "tumbling, count(3)") | {"input": events, "dead_letters": True})
    assert [r["dead_letter"]["tuple"]["f"] for r in records if "dead_letter" in r] == [99.0, 99.0]
    assert [row["out"] for row in rows(records)] == [3.0]


@pytest.mark.parametrize("seed", range(20))
def test_pairs_of_windows_of_all_sizes(seed: int):
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 12, random.integers(1, 9))
    values = random.integers(0, 50, int(sizes.sum())).astype(float)
    combined = _combined(Rise(), sizes, [values, values, np.zeros(len(values))])
    ends = np.cumsum(sizes).tolist()
    contents = [values[a:b].tolist() for a, b in zip([0, *ends], ends, strict=False)]
    assert [array.tolist() for array in combined] == [
        [min(one) for one in contents], [max(one) for one in contents], [rise(one) for one in contents],
    ]  # fmt: skip


def test_the_cost_of_a_tuple():
    """At most 50 ns above numpy, in processor time: a million tuples in 10,000 windows of 50 to 150."""
    sizes = np.random.default_rng(1).integers(50, 151, 10_000)
    values = np.random.default_rng(2).random(int(sizes.sum()))
    numbers, added = [values, np.ones(len(values))], Added()
    _combined(added, sizes, numbers)
    times = []
    for _ in range(3):
        start = time.process_time()
        _combined(added, sizes, numbers)
        middle = time.process_time()
        _combined_of_numpy(added, len(values), numbers)
        times.append((middle - start) - (time.process_time() - middle))
    assert min(times) < len(values) * 50e-9


class Added:
    def combine(self, older: list[np.ndarray], younger: list[np.ndarray]) -> Sequence[np.ndarray]:
        return older[0] + younger[0], older[1] + younger[1]


def _combined_of_numpy(added: Added, count: int, numbers: list[np.ndarray]) -> None:
    """The same additions without the windows."""
    while count > 1:
        half = count // 2
        added.combine([one[:half] for one in numbers], [one[half : 2 * half] for one in numbers])
        count = half


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"result": lambda self: self}, "a parameter for each number"),
        ({"combine": lambda self, older: (self, older)}, "methods that fit the signature"),
        ({"signature": "-> float64"}, "whose signature has an argument"),
        ({"combine": None}, r"a method combine\(older, younger\), or a tuple of the words"),
    ],
)
def test_wrong_classes(members: dict[str, Any], expected: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(globals(), "Wrong", type("Wrong", (Rise,), members))
    with pytest.raises(ClassError, match=expected):
        custom.load(f"{__name__}:Wrong")


def test_an_array_too_few_is_a_failure():
    assert not rows(run_case(case(of("Short", "f"), "tumbling, count(3)") | {"dead_letters": True}))
