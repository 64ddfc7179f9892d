"""Each operator carries values with an inside as it carries numbers, for every cut into batches (ST7)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.testing.one_operator import run_case

#: number of a tuple -> a value of each type, in the JSON of an event
VALUES = {
    "tuple<id: int64, tags: map<string, int64>, lines: list<tuple<sku: string, price: float64>>>": [
        {"id": 1, "tags": {"a": 1, "b": 2}, "lines": [{"sku": "x", "price": 1.5}]},
        {"id": 1, "tags": {}, "lines": []},
        {"id": 2, "tags": {"a": 1}, "lines": [{"sku": "x", "price": 1.5}, {"sku": "", "price": -0.5}]},
    ],
    "map<string, list<int64>>": [{}, {"a": [1, 2], "b": []}, {"a": [1]}],
    "bytes": ["", "AA==", "AAE="],
    "json": [{"a": [1, None]}, 7, "x"],
    "list<list<string>>": [[], [["a"], []], [["a", "b"]]],
}
KEYED = {
    "equality_left": ["k"],
    "equality_right": ["k"],
    "output": {"k": "left.k", "mine": "left.v", "other": "right.v"},
}
OPERATORS = {
    "tumbling": {
        "window": "tumbling, count(3)",
        "output": {"first": "First(v)", "last": "Last(v)", "all": "Collect(v)"},
    },
    "sliding": {"window": "sliding, count(2), count(1)", "output": {"all": "Collect(v)", "kinds": "CountDistinct(v)"}},
    "groups": {"window": "tumbling, count(4)", "group_by": ["k"], "output": {"any": "Any(v)", "at": "ArgMax(n, v)"}},
    "partitions": {"window": "tumbling, count(2), partitioned", "partition_by": ["k"], "output": {"v": "v"}},
    "distinct": {"window": "tumbling, count(4)", "output": {"d": "CollectDistinct(v)", "n": "CountByDistinct(v)"}},
    "panes": {
        "window": "timeInterval, intervalDuration(4)",
        "event_time": "ts",
        "output": {"v": "Last(v)", "c": "Collect(v)"},
    },
    "session": {
        "window": "session, inactivityGap(2)",
        "event_time": "ts",
        "output": {"v": "First(v)", "c": "Collect(v)"},
    },
    "sort": {"kind": "sort", "window": "tumbling, count(3)", "order_by": {"n": "desc"}},
    "sliding sort": {"kind": "sort", "window": "sliding, count(2)", "order_by": {"n": "asc"}},
    "dedup": {"kind": "dedup", "by": ["k"], "within": "time(2)"},
    "join": {"kind": "join", "left": "sliding, count(2)", "right": "sliding, count(2)", **KEYED},
}


def case_of(operator: dict, type_: str, values: list, numbers: list[int]) -> dict:
    """The operator over tuples whose attribute v has the value of each number."""
    schema = {"k": "int64", "n": "int64", "ts": "float64", "v": type_}
    join = operator.get("kind") == "join"
    schemas = {"schema_left": schema, "schema_right": schema} if join else {"schema": schema}
    ports = [{"port": ("left", "right")[place % 2]} if join else {} for place in range(len(numbers))]
    events = [
        {"at": place, "tuple": {"k": number % 2, "n": number, "ts": float(place), "v": values[number]}} | ports[place]
        for place, number in enumerate(numbers)
    ]
    return {
        "operator": operator | schemas,
        "input": [*events, {"at": len(numbers), "punct": "final"} | ({} if not join else {"port": "left"})],
    }


def replaced(value, values):
    """The output with the values of numbers; those of attributes that hold numbers in any case stay."""
    return [{key: with_values(item, values) if key == "tuple" else item for key, item in r.items()} for r in value]


NUMBERS = ("k", "n", "kinds", "ts")


def with_values(attributes, values):
    def one(item):
        return [one(part) for part in item] if isinstance(item, list) else values[item]

    return {name: item if name in NUMBERS else one(item) for name, item in attributes.items()}


@pytest.mark.parametrize("type_", VALUES)
@pytest.mark.parametrize("name", OPERATORS)
@settings(max_examples=8, derandomize=True, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=1, max_size=6))
def test_an_operator_carries_values_as_it_carries_numbers(name, type_, numbers):
    plain = run_case(case_of(OPERATORS[name], "int64", [0, 1, 2], numbers))
    case = case_of(OPERATORS[name], type_, VALUES[type_], numbers)
    expected = replaced(plain, VALUES[type_])
    count = len(case["input"])
    for cuts in ([1] * count, *([first, count - first] for first in range(1, count))):
        assert run_case(case, cuts) == expected
