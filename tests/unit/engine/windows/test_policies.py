"""The rows that the kernels have for the policies of windows."""

from __future__ import annotations

import pytest

from sluice.engine.windows.policies import COUNT, DELTA, LEAVING, NOTHING, REASONS, ROWS, KernelClause, clause
from sluice.model.spec import Count, Delta, PartitionCount, Punct, Sliding, Time, TimeInterval, Tumbling, Window
from sluice.model.types import INT64
from sluice.model.windows.policies.partition_policies import PARTITION_EVICTIONS
from sluice.model.windows.policies.policy_table import POLICIES
from sluice.time_units import SECOND

COLUMNS = {"i": (3, INT64)}


def test_every_policy_has_a_row_and_a_number_of_its_own():
    assert [*ROWS] == [*POLICIES.values()]
    assert [*LEAVING] == [*PARTITION_EVICTIONS.values()]
    assert sorted(REASONS) == list(range(len(POLICIES) + 4))


def test_a_window_with_sized_parts_has_a_clause_in_which_nothing_leaves_or_fires():
    assert clause(TimeInterval(SECOND, SECOND), {}) == KernelClause()


@pytest.mark.parametrize(
    ("window", "differing"),
    [
        (Tumbling(Count(5)), {"most": 5}),
        (Tumbling(Time(SECOND)), {"period": SECOND}),
        (Tumbling(Punct()), {"marked": True}),
        (Tumbling(Count(5), others=(Punct(), Time(7))), {"most": 5, "marked": True, "period": 7}),
        (Sliding(Count(5)), {"sliding": True, "chained": True, "full": 5}),
        (Sliding(Time(7)), {"sliding": True, "chained": True, "expiring": True}),
        (Sliding(Delta("i", 2)), {"sliding": True, "chained": True, "several": True, "by_value": True}),
        (Tumbling(Punct(), partitioned=True, partition_eviction=PartitionCount(4)),
         {"marked": True, "partitioned": True}),
    ],
)  # fmt: skip
def test_a_clause_says_how_tuples_leave(window: Window, differing: dict[str, object]):
    found = clause(window, COLUMNS)._replace(eviction=NOTHING, trigger=NOTHING)
    assert found == KernelClause(**differing)._replace(leaving=found.leaving)  # type: ignore[arg-type]


def test_the_policy_that_compares_tuples_is_the_eviction_of_a_tumbling_window_with_several():
    found = clause(Tumbling(Count(5), others=(Delta("i", 2),)), COLUMNS)
    assert (found.eviction.kind, found.eviction.column, found.eviction.size, found.most) == (DELTA, 3, 2, 5)


def test_a_trigger_has_its_kind_and_size():
    assert clause(Sliding(Delta("i", 2), Count(3)), COLUMNS).trigger == NOTHING._replace(kind=COUNT, size=3)
