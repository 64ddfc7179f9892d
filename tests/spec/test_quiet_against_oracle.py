"""Windows over streams whose watermark follows the clock while they are quiet give what the oracle gives, however the
events are cut into batches and the keys into states.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from sluice.model.engine_limits import EngineLimits
from tests.spec import quiet_oracle, quiet_strategies
from tests.spec.every_cut import CLEANED_EARLY, check_every_cut, dead_letters
from tests.spec.strategies import Case, cuts
from tests.spec.test_split_and_merge import Division, check_case, divisions

pytestmark = pytest.mark.usefixtures("states_are_checked")


def check(case: Case, *cuts: list[int], limits: EngineLimits = CLEANED_EARLY) -> None:
    case = case | {"limits": limits}
    expected, dropped = quiet_oracle.run(case)
    check_every_cut(case, expected, *cuts)
    assert sorted(dead_letters(case)) == dropped


@given(quiet_strategies.sliding_times, cuts)
@settings(max_examples=36, derandomize=True, deadline=None)
def test_sliding_times(case: Case, batches: list[int]):
    """With `emit: final` and with `emit: updates`. A cut in front of each event, too; at each the state is saved and
    loaded.
    """
    check(case, [1] * len(case["input"]), batches)


@given(quiet_strategies.panes, cuts)
@settings(max_examples=21, derandomize=True, deadline=None)
def test_panes(case: Case, batches: list[int]):
    check(case, [1] * len(case["input"]), batches)


@given(quiet_strategies.sessions, cuts)
@settings(max_examples=21, derandomize=True, deadline=None)
def test_sessions(case: Case, batches: list[int]):
    check(case, [1] * len(case["input"]), batches)


@given(quiet_strategies.early_results, cuts)
@settings(max_examples=36, derandomize=True, deadline=None)
def test_early_results(case: Case, batches: list[int]):
    """Early results that are due when a watermark of the clock closes windows (F5)."""
    check(case, [1] * len(case["input"]), batches)


@given(quiet_strategies.cases, divisions())
@settings(max_examples=30, derandomize=True, deadline=None)
def test_states_that_are_split_and_merged(case: Case, division: Division):
    check_case(case, division)
