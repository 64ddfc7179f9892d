"""Joins with a table give what the oracle gives, however events are cut into batches and keys into states."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from sluice.model.spreading import spread_by
from sluice.testing import pipeline_of
from tests.spec import table_oracle, table_strategies
from tests.spec.strategies import Case, cuts
from tests.spec.test_joins_against_oracle import check
from tests.spec.test_split_and_merge import Division, check_case, divisions

pytestmark = pytest.mark.usefixtures("states_are_checked")


@given(table_strategies.cases(), cuts)
@settings(max_examples=25, derandomize=True, deadline=None)
def test_random_joins_with_a_table(case: Case, batches: list[int]):
    """A cut in front of each event, too; at each the state is saved and loaded."""
    check(case, [1] * len(case["input"]), batches, oracle=table_oracle.run)


@given(table_strategies.cases(), divisions())
@settings(max_examples=21, derandomize=True, deadline=None)
def test_parts_of_a_table_that_go_on_apart(case: Case, division: Division):
    """Buckets, too: the parts get the rows, deletions and tuples of their keys."""
    assert spread_by(pipeline_of(case)) is not None
    check_case(case, division)
