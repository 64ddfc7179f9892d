"""Aggregates of decimals in all kinds of windows, at every cut, against an oracle with fractions (DE14 to DE17)."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from sluice.testing import run_case
from tests.spec.test_split_and_merge import Division, check_case

WINDOWS = [
    "tumbling, count(5), partitioned",
    "tumbling, punct()",
    "tumbling, delta(p, 0.05), partitioned",
    "sliding, count(7), count(2), partitioned",
    "sliding, count(200), count(1)",
    "sliding, time(30.0), count(1)",
    "sliding, time(4.0), delta(p, 0.5), partitioned",
    "sliding, delta(p, 10.25), count(1)",
    "timeInterval, intervalDuration(10.0), partitioned",
    "timeInterval, intervalDuration(20.0), creationPeriod(5.0)",
    "session, inactivityGap(4.0)",
]
SCHEMA = {"k": "string", "i": "int64", "p": "decimal(2)", "w": "decimal(38, 9)", "t": "float64"}
Numbers = list[Fraction]


def to_scale(number: Fraction, scale: int) -> Fraction:
    """Rounded half to even, as Python rounds fractions."""
    return Fraction(round(number * 10**scale), 10**scale)


def median(values: Numbers, share: Fraction = Fraction(1, 2)) -> Fraction:
    below, rest = divmod(share * (len(values) - 1), 1)
    ordered = sorted(values)
    return ordered[below] if not rest else ordered[below] + (ordered[below + 1] - ordered[below]) * rest


#: call over a decimal -> the oracle of its value: of the values of a window in order of arrival, and of their scale
CALLS: Mapping[str, Callable[[Numbers, int], Any]] = {
    "Sum({})": lambda values, _: sum(values),
    "Average({})": lambda values, scale: to_scale(sum(values) / len(values), max(6, scale)),
    "Average({}, 1)": lambda values, _: to_scale(sum(values) / len(values), 1),
    "Min({})": lambda values, _: min(values),
    "Max({})": lambda values, _: max(values),
    "ArgMax({}, i)": lambda values, _: values.index(max(values)),
    "ArgMin({}, i)": lambda values, _: values.index(min(values)),
    "MaxCount({})": lambda values, _: values.count(max(values)),
    "First({})": lambda values, _: values[0],
    "Last({})": lambda values, _: values[-1],
    "Collect({})": lambda values, _: values,
    "CollectDistinct({})": lambda values, _: list(dict.fromkeys(values)),
    "CountDistinct({})": lambda values, _: len(set(values)),
    "MinN({}, 3)": lambda values, _: sorted(values)[:3],
    "MaxN({}, 3)": lambda values, _: sorted(values, reverse=True)[:3],
    "Median({})": lambda values, scale: to_scale(median(values), max(6, scale)),
    "Percentile({}, 0.95)": lambda values, scale: to_scale(median(values, Fraction(95, 100)), max(6, scale)),
    "Sum({} * 1.10 - 0.005)": lambda values, _: sum(value * Fraction(110, 100) - Fraction(5, 1000) for value in values),
}


def case_of(window: str, seed: int) -> dict[str, Any]:
    output = {"ids": "Collect(i)"} | {f"{x}{n}": call.format(x) for n, call in enumerate(CALLS) for x in "pw"}
    operator: dict[str, Any] = {
        "kind": "aggregate", "window": window, "output": output, "schema": SCHEMA,
        "partition_by": ["k"] if "partitioned" in window or "session" in window else [],
    }  # fmt: skip
    if "timeInterval" in window or "session" in window:
        operator["event_time"] = "t"
        end = {"at": 1e4, "watermark": 1e4}
    else:
        end = {"at": 1e4, "punct": "final"}
    return {"operator": operator, "input": [*events(random.Random(seed), 60), end]}


def events(chance: random.Random, count: int) -> Any:
    at = 0
    for number in range(count):
        at += chance.choice([0, 1, 1, 2, 9])
        small = chance.choice([chance.randrange(-300, 300), chance.randrange(1 - 10**18, 10**18)])
        wide = chance.choice([chance.randrange(-300, 300), chance.randrange(1 - 10**33, 10**33)])
        values = {
            "k": chance.choice("ab"), "i": number, "p": str(Decimal(f"{small}e-2")),
            "w": str(Decimal(f"{wide}e-9")), "t": float(at),
        }  # fmt: skip
        yield {"at": float(at), "tuple": values}
        if not chance.randrange(12):
            yield {"at": float(at), "punct": "window"}


def fractions(value: Any) -> Any:
    return list(map(fractions, value)) if isinstance(value, list) else Fraction(value)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("window", WINDOWS)
def test_each_window_has_the_values_of_the_oracle(window: str, seed: int):
    case = case_of(window, seed)
    tuples = [event["tuple"] for event in case["input"] if "tuple" in event]
    whole = run_case(case)
    found = [record["tuple"] for record in whole if "tuple" in record]
    assert found
    for result in found:
        for x, scale in ("p", 2), ("w", 9):
            values = [Fraction(tuples[number][x]) for number in result["ids"]]
            for n, (call, expected) in enumerate(CALLS.items()):
                wanted = expected(values, scale)
                wanted = result["ids"][wanted] if "Arg" in call else wanted
                assert fractions(result[f"{x}{n}"]) == wanted, call.format(x)
    for sizes in [1] * len(case["input"]), [7, 0, 13]:
        assert run_case(case, sizes) == whole


@pytest.mark.parametrize("window", [window for window in WINDOWS if "partitioned" in window])
def test_states_that_are_split_and_merged(window: str):
    check_case(case_of(window, 5), Division(7, 2, 3, 4, frozenset({0, 1}), 11, saved=True))


def test_a_sum_with_more_than_38_digits_is_a_dead_letter_and_the_next_sum_is_right():
    """DE14: an intermediate sum may be larger: nothing wraps around."""
    most = "9" * 29 + ".999999999"
    values = [most, most, "-" + most, most, "0.000000001"]
    operator = {
        "window": "sliding, count(3), count(1)", "schema": {"w": "decimal(38, 9)"}, "output": {"sum": "Sum(w)"},
        "aggregate_incomplete_windows": True,
    }  # fmt: skip
    case = {"operator": operator, "input": [{"at": 0.0, "tuple": {"w": value}} for value in values]}
    records = run_case(case | {"dead_letters": True})
    assert [record["tuple"]["sum"] for record in records if "tuple" in record] == [
        Decimal(most), Decimal(most), Decimal(most), Decimal("0.000000001")
    ]  # fmt: skip
    reasons = [record["dead_letter"]["reason"] for record in records if "dead_letter" in record]
    assert len(reasons) == 1
    assert reasons[0].endswith("has more digits than its type")
