"""Classes of `Custom` that lift the tuples as they come, and store none (FN11)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sluice.api import custom
from sluice.api.class_loader import ClassError
from sluice.engine.graph import Graph
from sluice.testing import pipeline_of, run_case
from tests.spec.comparing import equal

SCHEMA = {"k": "string", "f": "float64", "g": "float64?", "e": "float64"}
ROWS = [
    {"k": "ab"[n % 2], "f": float(n * n % 7 + 1), "g": None if n % 3 else float(n), "e": float(n)} for n in range(20)
]
EVENTS = [{"at": float(n), "tuple": row} for n, row in enumerate(ROWS)]


class GeometricMean:
    signature = "float64 -> float64"
    combine = ("sum", "sum")

    def lift(self, values: pa.Array) -> Sequence[np.ndarray]:
        if not (values.to_numpy() > 0).all():
            raise ArithmeticError(values)
        return np.log(values.to_numpy()), np.ones(len(values))

    def result(self, logarithms: np.ndarray, counts: np.ndarray) -> np.ndarray:
        return np.exp(logarithms / counts)


class Short(GeometricMean):
    """Fails for windows of more than five tuples."""

    def result(self, logarithms: np.ndarray, counts: np.ndarray) -> np.ndarray:
        if (counts > 5).any():
            raise ArithmeticError(counts)
        return super().result(logarithms, counts)


class Ends:
    """The first, the last, the least and the greatest value as one number; nulls are 9."""

    signature = "float64? -> float64"
    combine = ("first", "last", "min", "max")

    def lift(self, values: pa.Array) -> Sequence[pa.Array]:
        return [values.fill_null(9.0)] * 4

    def result(self, first: np.ndarray, last: np.ndarray, least: np.ndarray, most: np.ndarray) -> pa.Array:
        return pa.array(first * 1e6 + last * 1e4 + least * 100 + most)


def of(name: str, *arguments: str) -> str:
    return f'Custom("{__name__}:{name}", {", ".join(arguments)})'


def case(call: str, window: str, events: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    operator = {
        "window": window, "partition_by": ["k"] if "partitioned" in window else [], "schema": SCHEMA,
        "aggregate_incomplete_windows": "sliding" in window, "output": {"content": "Collect(f)", "out": call},
    }  # fmt: skip
    timed = {"event_time": "e"} if "Interval" in window else {}
    return {"operator": operator | timed, "input": events or EVENTS}


def mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def ends(values: list[float]) -> float:
    return values[0] * 1e6 + values[-1] * 1e4 + min(values) * 100 + max(values)


@pytest.mark.parametrize("cuts", [None, [1] * 20, [7, 0, 9]])
@pytest.mark.parametrize("window", [
    "sliding, count(4), count(1), partitioned", "tumbling, count(3), partitioned", "sliding, time(4), count(1)",
    "sliding, delta(f, 2.0), count(1)", "timeInterval, intervalDuration(4), partitioned", "tumbling, time(5)",
])  # fmt: skip
@pytest.mark.parametrize(("name", "oracle"), [("GeometricMean", mean), ("Ends", ends)])
def test_a_class_gives_what_its_formula_gives(
    name: str, oracle: Callable[[list[float]], float], window: str, cuts: list[int] | None
):
    marks = [{"at": 20.0, "watermark": 20.0}] if "Interval" in window else []
    records = run_case(case(of(name, "f"), window, [*EVENTS, *marks]), cuts)
    rows = [record["tuple"] for record in records if "tuple" in record]
    assert len(rows) > 2
    assert all(equal(row["out"], oracle(row["content"])) for row in rows)


def test_no_tuple_is_stored():
    (operator,) = Graph(pipeline_of(case(of("GeometricMean", "f"), "tumbling, count(3)") | {
        "operator": {"window": "tumbling, count(3)", "schema": SCHEMA, "output": {"out": of("GeometricMean", "f")}},
    }), {"input": 1}).operators  # fmt: skip
    assert not operator.holding  # type: ignore[attr-defined]


def test_a_tuple_for_which_lift_fails_is_a_dead_letter():
    events = [{"at": float(n), "tuple": ROWS[0] | {"f": f}} for n, f in enumerate([1.0, -1.0, 4.0, 0.0, 16.0])]
    records = run_case(case(of("GeometricMean", "f"), "tumbling, count(3)", events) | {"dead_letters": True})
    letters = [record["dead_letter"] for record in records if "dead_letter" in record]
    assert [letter["tuple"]["f"] for letter in letters] == [-1.0, 0.0]
    assert letters[0]["reason"] == f"{__name__}:GeometricMean.lift[0](f) has no value"
    assert [equal(r["tuple"]["out"], 4.0) for r in records if "tuple" in r] == [True]


def test_a_window_for_which_result_fails_is_a_dead_letter():
    window = case(of("Short", "f"), "sliding, count(6), count(1)", EVENTS[:7]) | {"dead_letters": True}
    records = run_case(window)
    assert ["tuple" in record for record in records if "punct" not in record] == [True] * 5 + [False] * 2


def test_null_and_a_condition():
    records = run_case(case(of("Ends", "g"), "tumbling, count(4)"))
    expected = [ends([9.0 if row["g"] is None else row["g"] for row in ROWS[n : n + 4]]) for n in range(0, 20, 4)]
    assert [record["tuple"]["out"] for record in records if "tuple" in record] == expected
    records = run_case(case(of("GeometricMean", "f", "where: f > 2.0"), "tumbling, count(4)"))
    for record in (record["tuple"] for record in records if "tuple" in record):
        part = [value for value in record["content"] if value > 2.0]
        assert equal(record["out"], mean(part) if part else None)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"combine": ("sum", "mean")}, "a tuple of the words sum, min, max, first, last as combine"),
        ({"combine": "sum"}, "a tuple of the words"),
        ({"combine": ("sum",)}, "methods that fit the signature"),
        ({"signature": "-> float64"}, "whose signature has an argument"),
        ({"result": None}, "has no result"),
    ],
)
def test_wrong_classes(members: dict[str, Any], expected: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(globals(), "Wrong", type("Wrong", (GeometricMean,), members))
    with pytest.raises(ClassError, match=expected):
        custom.load(f"{__name__}:Wrong")
