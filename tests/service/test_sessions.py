"""Sessions through Kafka and Spark: over event time, and over the clock on a quiet stream."""

from __future__ import annotations

import time

import pytest

from tests.service.events_as_records import ORIGIN, record, replayed

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PIPELINE = """
streams:
  in: {{schema: {{key: string, number: int64, ts: timestamp}}{event_time}}}
  out: {{watermarks: {watermarks}}}
  dead: {{}}
operators:
  - name: sessions
    aggregate: in
    window: {window}
    partition_by: [key]
    output: {{out: {{key: key, from: sessionStart(), ts: sessionEnd(), all: Collect(number)}}}}
dead_letters: dead
clock: {clock}
buckets: {buckets}
max_records_per_batch: {most}
"""


def row(at, key, number, seconds, source=0):
    return {"at": at, "tuple": {"key": key, "number": number, "ts": seconds}, "topic_partition": source}


def watermark(at, seconds, source=0):
    return {"at": at, "watermark": seconds, "topic_partition": source}


#: one watermark is behind several sessions of several keys; one session is made of two, and one tuple is late
EVENTS = [
    row(0, "a", 1, 101), row(0.1, "b", 2, 105), row(0.2, "c", 3, 118), row(1, "a", 4, 111.5), row(1.1, "a", 5, 106),
    watermark(1.5, 109.9), row(2, "d", 6, 109.95), row(2.1, "d", 7, 103), watermark(3, 125), row(3.2, "b", 8, 109),
    row(3.5, "c", 9, 131), row(3.6, "a", 10, 142), row(3.7, "b", 11, 136), watermark(4, 160), watermark(5, 100),
    row(6, "e", 12, 165), {"at": 7, "punct": "window"}, watermark(8, 1e300), {"at": 9, "punct": "final"},
]  # fmt: skip


@pytest.mark.parametrize(("buckets", "most"), [(1, 1000), (3, 4)])
def test_sessions_of_event_time_are_those_of_replay(service, buckets, most):
    service.create("in")
    text = PIPELINE.format(
        event_time=", event_time: ts", window="session, inactivityGap(6), grace(2)", clock="records", buckets=buckets,
        most=most, watermarks="true",
    )  # fmt: skip
    pipeline = service.pipeline(text)
    service.send("in", [record(event, ORIGIN) for event in EVENTS])
    service.run(pipeline)
    expected = replayed(pipeline, EVENTS)
    assert service.outputs("out") == expected["out"]
    contents = [made["tuple"]["all"] for made in expected["out"] if "tuple" in made]
    assert contents[:4] == [[7], [2], [6], [1, 4, 5]], "by the time at which each was over"
    assert len(service.read("dead")) == len(expected[""]) == 1


def test_a_session_of_the_clock_comes_out_on_a_quiet_stream(service):
    """Nothing comes behind the tuples; the machine's time closes the sessions."""
    service.create("in", partitions=2)
    text = PIPELINE.format(
        event_time="", window="session, inactivityGap(1.0)", clock="processing", buckets=2, most=1000,
        watermarks="false",
    )  # fmt: skip
    pipeline = service.pipeline(text)
    now = int(time.time() * 1000)
    events = [row(0, "a", 1, 0), row(0.3, "b", 2, 0), row(1.0, "a", 3, 0)]
    service.send("in", [record(event, now) for event in events])
    service.run(pipeline, until=lambda: len(service.read("out")) >= 4)
    found = [made["tuple"] for made in service.outputs("out") if "tuple" in made]
    assert [(made["key"], made["all"]) for made in found] == [("b", [2]), ("a", [1, 3])]
    assert [round(made["ts"] - made["from"], 3) for made in found] == [0.0, 1.0]
