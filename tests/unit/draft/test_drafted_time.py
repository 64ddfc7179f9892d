"""When a draft has an event time, and what its lag and its panes are."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from sluice.config.load import load_text
from sluice.draft.draft_pipeline import Traits, draft
from sluice.draft.sampled_records import Sampled, sample

SECOND = 1_700_000_000


def drafted(times, *, name="time", places=None, at=None, traits=None, key=None):
    """The draft for records with these times. `places` has the topic partition of each, `at` its timestamp."""
    places, at = places or [0] * len(times), at or [None] * len(times)
    records = [
        Sampled(json.dumps({"v": 1.5 * n, **({} if time is None else {name: time})}).encode(), key, (), place, sent)
        for n, (time, place, sent) in enumerate(zip(times, places, at, strict=True))
    ]
    text = draft("t", sample("t", records, {}), "t.yaml", {}, {}, traits=traits or Traits())
    load_text(text, "t.yaml", environment=None)
    return text


def steps(*seconds):
    return [1000 * (SECOND + second) for second in seconds]


@pytest.mark.parametrize(
    ("times", "lag", "order"),
    [
        (steps(*range(12)), "10s", "the records are in order"),
        (steps(0, 9, 4, 20), "10s", "the records are up to 5 s out of order"),
        (steps(0, 9, 3, 20), "1m", "the records are up to 6 s out of order"),
        (steps(3600, 0, 4000), "6h", "the records are up to 3600 s out of order"),
        (["2024-01-01T10:00:00Z", "2024-01-01T09:59:58Z"], "10s", "the records are up to 2 s out of order"),
        (["31/01/2024 10:00:00", "31/01/2024 09:59:58"], "10s", "the records are up to 2 s out of order"),
    ],
    ids=["in order", "five seconds", "six seconds", "an hour", "texts", "a pattern"],
)
def test_the_lag_is_at_least_twice_the_disorder(times, lag, order):
    text = drafted(times)
    assert f"    event_time: {{attribute: time, lag: {lag}}} " in text
    assert f"# {order}; each_" in text
    assert f" waits {lag} for earlier ones" in text


def test_the_order_is_that_of_a_topic_partition():
    times, places = steps(0, 900, 1, 901), [0, 1, 0, 1]
    assert "lag: 10s} # the records are in order" in drafted(times, places=places)


@pytest.mark.parametrize(
    ("times", "more", "reason"),
    [
        ([*steps(1, 2), None], {}, "some records lack it"),
        (steps(5, 5, 5), {}, "it is always the same"),
        (steps(1, 2), {"name": "updated_at"}, "its name may be that of another time"),
        (steps(1, 7200), {"at": [SECOND, SECOND + 10]}, "it is later than the timestamp of the record"),
        (steps(40_000, 0), {}, "the records are hours out of order"),
        (steps(1, 2), {"traits": Traits(compacted=True)}, "the records are rows of a table"),
    ],
)
def test_a_time_that_is_not_clear_is_only_suggested_with_the_reason(times, more, reason):
    text = drafted(times, **more)
    name = more.get("name", "time")
    assert f"# time: {name}, only suggested as event time: {reason}" in text
    assert f"    # event_time: {{attribute: {name}, lag: 10s}}" in text
    assert "each_minute" not in text


def test_times_of_a_test_that_are_not_those_of_the_broker_do_not_matter():
    assert "    event_time:" in drafted(steps(1, 2), at=[3.0, 4.0])


@pytest.mark.parametrize(
    ("times", "operator", "window"),
    [
        (steps(*range(0, 100, 10)), "each_minute", "intervalDuration(1m)"),
        (steps(*range(0, 6000, 60)), "each_ten_minutes", "intervalDuration(10m)"),
        (steps(*range(0, 90_000, 600)), "each_hour", "intervalDuration(1h)"),
        (steps(*range(0, 900_000, 6000)), "each_day", "intervalDuration(1d)"),
        (steps(*range(0, 1800, 600)), "each_minute", "intervalDuration(1m)"),
    ],
    ids=["seconds", "minutes", "ten minutes", "hours", "the sample is too short for longer ones"],
)
def test_a_pane_has_ten_tuples_and_the_sample_several_panes(times, operator, window):
    text = drafted(times)
    assert f"  - name: {operator}" in text
    assert window in text


def test_a_topic_partition_without_records_does_not_hold_the_windows_back():
    assert "lag: 10s, idle_after: 1m}" in drafted(steps(1, 2), traits=Traits(quiet=True))


@pytest.mark.parametrize(
    ("record", "time"),
    [
        (lambda n: {"created": iso(9_000 * (n % 2)), "updated_at": iso(n)}, "created"),
        (lambda n: {"created_at": iso(90_000 * (n % 2)), "updated_at": iso(n)}, "updated_at"),
        (lambda n: {"created": iso(n - 500), "timestamp": iso(n)}, "timestamp"),
        (lambda n: {"time": 1_700_000_000 + n, "timestamp": (1_700_000_000 + n) * 10**6}, "timestamp"),
        (lambda n: {"time": (1_700_000_000 + n) * 1000, "timestamp": (1_700_000_000 + n) * 10**6}, "time"),
    ],
    ids=["some disorder", "a day of disorder", "no creation", "finer than seconds", "milliseconds are fine enough"],
)  # fmt: skip
def test_the_event_time_is_the_time_that_is_most_likely_the_event(record, time):
    text = draft("events", sample("events", [Sampled(json.dumps(record(n)).encode(), None) for n in range(12)], {}),
                 "f.yaml", {}, {})  # fmt: skip
    assert f"event_time: {{attribute: {time}, " in text


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(1_700_000_000 + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_a_change_of_a_snapshot_without_a_time_has_that_of_the_connector():
    events = [
        {
            "before": None,
            "after": {"id": n, "x": 1.5},
            "op": "r",
            "ts_ms": 1_700_000_000_000 + n,
            "source": {"ts_ms": 0},
        }
        for n in range(8)
    ]
    text = draft("rows", sample("rows", [Sampled(json.dumps(event).encode(), None) for event in events], {}),
                 "f.yaml", {}, {})  # fmt: skip
    assert "changed: ts_ms" in text
