"""Windows over event time give what the oracle gives, however the events are cut into batches."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from service.engine import clean
from service.engine.replay import replay
from service.testing import pipeline_of, run_case
from tests.engine import event_oracle
from tests.engine.comparing import differences
from tests.engine.event_strategies import cases
from tests.engine.strategies import Case, cuts


@pytest.fixture(autouse=True)
def tables_are_cleaned_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """What no window holds any more is forgotten at once, not only among thousands of keys."""
    monkeypatch.setattr(clean, "SMALL", 2)


def check(case: Case, *cuts: list[int]) -> None:
    """The order of groups is open in SPL (A8) and so in the oracle; but it must not depend on the cuts."""
    whole = run_case(case)
    expected, dropped = event_oracle.run(case)
    assert differences(whole, expected, case | {"unordered": {"tuples": True}}) == []
    assert dead_letters(case) == dropped
    for sizes in cuts:
        assert differences(run_case(case, sizes), whole, case) == [], f"cuts {sizes}"


def dead_letters(case: Case) -> list[int]:
    """The numbers of the events whose tuples became dead letters."""
    records = replay(pipeline_of(case), case["input"], clock_origin=0)
    return [record["after"] for record in records if "dead_letter" in record]


@given(cases(), cuts)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_random_windows_and_events(case: Case, batches: list[int]):
    check(case, [1] * len(case["input"]), batches)
