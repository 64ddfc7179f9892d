"""Joins over event time give what the oracle gives, however events are cut into batches and keys into states."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from sluice.model.engine_limits import EngineLimits
from sluice.replayer.player import replay
from sluice.testing import on_stream, pipeline_of, run_case
from tests.spec import event_join_oracle, event_join_strategies
from tests.spec.comparing import differences
from tests.spec.strategies import Case, cuts
from tests.spec.test_joins_against_oracle import by_stream
from tests.spec.test_split_and_merge import Division, check_case, divisions

#: what no tuple needs is forgotten at once, and few pairs are evaluated at a time
SMALL = EngineLimits(uncompacted=2, candidates=4)


pytestmark = pytest.mark.usefixtures("states_are_checked")


def dead_letters(case: Case) -> list[int]:
    """The numbers of the events whose tuples became dead letters."""
    records = replay(pipeline_of(case), map(on_stream, case["input"]))
    return sorted(record["after"] for record in records if "dead_letter" in record)


def check(case: Case, *cuts: list[int], limits: EngineLimits = SMALL) -> None:
    expected, dropped = event_join_oracle.run(case)
    wanted = by_stream(expected)
    case = case | {"limits": limits}
    for sizes in (None, *cuts):
        got = by_stream(run_case(case, sizes))
        for stream in got.keys() | wanted.keys():
            assert differences(got.get(stream, []), wanted.get(stream, []), case) == [], f"{stream}, cuts {sizes}"
    assert dead_letters(case) == dropped


@given(event_join_strategies.interval_cases, cuts)
@settings(max_examples=22, derandomize=True, deadline=None)
def test_random_interval_joins(case: Case, batches: list[int]):
    """A cut in front of each event, too; at each the state is saved and loaded."""
    check(case, [1] * len(case["input"]), batches)


@given(event_join_strategies.as_of_cases, cuts)
@settings(max_examples=27, derandomize=True, deadline=None)
def test_random_as_of_joins(case: Case, batches: list[int]):
    check(case, [1] * len(case["input"]), batches)


@given(event_join_strategies.cases, divisions())
@settings(max_examples=21, derandomize=True, deadline=None)
def test_parts_of_a_join_that_go_on_apart(case: Case, division: Division):
    """Buckets, too: the parts get the tuples of their keys, and their outputs are merged as those of buckets."""
    check_case(case, division)
