"""Rules of single aggregation functions (docs/aggregates.md), beyond those that the conformance vectors have."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest

from sluice.columns.interner import Interner
from sluice.config.syntax.expression_grammar import ExpressionError
from sluice.config.syntax.typed_expressions import Scope, parse
from sluice.engine.contents import summaries
from sluice.model.types import FLOAT64, STRING
from sluice.testing import run_case
from tests.spec.comparing import equal

NAN, INF = math.nan, math.inf
HIGH, LOW = 2**63 - 1, -(2**63)
HUGE, LARGEST = 1.7e308, sys.float_info.max


def over(call: str, values: list[Any], type_: str | None = None, **columns: list[Any]) -> list[Any]:
    """What `call` gives over one window that holds the values of x (and of other columns)."""
    rows = [dict(zip(["x", *columns], row, strict=True)) for row in zip(values, *columns.values(), strict=True)]
    operator = {"window": f"tumbling, count({len(rows)})", "output": {"out": call}}
    operator["schema"] = {"x": type_} if type_ else {}
    found = run_case({"operator": operator, "input": [{"at": 0.0, "tuple": row} for row in rows]})
    return [record["tuple"]["out"] for record in found if "tuple" in record]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("MaxN(x, 3)", [9, 7, 7]), ("MinN(x, 2)", [1, 2]), ("MaxN(x, 9)", [9, 7, 7, 2, 1]),
        ("MaxN(f, 2)", [NAN, 3.0]), ("MinN(f, 9)", [-0.0, 0.0, 1.5, 3.0, NAN]), ("MaxN(s, 2)", ["é", "z"]),
        ("CollectMaxN(s, x, 3)", ["a", "é", "z"]), ("CollectMinN(x, f, 2)", [7, 2]), ("MaxN(b, 2)", [True, True]),
    ],
)  # fmt: skip
def test_the_n_greatest_values(call: str, expected: list[Any]):
    """L2, L3: in the order of a sort; of equal values the earlier one is first."""
    columns = {
        "f": [NAN, 3.0, -0.0, 1.5, 0.0], "s": ["b", "é", "z", "a", "b"], "b": [True, False, True, False, False],
    }  # fmt: skip
    assert equal(over(call, [1, 7, 7, 9, 2], **columns), [expected])


@pytest.mark.parametrize(
    ("call", "values", "expected"),
    [
        # beyond the range
        ("Sum(x)", [HIGH, 1], LOW),
        ("Average(x)", [HIGH, HIGH, LOW, LOW], 0),
        ("Average(x)", [LOW, LOW], LOW),
        ("Sum(x)", [HUGE, HUGE], INF),
        ("Sum(x)", [HUGE, HUGE, -HUGE], HUGE),
        ("Sum(x)", [HUGE, HUGE, -HUGE, -HUGE, 1.0], 1.0),
        ("Sum(x)", [1e308, LARGEST, -1e308], LARGEST),
        ("Sum(x)", [LARGEST, LARGEST, LARGEST, -LARGEST, -LARGEST], LARGEST),
        ("Sum(x)", [LARGEST, LARGEST, 1e300, -LARGEST, -LARGEST], 1e300),
        ("Average(x)", [LARGEST, LARGEST, 1e308], (LARGEST / 3 * 2) + 1e308 / 3),
        ("Average(x)", [HUGE, HUGE, HUGE], HUGE),
        ("Average(x)", [-HUGE, -HUGE, 1.0], -HUGE / 3 * 2),
        ("Sum(x)", [HUGE, HUGE, INF], INF),
        ("Sum(x)", [HUGE, HUGE, -INF], -INF),
        ("Sum(x)", [INF, -INF], NAN),
        ("Sum(x)", [1e300, 1.0, -1e300], 1.0),
        ("SampleStdDev(x)", [1e200, -1e200], INF),
        ("PopulationStdDev(x)", [HUGE, -HUGE, 1.0, 1.0], INF),
        ("PopulationStdDev(x)", [1.0, HUGE, -HUGE, HUGE], INF),
        # NaN
        ("Sum(x)", [1.0, NAN], NAN),
        ("Min(x)", [NAN, 1.0], NAN),
        ("Min(x)", [2.0, NAN, 1.0], 1.0),
        ("Max(x)", [NAN, NAN], NAN),
        ("MinCount(x)", [NAN, 1.0, 1.0], 1),
        ("MaxCount(x)", [1.0, NAN, 1.0], 2),
        ("CountDistinct(x)", [NAN, NAN, 1.0, 1.0], 3),
        ("PopulationStdDev(x)", [INF], NAN),
        ("SampleStdDev(x)", [INF], 0.0),
        ("Median(x)", [1.0, NAN, 2.0], NAN),
        # equal values
        ("MinCount(x)", [0.0, -0.0, 1.0], 2),
        ("CollectDistinct(x)", [-0.0, 0.0, 1.0], [-0.0, 1.0]),
        ("CountByDistinct(x)", ["b", "a", "b"], [2, 1]),
        ("MaxCount(x)", ["b", "a", "b"], 2),
        ("MinCount(x)", [True, False, True], 1),
        # percentiles
        ("Median(x)", [3, 1, 2], 2.0),
        ("Median(x)", [4, 1, 2, 3], 2.5),
        ("Median(x)", [HUGE, -HUGE], 0.0),
        ("Percentile(x, 0.25)", [1, 2], 1.25),
        ("Percentile(x, 0)", [5, 1, 3], 1.0),
        ("Percentile(x, 1.0)", [5, 1, INF], INF),
        ("Percentile(x, 0.5)", [INF, INF], INF),
        # deviations
        ("SampleStdDev(x)", [7], 0.0),
        ("PopulationStdDev(x)", [1, 2], 0.5),
        ("PopulationStdDev(x)", [1e9 + 1, 1e9 + 2, 1e9 + 3], math.sqrt(2 / 3)),
        # caps
        ("Collect(x, 2)", [1, 2, 3], [1, 2]),
        ("First(x, 2)", [1, 2, 3], [1, 2]),
        ("Last(x, 2)", [1, 2, 3], [2, 3]),
        ("Last(x, 9)", [1, 2, 3], [1, 2, 3]),
        ("CollectDistinct(x, 2)", ["a", "b", "a", "c"], ["a", "b"]),
        ("CountByDistinct(x, 2)", ["a", "b", "a", "c"], [2, 1]),
        ("Sum(x)", ["", "b", ""], "b"),
        # lists
        ("Sum(x)", [[HIGH, 1], [1, 2]], [LOW, 3]),
        ("Average(x)", [[1, -3], [2, 0]], [1, -1]),
        ("Min(x)", [[NAN, 2.0], [1.0, NAN]], [NAN, 2.0]),
        ("Collect(x)", [[1], [], [2, 3]], [[1], [], [2, 3]]),
        ("Last(x, 1)", [[1], [2, 3]], [[2, 3]]),
        ("CountDistinct(x)", [["a"], ["a", "b"], ["a"]], 2),
        ("CountDistinct(x)", [[NAN], [NAN], [1.0, -0.0], [1.0, 0.0], [-0.0], [0.0], []], 5),
        ("CollectDistinct(x)", [[-0.0], [0.0], [], [1.0, NAN], [1.0]], [[-0.0], [], [1.0, NAN], [1.0]]),
        ("CountByDistinct(x)", [[NAN], [-0.0], [NAN], [0.0]], [1, 2, 1]),
        # in larger expressions
        ("Sum(x) / Count()", [1, 2], 1.5),
        ("Collect(x)[0] + Last(x, 2)[1]", [1, 2, 3], 4),
        ("join(CollectDistinct(x), '+')", ["a", "b", "a"], "a+b"),
    ],
)  # fmt: skip
def test_result(call: str, values: list[Any], expected: Any):
    (found,) = over(call, values)
    assert equal(found, expected), found


def test_distinct_lists_of_a_sliding_window():
    """A17, also where values are counted one by one."""
    operator = {"window": "sliding, count(3)", "output": {"out": "CountDistinct(x)"}}
    lists = [[0.0], [-0.0], [NAN], [NAN], [0.0], [-0.0]]
    found = run_case({"operator": operator, "input": [{"at": 0.0, "tuple": {"x": x}} for x in lists]})
    assert [record["tuple"]["out"] for record in found if "tuple" in record] == [1, 1, 2, 3, 3, 2]


@pytest.mark.parametrize(
    ("call", "type_"),
    [
        *((f"{name}()", "int64") for name in ("Count", "CountAll", "CountGroups")),
        *((f"{name}(f)", "int64") for name in ("CountDistinct", "MinCount", "MaxCount")),
        ("CountByGroup()", "list<int64>"),
        ("CountByDistinct(f)", "list<int64>"),
    ],
)
def test_counts_are_int64(call: str, type_: str):
    """A13."""
    assert str(parse(call, Scope("group", {"f": FLOAT64})).type) == type_


@pytest.mark.parametrize("function", ["Sum", "Average", "Min", "Max"])
def test_lists_of_different_sizes_have_no_value(function: str):
    with pytest.raises(ValueError, match=r"event 1: output.out has no value, of \{'out': None\}"):
        over(f"{function}(x)", [[1, 2], [3]])


def test_a_dead_letter_of_lists_leaves_the_next_window_alone():
    operator = {"window": "tumbling, count(2)", "output": {"out": "Max(x)"}}
    lists = [[1], [2, 3], [4], [5]]
    events = [{"at": 0.0, "tuple": {"x": x}} for x in lists]
    found = run_case({"operator": operator, "input": events, "dead_letters": True})
    assert [record["after"] for record in found if "dead_letter" in record] == [1]
    assert [record["tuple"] for record in found if "tuple" in record] == [{"out": [5]}]


def test_companions_of_the_extreme():
    companions = ["a", "b", "a", "c", "b"]
    assert over("CollectArgMax(x, w)", [3, 1, 3, 3, 2], w=companions) == [["a", "c"]]
    assert over("CollectArgMin(x, w)", [NAN, 1.0, 1.0, NAN, 2.0], w=companions) == [["a"]]
    assert over("ArgMax(x, w)", ["y", "z", "x", "z", ""], w=companions) == ["b"]


# ---- constants are checked -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("Percentile(f, 1.5)", "a constant from 0 to 1 in Percentile(), got 1.5"),
        ("Percentile(f, f)", "Percentile(float64, a constant from 0 to 1)"),
        ("Collect(f, 0)", "a constant of at least 1"),
        ("regexContains(s, '(')", "a regular expression"),
        ("hour(timestamp(s), 'Europe/Berlim')", "a time zone"),
        ("hour(timestamp(s), '/etc/passwd')", "a time zone"),
        ("split(s, '')", "a constant that is not empty"),
    ],
)
def test_constants_are_checked(call: str, expected: str):
    with pytest.raises(ExpressionError) as error:
        parse(call, Scope("input", {"f": FLOAT64, "s": STRING}))
    assert expected in str(error.value)


# ---- Custom ----------------------------------------------------------------------------------------------------------

MODULE = "tests.spec.custom_classes"


def test_custom():
    assert over(f'Custom("{MODULE}:Range", x)', [3, 1, 2.5], "float64") == [2.0]
    assert over(f'Custom("{MODULE}:Longest", x, w) + 1', ["a", "abc", "ab"], w=[1, 2, 3]) == [3]
    assert over(f'Custom("{MODULE}:Tuples")', [5, 5]) == [[0, 1]]
    assert over(f'Custom("{MODULE}:Longest", string(x), x)', ["2013-01-01T00:00:00Z"], "timestamp") == [
        "2013-01-01T00:00:00Z"
    ]


def test_custom_sees_each_group_of_each_window_alone():
    operator = {
        "window": "sliding, count(3), count(2), partitioned", "partition_by": ["k"], "group_by": ["g"],
        "aggregate_incomplete_windows": True, "output": {"r": f'Custom("{MODULE}:Range", x)', "g": "Last(g)"},
    }  # fmt: skip
    rows = [("a", "u", 1.0), ("a", "v", 5.0), ("b", "u", 9.0), ("a", "u", 4.0), ("b", "u", 7.0), ("a", "u", 0.0)]
    events = [{"at": 0.0, "tuple": {"k": k, "g": g, "x": x}} for k, g, x in rows]
    found = run_case({"operator": operator, "input": events}, [2, 0, 1])
    assert [(r["tuple"]["g"], r["tuple"]["r"]) for r in found if "tuple" in r] == [
        ("u", 0.0), ("v", 0.0), ("u", 2.0), ("u", 4.0), ("v", 0.0),
    ]  # fmt: skip


@pytest.mark.parametrize("most", [3.5, 4.5, 5.5])
def test_custom_without_a_value(most: float, caplog: pytest.LogCaptureFixture):
    assert over(f'Custom("{MODULE}:Fails", x)', [1.5, 2.5]) == [2.5]
    with pytest.raises(ValueError, match="has no value"):
        over(f'Custom("{MODULE}:Fails", x)', [1.5, most])
    assert "Fails" in caplog.text or most == 4.5


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("Custom(f)", 'Custom("package.module:Class", ...)'),
        ("Custom('Range', f)", "package.module:Class"),
        ("Custom('no.such.module:Range', f)", "No module named 'no'"),
        (f"Custom('{MODULE}:not_a_class', f)", f"a class of the module {MODULE}"),
        (f"Custom('{MODULE}:NoSignature', f)", 'a signature such as "float64, int64 -> float64"'),
        (f"Custom('{MODULE}:NoResult', f)", "NoResult has no result"),
        (f"Custom('{MODULE}:WrongWord', f)", "'number -> float64'"),
        (f"Custom('{MODULE}:Unbound', f)", "'float64 -> any'"),
        (f"Custom('{MODULE}:WrongCount', f, f)", "methods that fit the signature float64, float64 -> float64"),
        (f"Custom('{MODULE}:NeedsArguments', f)", "missing a required argument: 'size'"),
        (f"Custom('{MODULE}:Range', s)", "Custom(float64), not Custom(string)"),
        (f"Custom('{MODULE}:Range', Sum(f))", "no aggregate function inside of Custom()"),
    ],
)
def test_custom_is_checked(call: str, expected: str):
    with pytest.raises(ExpressionError) as error:
        parse(call, Scope("input", {"f": FLOAT64, "s": STRING}))
    assert expected in str(error.value)


def test_custom_suggests_the_nearest_class():
    with pytest.raises(ExpressionError) as error:
        parse(f"Custom('{MODULE}:Rang', f)", Scope("input", {"f": FLOAT64}))
    assert error.value.faults[0].hint == "Range"


# ---- summaries out of order ------------------------------------------------------------------------------------------

PICKS = [
    summaries.Summary(summaries.OLDEST, 0), summaries.Summary(summaries.YOUNGEST, 0),
    summaries.Summary(summaries.LEAST, 0, 1), summaries.Summary(summaries.GREATEST, 0, 1),
    summaries.Summary(summaries.LEAST_REAL, 2, 1), summaries.Summary(summaries.GREATEST_REAL, 2, 1),
    summaries.Summary(summaries.LEAST_TEXT, 3, 1), summaries.Summary(summaries.GREATEST_REAL, 2, summaries.TIMES),
    summaries.Summary(summaries.SUM_INT, 0),
]  # fmt: skip


def test_by_arrival_the_order_of_combining_does_not_matter():
    """Every order of combining the same tuples gives what the order of their arrival gives."""
    strings = Interner()
    strings.intern(np.frombuffer(b"abb", np.uint8), np.array([0, 1, 3]))
    choose = np.random.default_rng(1)
    rows = np.zeros((6, 5), np.int64)
    rows[:, 0], rows[:, 1], rows[:, 3] = choose.integers(0, 2, 6), range(6), choose.integers(0, 2, 6)
    rows[:, 2] = choose.choice([NAN, 1.0, 2.0], 6).view(np.int64)
    rows[:, 4] = range(100, 106)
    layout, width = summaries.layout(PICKS, arrival=4)
    plain, plain_width = summaries.layout(PICKS)
    expected = folded(plain, plain_width, strings, rows, list(range(6)))
    for _ in range(50):
        found = folded(layout, width, strings, rows, choose.permutation(6).tolist())
        for with_arrival, without in zip(layout, plain, strict=True):
            words = 1 + (without["companion"] != summaries.NONE)
            a, b = with_arrival["word"], without["word"]
            assert found[a : a + words].tolist() == expected[b : b + words].tolist()


def folded(layout: summaries.Layout, width: int, strings: Interner, rows: np.ndarray, order: list[int]) -> np.ndarray:
    into = np.zeros((len(order), width), np.int64)
    for at, slot in enumerate(order):
        summaries.lift(layout, rows, slot, into, at)
    while len(into) > 1:  # neighbours first, then what came of them
        for at in range(0, len(into) - 1, 2):
            summaries.combine(layout, strings.text, into, at, into, at + 1, into, at)
        into = into[::2].copy()
    return into[0]
