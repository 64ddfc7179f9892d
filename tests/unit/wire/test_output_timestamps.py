"""The timestamps of the records of an output."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from sluice.columns.arrow_types import arrow_schema
from sluice.model.spec import EventTime, Stream
from sluice.model.types import INT64, TIMESTAMP
from sluice.wire.output_timestamps import UNUSABLE, not_later, of_attribute, of_clock

S, MS = 1_000_000_000, 1_000_000
TIMES = Stream("out", (("until", TIMESTAMP),), topic="out", record_timestamp="until")
NUMBERS = Stream("out", (("until", INT64),), topic="out", record_timestamp="until")


def stamps(stream: Stream, *values: int) -> list[int]:
    columns = [pa.array(values, pa.int64()).cast(arrow_schema(stream.schema).types[0])]
    found: list[int] = of_attribute(stream, pa.record_batch(columns, arrow_schema(stream.schema))).tolist()
    return found


@pytest.mark.parametrize(
    ("value", "stamp"),
    [
        (1_357_000_000_123 * MS, 1_357_000_000_123),
        (MS + 999_999, 1),
        (MS, 1),
        (MS - 1, UNUSABLE),
        (0, UNUSABLE),
        (-1, UNUSABLE),
        (-(2**63), UNUSABLE),
        (2**63 - 1, (2**63 - 1) // MS),
    ],
)
def test_a_timestamp_is_rounded_down_to_milliseconds_after_1970(value, stamp):
    assert stamps(TIMES, value) == [stamp]


def test_an_int64_has_milliseconds():
    assert stamps(NUMBERS, 1_357_000_000_123, 1, 0, -5) == [1_357_000_000_123, 1, UNUSABLE, UNUSABLE]


@pytest.mark.parametrize(
    ("tick", "value"), [(MS, 1_357_000_000_123), (1000, 1_357_000_000_123_999), (1, 1_357_000_000_123_999_999)]
)
def test_an_int64_that_is_the_event_time_has_its_resolution(tick, value):
    timed = replace(NUMBERS, event_time=EventTime("until", tick=tick))
    assert stamps(timed, value) == [1_357_000_000_123]
    assert stamps(replace(timed, event_time=EventTime("other", tick=tick)), value) == [value]


def test_a_time_too_far_ahead_of_the_clock_is_unusable():
    at = np.array([10 * S, 10 * S, 10 * S, 2**63 - 1])
    found = not_later(np.array([9_000, 15_000, 15_001, 2**53]), at, 5 * S)
    assert found.tolist() == [9_000, 15_000, UNUSABLE, UNUSABLE]
    assert not_later(np.array([UNUSABLE]), at[:1], 5 * S).tolist() == [UNUSABLE]


def test_the_operator_clock_is_rounded_up_and_never_0():
    """The client replaces the timestamp 0 by the present time, so that a repeated batch would differ."""
    assert of_clock(np.array([MS, MS + 1, 0, -S])).tolist() == [1, 2, 1, 1]
