"""The comparison is part of what a vector says: each rule of the section "Comparing", with a pair that breaks it."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.spec.comparing import differences, with_groups_in_any_order


def tuples(*rows: dict[str, Any], after: int = 0) -> list[dict[str, Any]]:
    return [{"after": after, "tuple": row} for row in rows]


MARK = {"after": 0, "punct": "window"}


@pytest.mark.parametrize(
    ("a", "b"),
    [(1, 1), (0.0, -0.0), (1.0, 1.0 + 1e-10), (1e20, 1e20 * (1 + 1e-10)), (math.nan, math.nan), (math.inf, math.inf),
     ("a", "a"), (True, True), ([1, 2], [1, 2])],
)  # fmt: skip
def test_equal_values(a: Any, b: Any):
    assert differences(tuples({"x": a}), tuples({"x": b}), {"operator": {}}) == []


@pytest.mark.parametrize(
    ("a", "b"),
    [(1, 1.0), (1, True), (1.0, 1.1), (math.inf, 1e308), (math.inf, -math.inf), (math.nan, 0.0), ("a", "b"),
     ([1], [1, 1]), ([1, 2], [2, 1])],
)  # fmt: skip
def test_different_values(a: Any, b: Any):
    assert len(differences(tuples({"x": a}), tuples({"x": b}), {"operator": {}})) == 1


@pytest.mark.parametrize(
    ("got", "expected", "free"),
    [
        (tuples({"x": 1}, {"x": 2}), tuples({"x": 2}, {"x": 1}), {"tuples": True}),
        (tuples({"d": [1, 2]}), tuples({"d": [2, 1]}), {"lists": ["d"]}),
        (tuples({"d": [1, 2], "n": [3, 4]}), tuples({"d": [2, 1], "n": [4, 3]}), {"paired_lists": [["d", "n"]]}),
        (
            [*tuples({"x": 1}), MARK, *tuples({"x": 2}), MARK],
            [*tuples({"x": 2}), MARK, *tuples({"x": 1}), MARK],
            {"batches": True},
        ),
    ],
)
def test_an_order_is_free_only_where_the_case_says_so(got: Any, expected: Any, free: dict[str, Any]):
    assert differences(got, expected, {"operator": {}, "unordered": free}) == []
    assert differences(got, expected, {"operator": {}}) != []


def test_counts_by_group_are_in_the_order_of_the_groups_which_is_free():
    """Also those of a part of the window."""
    output = {"all": "CountByGroup()", "some": "CountByGroup(where: v > 2)", "list": "Collect(v)"}
    assert with_groups_in_any_order({"operator": {"output": output}})["unordered"]["lists"] == ["all", "some"]


def test_pairs_stay_pairs():
    got, expected = tuples({"d": [1, 2], "n": [3, 4]}), tuples({"d": [1, 2], "n": [4, 3]})
    assert differences(got, expected, {"operator": {}, "unordered": {"paired_lists": [["d", "n"]]}}) != []


def test_batches_stay_together():
    got = [*tuples({"x": 1}, {"x": 2}), MARK, MARK]
    expected = [*tuples({"x": 1}), MARK, *tuples({"x": 2}), MARK]
    assert differences(got, expected, {"operator": {}, "unordered": {"batches": True, "tuples": True}}) != []


def test_marks_count_unless_only_tuples_are_compared():
    got, expected = [*tuples({"x": 1}), MARK], tuples({"x": 1})
    assert differences(got, expected, {"operator": {}}) != []
    assert differences(got, expected, {"operator": {"compare": "tuples"}}) == []
