"""The engine treats null as the oracles do, for random operators and events, however the events are cut into batches.

The cases are those of the other strategies with optional attributes (null_strategies.py). The state is saved and loaded
at every cut, in front of each event, too.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.spec import (
    dedup_strategies,
    event_join_strategies,
    event_strategies,
    join_oracle,
    join_strategies,
    session_strategies,
    strategies,
    table_oracle,
    table_strategies,
    test_against_oracle,
    test_dedups_against_oracle,
    test_event_joins_against_oracle,
    test_joins_against_oracle,
    test_sessions_against_oracle,
)
from tests.spec.null_strategies import with_nulls
from tests.spec.storage_strategies import SMALL_BLOCKS, in_blocks, in_rings
from tests.spec.strategies import Case, cuts
from tests.spec.test_split_and_merge import Division, check_case, divisions
from tests.unit.engine.operators.aggregate import test_event_time_aggregate

pytestmark = pytest.mark.usefixtures("states_are_checked")


def each(case: Case) -> list[int]:
    return [1] * len(case["input"])


@given(with_nulls(strategies.cases()), cuts)
@settings(max_examples=30, derandomize=True, deadline=None)
def test_windows_by_the_clock(case: Case, batches: list[int]):
    test_against_oracle.check(case, each(case), batches)


@given(with_nulls(in_rings), cuts)
@settings(max_examples=12, derandomize=True, deadline=None)
def test_windows_in_rings(case: Case, batches: list[int]):
    test_against_oracle.check(case, each(case), batches)


@given(with_nulls(in_blocks), cuts)
@settings(max_examples=18, derandomize=True, deadline=None)
def test_windows_in_blocks(case: Case, batches: list[int]):
    test_against_oracle.check(case, each(case), batches, limits=SMALL_BLOCKS)


@given(with_nulls(event_strategies.cases), cuts)
@settings(max_examples=22, derandomize=True, deadline=None)
def test_windows_over_event_time(case: Case, batches: list[int]):
    test_event_time_aggregate.check(case, each(case), batches)


@given(with_nulls(session_strategies.cases), cuts)
@settings(max_examples=22, derandomize=True, deadline=None)
def test_sessions(case: Case, batches: list[int]):
    test_sessions_against_oracle.check(case, each(case), batches)


@given(with_nulls(dedup_strategies.cases), cuts)
@settings(max_examples=22, derandomize=True, deadline=None)
def test_dedups(case: Case, batches: list[int]):
    test_dedups_against_oracle.check(case, each(case), batches)


@given(with_nulls(join_strategies.join_cases()), cuts)
@settings(max_examples=22, derandomize=True, deadline=None)
def test_joins(case: Case, batches: list[int]):
    test_joins_against_oracle.check(case, each(case), batches, oracle=join_oracle.run_join)


@given(with_nulls(join_strategies.sort_cases()), cuts)
@settings(max_examples=27, derandomize=True, deadline=None)
def test_sorts(case: Case, batches: list[int]):
    test_joins_against_oracle.check(case, each(case), batches, oracle=join_oracle.run_sort)


@given(with_nulls(event_strategies.sort_cases), cuts)
@settings(max_examples=21, derandomize=True, deadline=None)
def test_sorts_over_event_time(case: Case, batches: list[int]):
    test_event_time_aggregate.check(case, each(case), batches)


@given(with_nulls(event_join_strategies.cases), cuts)
@settings(max_examples=22, derandomize=True, deadline=None)
def test_joins_over_event_time(case: Case, batches: list[int]):
    test_event_joins_against_oracle.check(case, each(case), batches)


@given(with_nulls(table_strategies.cases()), cuts)
@settings(max_examples=22, derandomize=True, deadline=None)
def test_joins_with_a_table(case: Case, batches: list[int]):
    test_joins_against_oracle.check(case, each(case), batches, oracle=table_oracle.run)


@given(with_nulls(strategies.cases()), divisions())
@settings(max_examples=21, derandomize=True, deadline=None)
def test_parts_of_a_pipeline_that_go_on_apart(case: Case, division: Division):
    check_case(case, division)


@given(with_nulls(dedup_strategies.cases), divisions())
@settings(max_examples=14, derandomize=True, deadline=None)
def test_parts_of_a_dedup_that_go_on_apart(case: Case, division: Division):
    check_case(case, division)


@given(with_nulls(event_join_strategies.cases), divisions())
@settings(max_examples=12, derandomize=True, deadline=None)
def test_parts_of_a_join_that_go_on_apart(case: Case, division: Division):
    check_case(case, division)
