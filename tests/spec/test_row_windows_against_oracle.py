"""Aggregates over tables give what the oracle gives, however events are cut into batches and keys into states."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from sluice.model.engine_limits import LIMITS, EngineLimits
from tests.spec import row_windows_oracle, row_windows_strategies
from tests.spec.every_cut import CLEANED_EARLY, check_every_cut
from tests.spec.null_strategies import with_nulls
from tests.spec.strategies import Case, cuts
from tests.spec.test_split_and_merge import Division, check_case, divisions

pytestmark = pytest.mark.usefixtures("states_are_checked")


def check(case: Case, *cuts: list[int], limits: EngineLimits = CLEANED_EARLY) -> None:
    case = case | {"limits": limits}
    check_every_cut(case, row_windows_oracle.run(case), *cuts)


@given(row_windows_strategies.cases(), cuts)
@settings(max_examples=54, derandomize=True, deadline=None)
def test_random_aggregates_over_tables(case: Case, batches: list[int]):
    """A cut in front of each event, too; at each the state is saved and loaded."""
    check(case, [1] * len(case["input"]), batches, limits=replace(CLEANED_EARLY, listed=LIMITS.listed))


def with_a_key(case: Case) -> bool:
    """Whether no attribute of the table's key is optional: a row without a key is a dead letter (NU29)."""
    schema = case["operator"]["schema"]
    return not any(schema[name].endswith("?") for name in case["operator"]["table_key"])


@given(with_nulls(row_windows_strategies.cases()).filter(with_a_key), cuts)
@settings(max_examples=25, derandomize=True, deadline=None)
def test_rows_with_null(case: Case, batches: list[int]):
    check(case, [1] * len(case["input"]), batches)


@given(row_windows_strategies.cases(), divisions())
@settings(max_examples=27, derandomize=True, deadline=None)
def test_parts_of_windows_over_tables_that_go_on_apart(case: Case, division: Division):
    """Buckets, too: the parts get the changes of their keys."""
    check_case(case, division)


def test_a_group_without_rows_in_the_window_stays_for_the_row_that_comes_back():
    """Groups are compacted in between: row a is outside of the window, the only one of its group."""
    operator = {
        "kind": "aggregate", "window": "sliding, count(2), count(1)", "aggregate_incomplete_windows": True,
        "table_key": ["k"], "partition_by": [], "group_by": ["g"], "schema": {"k": "string", "g": "string"},
        "output": {"k": "First(k)", "g": "g"},
    }  # fmt: skip
    rows = [{"k": "a", "g": "x"}, {"k": "b", "g": "y"}, {"k": "c", "g": "y"}, {"k": "a", "g": "x"}]
    gone = ["unknown", "c", "b"]
    changes = [*({"tuple": row} for row in rows), *({"delete": {"k": key}} for key in gone)]
    case = {"operator": operator, "input": [{"at": float(at)} | change for at, change in enumerate(changes)]}
    check(case, [1] * len(changes))
