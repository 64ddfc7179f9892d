"""Early results through Kafka and Spark: those of `replay`, in any number of buckets, and on a quiet stream."""

from __future__ import annotations

import time

import pytest

from tests.service.events_as_records import ORIGIN, record, replayed

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PIPELINE = """
streams:
  in: {{schema: {{key: string, number: int64, ts: timestamp}}{event_time}}}
  out: {{}}
operators:
  - name: sums
    aggregate: in
    window: {window}
    partition_by: [key]
    early: {early}
    output: {{out: {{key: key, early: isEarly(), all: Collect(number)}}}}
clock: {clock}
buckets: {buckets}
max_records_per_batch: {most}
"""


def row(at, key, number, seconds):
    return {"at": at, "tuple": {"key": key, "number": number, "ts": seconds}}


EVENTS = [
    row(0, "a", 1, 101), row(0, "b", 2, 102), row(0, "c", 3, 118), row(1, "a", 4, 111), row(1.5, "b", 5, 106),
    row(2, "c", 6, 109), row(2, "a", 7, 103), {"at": 3, "watermark": 110}, row(4, "b", 8, 112), row(4, "d", 9, 113),
    row(4, "c", 10, 119), {"at": 8}, row(8, "a", 11, 118), {"at": 9, "watermark": 125}, {"at": 20},
]  # fmt: skip


@pytest.mark.parametrize(("buckets", "most"), [(1, 1000), (3, 4)])
@pytest.mark.parametrize(
    ("window", "event_time"),
    [
        ("tumbling, count(3) or time(6), partitioned", ""),
        ("timeInterval, intervalDuration(10), partitioned", ", event_time: ts"),
        ("session, inactivityGap(4)", ", event_time: ts"),
    ],
    ids=["tumbling", "panes", "sessions"],
)
def test_early_results_are_those_of_replay(service, window, event_time, buckets, most):
    service.create("in")
    text = PIPELINE.format(
        window=window, event_time=event_time, early="time(2) or count(2)", clock="records", buckets=buckets, most=most
    )
    pipeline = service.pipeline(text)
    service.send("in", [record(event, ORIGIN) for event in EVENTS])
    service.run(pipeline)
    expected = replayed(pipeline, EVENTS)["out"]
    assert service.outputs("out") == expected
    assert len([made for made in expected if made.get("tuple", {}).get("early")]) >= 4


def test_early_results_of_a_quiet_stream(service):
    """Nothing comes behind the tuples; the machine's time makes the early results of windows that are not full."""
    service.create("in", partitions=2)
    text = PIPELINE.format(
        window="tumbling, count(9), partitioned", event_time="", early="time(1)", clock="processing", buckets=2,
        most=1000,
    )  # fmt: skip
    pipeline = service.pipeline(text)
    now = int(time.time() * 1000)
    service.send("in", [record(event, now) for event in (row(0, "a", 1, 0), row(0.3, "b", 2, 0), row(0.6, "a", 3, 0))])
    service.run(pipeline, until=lambda: len(service.read("out")) >= 2)
    assert service.outputs("out") == [
        {"tuple": {"key": "a", "early": True, "all": [1, 3]}}, {"tuple": {"key": "b", "early": True, "all": [2]}},
    ]  # fmt: skip
