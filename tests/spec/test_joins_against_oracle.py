"""Joins and sorts give what the oracle gives, for random operators and events, however these are cut into batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings

from sluice.model.engine_limits import EngineLimits
from sluice.testing import run_case
from tests.spec.comparing import differences
from tests.spec.conformance_vectors import all_cases, supported
from tests.spec.join_oracle import Record, run_join, run_sort
from tests.spec.join_strategies import join_cases, outer_cases, sort_cases
from tests.spec.strategies import Case, cuts

pytestmark = pytest.mark.usefixtures("states_are_checked")


#: what no window holds is forgotten at once, and a join evaluates a few pairs at a time
SMALL = EngineLimits(uncompacted=2, candidates=4)


def by_stream(records: list[Record]) -> dict[str, list[Record]]:
    streams: dict[str, list[Record]] = {}
    for record in records:
        rest = {key: value for key, value in record.items() if key != "stream"}
        streams.setdefault(record.get("stream", "output"), []).append(rest)
    return streams


def check(case: Case, *cuts: list[int], oracle: Callable[[Case], list[Record]], limits: EngineLimits = SMALL) -> None:
    expected = by_stream(oracle(case))
    case = case | {"limits": limits}
    for sizes in (None, *cuts):
        got = by_stream(run_case(case, sizes))
        for stream in got.keys() | expected.keys():
            found = differences(got.get(stream, []), expected.get(stream, []), case)
            assert found == [], f"{stream}, cuts {sizes}"


@given(join_cases(), cuts)
@settings(max_examples=30, derandomize=True)
def test_random_joins(case: Case, batches: list[int]):
    check(case, [1] * len(case["input"]), batches, oracle=run_join)


@given(outer_cases(), cuts)
@settings(max_examples=21, derandomize=True)
def test_tuples_that_leave_an_outer_join_at_one_moment(case: Case, batches: list[int]):
    check(case, [1] * len(case["input"]), batches, oracle=run_join)


@given(sort_cases(), cuts)
@settings(max_examples=42, derandomize=True)
def test_random_sorts(case: Case, batches: list[int]):
    check(case, [1] * len(case["input"]), batches, oracle=run_sort)


VECTORS = [(case, {"join": run_join, "sort": run_sort}.get(case["operator"]["kind"])) for case in all_cases()]


@pytest.mark.parametrize(
    ("case", "oracle"), [pytest.param(c, o, id=c["name"]) for c, o in VECTORS if o is not None and supported(c)]
)
def test_the_oracle_gives_the_conformance_vectors(case: Case, oracle: Any):
    records = by_stream(oracle(case)).get("output", [])
    assert differences(records, case["output"], case) == []
