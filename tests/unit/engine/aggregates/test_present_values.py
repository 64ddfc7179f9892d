"""What each aggregation function makes of null (NU18 to NU23), over one window of three tuples."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.testing import run_case

SCHEMA = {
    "i": "int64?",
    "f": "float64?",
    "s": "string?",
    "v": "list<int64>?",
    "n": "int64",
    "d": "decimal(2)?",
    "w": "decimal(38, 2)?",
}
ABSENT = {"i": None, "f": None, "s": None, "v": None, "d": None, "w": None}
#: the first and the last tuple have no values
ROWS = [{**ABSENT, "n": 1}, {"i": 5, "f": 2.5, "s": "b", "v": [1, 2], "n": 2, "d": 1.25, "w": 2.5}, {**ABSENT, "n": 3}]


def of(call: str, rows: list[dict[str, Any]]) -> Any:
    operator = {"window": f"tumbling, count({len(rows)})", "output": {"out": call}, "schema": SCHEMA}
    (value,) = [
        record["tuple"]["out"]
        for record in run_case({"operator": operator, "input": [{"at": 0.0, "tuple": row} for row in rows]})
        if "tuple" in record
    ]
    return value


@pytest.mark.parametrize(
    ("call", "some", "none"),
    [
        # NU18: of the tuples in which the argument is present
        ("Sum(i)", 5, None), ("Sum(f)", 2.5, None), ("Sum(s)", "b", None), ("Sum(v)", [1, 2], None),
        ("Average(i)", 5, None), ("Average(f)", 2.5, None), ("Average(v)", [1, 2], None),
        ("Min(i)", 5, None), ("Max(s)", "b", None), ("Min(v)", [1, 2], None),
        ("MinCount(f)", 1, None), ("MaxCount(i)", 1, None),
        ("SampleStdDev(f)", 0.0, None), ("PopulationStdDev(f)", 0.0, None),
        ("Median(f)", 2.5, None), ("Percentile(f, 0.9)", 2.5, None),
        ("string(Sum(d))", "1.25", None), ("string(Average(d))", "1.250000", None), ("string(Max(d))", "1.25", None),
        ("string(Sum(w))", "2.50", None), ("string(Average(w))", "2.500000", None), ("SampleStdDev(d)", 0.0, None),
        ("string(FirstPresent(w))", "2.50", None), ("string(First(w))", None, None), ("CountDistinct(w)", 1, 0),
        ("Sum(i + n)", 7, None), ("Sum(i) + 1", 6, None),
        # NU19: counts and lists are never null
        ("Count()", 3, 3), ("Count(i)", 1, 0), ("Count(n)", 3, 3), ("CountDistinct(s)", 1, 0),
        ("Collect(i)", [5], []), ("CollectDistinct(s)", ["b"], []), ("CountByDistinct(f)", [1], []),
        ("MaxN(i, 2)", [5], []), ("CollectMinN(s, i, 2)", ["b"], []), ("CollectMinN(n, i, 2)", [2], []),
        ("First(i, 2)", [5], []), ("Last(s, 2)", ["b"], []),
        # NU20: the tuple as it is, or the first and last value that is present
        ("First(i)", None, None), ("Last(s)", None, None), ("Any(f)", None, None), ("i", None, None),
        ("FirstPresent(i)", 5, None), ("LastPresent(s)", "b", None), ("LastPresent(v)", [1, 2], None),
        # NU21: the companion as it is
        ("ArgMax(i, s)", "b", None), ("ArgMin(n, s)", None, None), ("ArgMax(f, n)", 2, None),
        ("CollectArgMax(i, s)", ["b"], []), ("CollectArgMin(n, s)", [], []),
    ],
)  # fmt: skip
def test_a_function_of_values_that_may_be_null(call: str, some: Any, none: Any):
    assert of(call, ROWS) == some
    assert of(call, [ROWS[0], ROWS[2], ROWS[0]]) == none


@pytest.mark.parametrize("call", ["CollectMinN(s, i, 3)", "CollectMaxN(s, i, 3)", "CollectMinN(s, f, 3)"])
def test_a_tuple_with_one_of_two_values_is_left_out(call: str):
    one_of_two = [{**ROWS[1], "s": None}, {**ROWS[1], "i": None, "f": None}]
    assert of(call, [*one_of_two, ROWS[1]]) == ["b"]
    assert of(call, one_of_two) == []


@pytest.mark.parametrize(
    ("call", "some", "none"),
    [
        ("Sum(n, where: n > 1)", 5, None), ("Average(n, where: n > 1)", 2, None),
        ("Sum(n + 0.5, where: n > 1)", 6.0, None),
        ("Max(n, where: n < 3)", 2, 1), ("Count(where: n > 1)", 2, 0), ("Count(i, where: n > 1)", 1, 0),
        ("Count()", 3, 1),
        ("Sum(i, where: n > 1)", 5, None), ("First(i, where: n > 1)", 5, None), ("Last(i, where: n > 1)", None, None),
        ("First(n, where: n > 1)", 2, None), ("Last(n, where: n < 3)", 2, 1), ("Any(s, where: n == 2)", "b", None),
        ("FirstPresent(i, where: n > 0)", 5, None), ("First(n, 1, where: n > 1)", [2], []),
        ("ArgMax(n, s, where: n < 3)", "b", None), ("ArgMin(n, n * 2, where: n > 1)", 4, None),
        ("Collect(n, where: n > 1)", [2, 3], []), ("CollectMaxN(n, n, 1, where: n < 3)", [2], [1]),
        ("CollectArgMax(n, s, where: n < 3)", ["b"], []), ("CountDistinct(n, where: n > 1)", 2, 0),
        ("Percentile(float64(n), 0.5, where: n > 1)", 2.5, None), ("string(Sum(d, where: n > 1))", "1.25", None),
        ("Sum(1, where: n > 1)", 2, None), ("Sum(v, where: n > 1)", [1, 2], None),
        ('Sum(s, where: n > 1) ?: ""', "b", ""),
        (f'Custom("{__name__}:Present", i, where: n > 1)', 1, None),
        (f'Custom("{__name__}:Tuples", where: n > 1)', 2, None), (f'Custom("{__name__}:Tuples")', 3, 1),
    ],
)  # fmt: skip
def test_a_function_of_a_part_of_the_tuples(call: str, some: Any, none: Any):
    """FN1, FN2, FN5: of the last two tuples, and of a window without such tuples."""
    assert of(call, ROWS) == some
    assert of(call, ROWS[:1]) == none


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("Sum(n, where: i > 1)", 2),  # i is null in two tuples
        ("Count(where: 6 % (n - 1) == 0)", 2),  # no value where n is 1
        ("Sum(6 % (n - 1), where: n != 1)", 0),  # no value in a tuple that is not in the part
        ("ArgMax(n, 6 / (n - 1), where: n != 1)", 3.0),
    ],
)
def test_errors_and_null_in_a_condition(call: str, expected: Any):
    """FN3."""
    assert of(call, ROWS) == expected


def test_groups_of_a_part():
    """FN4: two groups, of which one has a tuple in the part."""
    operator = {
        "window": "tumbling, count(3)", "group_by": ["i"], "schema": SCHEMA,
        "output": {
            "groups": "CountGroups(where: n == 1)", "sizes": "CountByGroup(where: n == 1)", "all": "CountGroups()",
        },
    }  # fmt: skip
    found = run_case({"operator": operator, "input": [{"at": 0.0, "tuple": row} for row in ROWS]})
    assert [record["tuple"] for record in found if "tuple" in record] == [{"groups": 1, "sizes": [1, 0], "all": 2}] * 2


class Tuples:
    """How many tuples there are."""

    signature = "-> int64"

    def init(self) -> None:
        self.count = 0

    def add(self) -> None:
        self.count += 1

    def result(self) -> int:
        return self.count


class Present:
    """How many values are no None; None if there are none."""

    signature = "int64? -> int64?"

    def init(self) -> None:
        self.count = 0

    def add(self, value: int | None) -> None:
        self.count += value is not None

    def result(self) -> int | None:
        return self.count or None


@pytest.mark.parametrize(("rows", "expected"), [(ROWS, 1), (ROWS[:1], None)])
def test_a_class_gets_none_and_may_return_it(rows: list[dict[str, Any]], expected: int | None):
    """NU23: it is called if all values are null, too."""
    assert of(f'Custom("{__name__}:Present", i)', rows) == expected


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("Sum(i)!", "Sum(i) is null, which output.out needs"),
        ("Last(i)! + 1", "Last(i) is null, which output.out needs"),
    ],
)
def test_the_reason_of_an_absent_result_names_it(expression: str, reason: str):
    """NU13: as the pipeline file has it, not as a column of results."""
    operator = {"window": "tumbling, count(1)", "output": {"out": expression}, "schema": SCHEMA}
    case = {"operator": operator, "dead_letters": True, "input": [{"at": 0.0, "tuple": {**ABSENT, "n": 1}}]}
    assert [record["dead_letter"]["reason"] for record in run_case(case) if "dead_letter" in record] == [reason]


def test_a_failing_function_is_an_error_also_where_its_result_may_be_null():
    """A22 and NU14: the sum of lists of different sizes has no value."""
    rows = [{**ABSENT, "v": [1], "n": 1}, {**ABSENT, "v": [1, 2], "n": 2}]
    operator = {"window": "tumbling, count(2)", "output": {"out": "Sum(v)"}, "schema": SCHEMA}
    case = {"operator": operator, "dead_letters": True, "input": [{"at": 0.0, "tuple": row} for row in rows]}
    assert [record["dead_letter"]["reason"] for record in run_case(case) if "dead_letter" in record] == [
        "output.out has no value"
    ]


@pytest.mark.parametrize("call", ["Count(i!)", "Count(10 % n)", "isPresent(Count(10 % n))", "Count(i!, where: n == 0)"])
def test_an_argument_of_count_without_a_value_is_a_dead_letter(call: str):
    """NU14: also where it cannot be null, so that nothing of it is stored. A condition names the tuples of a part."""
    operator = {"window": "tumbling, count(1)", "output": {"out": call, "all": "Count()"}, "schema": SCHEMA}
    rows = [{**ABSENT, "n": 0}, {**ABSENT, "i": 1, "n": 1}]
    case = {"operator": operator, "dead_letters": True, "input": [{"at": 0.0, "tuple": row} for row in rows]}
    written = [kind for record in run_case(case) for kind in ("dead_letter", "tuple") if kind in record]
    assert written == ["dead_letter", "tuple"]
