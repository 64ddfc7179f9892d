"""Event times of all keys move one watermark: with any number of buckets the outputs are those of one (ET1 to ET4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.model.spec import Pipeline
from sluice.model.spreading import spread_by
from sluice.testing import on_stream, pipeline_of
from sluice.time_units import SECOND
from tests.service.test_spread import by_stream, records_with, with_marks
from tests.spec import (
    dedup_strategies,
    early_strategies,
    event_join_strategies,
    event_strategies,
    session_strategies,
)
from tests.spec.strategies import Case

MILLISECOND = SECOND // 1000


@st.composite
def computed(draw: st.DrawFn) -> dict[str, Any]:
    """How the watermarks of an input are computed, beside its attribute."""
    lag = draw(st.sampled_from([None, 0, 0, 500, 2_000]))
    idle_after = draw(st.sampled_from([None, None, 1, 1_500, 4_000])) if lag is not None else 1_500
    found = {
        "lag": lag, "minimum_gap": draw(st.sampled_from([0, 0, 100, 2_000])), "idle_after": idle_after,
        "max_future": draw(st.sampled_from([None, None, None, 3_000])),
    }  # fmt: skip
    nanoseconds = {name: None if value is None else value * MILLISECOND for name, value in found.items()}
    return nanoseconds | {"advance": lag is not None and idle_after is not None and draw(st.booleans())}


def with_computed(pipeline: Pipeline, **of: Any) -> Pipeline:
    inputs = {s.name: replace(s, event_time=replace(s.event_time, **of)) for s in pipeline.inputs if s.event_time}
    return replace(pipeline, streams={**pipeline.streams, **inputs})


def check(pipeline: Pipeline, given_events: list[dict[str, Any]], size: int, *, spread: bool | None = True) -> None:
    """`spread`: whether several buckets are possible; None: it does not matter."""
    assert spread is None or (spread_by(pipeline) is not None) == spread
    for marks in ("record", "header"):
        one = with_marks(pipeline, marks)
        whole = records_with(1, one, given_events, size)
        for buckets in (2, 3, 5) if spread_by(one) is not None else ():
            assert records_with(buckets, one, given_events, size) == whole, f"{buckets} buckets, marks: {marks}"
    assert by_stream(one, whole) == by_stream(one, records_with(1, one, given_events, len(given_events) or 1))


sizes = st.sampled_from([1, 2, 5, 100])
KINDS = {
    "event time": event_strategies.cases,
    "sort": event_strategies.sort_cases,
    "session": session_strategies.cases,
    "early": early_strategies.cases,
    "dedup": dedup_strategies.cases,
    "interval join": event_join_strategies.interval_cases,
    "as-of join": event_join_strategies.as_of_cases,
}
SLOW = [HealthCheck.filter_too_much, HealthCheck.too_slow]


def timed(case: Case, of: dict[str, Any]) -> Iterator[Pipeline]:
    """The pipeline of the case, if an input has an event time."""
    pipeline = pipeline_of(case)
    if any(stream.event_time is not None for stream in pipeline.inputs):
        yield with_computed(pipeline, **of)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), of=computed(), size=sizes)
@settings(max_examples=15, derandomize=True, deadline=None, suppress_health_check=SLOW)
def test_any_operator_over_event_time(kind: str, data: st.DataObject, of: dict[str, Any], size: int):
    case = data.draw(KINDS[kind])
    for pipeline in timed(case, of):
        check(pipeline, list(map(on_stream, case["input"])), size, spread=None)
