"""Event time through Kafka and Spark: watermarks come as marks or from the tuples, and leave as marks."""

from __future__ import annotations

import json
import time

import pytest

from tests.service.events_as_records import ORIGIN, record, replayed

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PIPELINE = """
streams:
  in: {{schema: {{key: string, number: int64, ts: timestamp}}, event_time: {event_time}}}
  out: {{watermarks: true}}
  dead: {{}}
operators:
  - name: panes
    aggregate: in
    window: {window}
    partition_by: [key]
    output: {{out: {{key: key, ts: intervalEnd(), all: Collect(number)}}}}
dead_letters: dead
clock: {clock}
buckets: {buckets}
max_records_per_batch: {most}
"""


def text(
    window="timeInterval, intervalDuration(10), partitioned", event_time="ts", clock="records", buckets=1, most=1000
):
    return PIPELINE.format(window=window, event_time=event_time, clock=clock, buckets=buckets, most=most)


def row(at, key, number, seconds, source=0):
    return {"at": at, "tuple": {"key": key, "number": number, "ts": seconds}, "topic_partition": source}


def watermark(at, seconds, source=0):
    return {"at": at, "watermark": seconds, "topic_partition": source}


EVENTS = [
    row(0, "a", 1, 101), row(0.1, "b", 2, 105), row(0.2, "c", 3, 118), row(1, "a", 4, 111.5), watermark(1.5, 109.9),
    row(2, "d", 5, 109.95), row(2.1, "d", 6, 109), watermark(3, 125), row(3.2, "b", 7, 109), row(3.5, "c", 8, 131),
    row(3.6, "a", 9, 142), watermark(4, "1970-01-01T00:02:25Z"), watermark(5, 100), row(6, "e", 10, 155),
    {"at": 7, "punct": "window"}, watermark(8, 1e300), {"at": 9, "punct": "final"},
]  # fmt: skip


def play(service, pipeline, events, origin=ORIGIN):
    service.send("in", [record(event, origin) for event in events])
    service.run(pipeline)


@pytest.mark.parametrize(("buckets", "most"), [(1, 1000), (3, 4)])
@pytest.mark.parametrize(
    "window",
    ["timeInterval, intervalDuration(10), creationPeriod(5), partitioned", "slidingTime, timeDifference(10), grace(2)"],
)
def test_outputs_and_watermarks_are_those_of_replay(service, window, buckets, most):
    service.create("in")
    pipeline = service.pipeline(text(window, buckets=buckets, most=most))
    play(service, pipeline, EVENTS)
    expected = replayed(pipeline, EVENTS)
    assert service.outputs("out") == expected["out"]
    assert len(service.read("dead")) == len(expected[""])


def test_a_late_tuple_is_a_dead_letter_that_says_how_late_and_where_it_is(service):
    service.create("in", partitions=2)
    pipeline = service.pipeline(text(buckets=2))
    events = [row(0, "a", 1, 101, 1), watermark(1, 110, 0), watermark(2, 110, 1), row(3, "b", 2, 107.5, 1)]
    play(service, pipeline, events)
    (letter,) = service.read("dead")
    headers = {name: value.decode() for name, value in letter.headers()}
    assert json.loads(letter.value())["number"] == 2
    assert headers["sluice-reason"] == "late: operator panes: ts is 2.5 s before the watermark less discardAge"
    assert (headers["sluice-stream"], headers["sluice-partition"], headers["sluice-offset"]) == ("in", "1", "2")


def test_the_watermark_is_the_least_of_the_topic_partitions(service):
    service.create("in", partitions=2)
    pipeline = service.pipeline(text(buckets=2))
    events = [row(0, "a", 1, 101, 1), watermark(1, 130, 0), watermark(2, 112, 1), watermark(3, 140, 1)]
    play(service, pipeline, events)
    assert service.outputs("out") == [
        {"tuple": {"key": "a", "ts": "1970-01-01T00:01:50Z", "all": [1]}},
        {"punct": "window"},
        {"watermark": "1970-01-01T00:01:52Z"},
        {"watermark": "1970-01-01T00:02:10Z"},
    ]


BEHIND = """
  - name: behind
    aggregate: {input}
    window: timeInterval, intervalDuration(20)
    output: {{behind: {{until: intervalEnd(), count: Count(), runs: CountDistinct(key)}}}}
"""


def test_another_service_reads_the_watermarks_which_are_in_every_topic_partition(service, downstream):
    """As if both windows were in one pipeline."""
    service.create("in")
    service.create("out", partitions=3)
    first = service.pipeline(text(buckets=2))
    play(service, first, EVENTS)
    schema = "schema: {key: string, ts: timestamp, all: list<int64>}, event_time: ts"
    second = f"streams: {{out: {{topic: {service.topic('out')}, {schema}}}, behind: {{}}}}\noperators:"
    both = text().replace("dead_letters:", f"{BEHIND.format(input='out')[1:]}dead_letters:", 1)
    expected = replayed(service.pipeline(both.replace("  dead: {}", "  dead: {}\n  behind: {}")), EVENTS)["behind"]
    assert len(expected) > 3
    behind = downstream.pipeline(f"{second}{BEHIND.format(input='out')}clock: records")
    downstream.run(behind, until=lambda: {"punct": "final"} in downstream.outputs("behind"))
    assert downstream.outputs("behind") == expected


def test_a_silent_topic_partition_holds_back_nothing_once_it_is_idle(service):
    """The idle clock advances the time; no record comes."""
    service.create("in", partitions=2)
    pipeline = service.pipeline(text(event_time="{attribute: ts, idle_after: 3}", clock="processing"))
    now = int(time.time() * 1000)
    play(service, pipeline, [row(0, "a", 1, 101), watermark(0, 112)], now)
    service.run(pipeline, until=lambda: len(service.read("out")) >= 3)
    assert service.outputs("out")[0] == {"tuple": {"key": "a", "ts": "1970-01-01T00:01:50Z", "all": [1]}}


@pytest.mark.parametrize("buckets", [1, 2])
def test_watermarks_are_made_from_the_tuples(service, buckets):
    service.create("in")
    event_time = "{attribute: ts, lag: 5, minimum_gap: 2, max_future: 60}"
    pipeline = service.pipeline(text(event_time=event_time, buckets=buckets, most=3))
    origin = 1_000_000
    events = [
        row(n, "abc"[n % 3], n, 1000 + after) for n, after in enumerate([0, 3, 1, 7, 12, 11, 4, 200, 19, 21, 29, 45])
    ]
    play(service, pipeline, events, origin)
    expected = replayed(pipeline, events, origin)
    assert service.outputs("out") == expected["out"]
    reasons = [dict(letter.headers())["sluice-reason"].decode() for letter in service.read("dead")]
    assert reasons == [
        "late: operator panes: ts is 3 s before the watermark less discardAge",
        "too far ahead: operator in: ts is more than 60 s ahead of the clock",
    ]


ROLLUP = """
streams:
  in: {schema: {key: string, number: int64, ts: int64}, event_time: {attribute: ts, lag: 0}}
  tens: {}
  thirties: {}
  minutes: {}
  dead: {}
operators:
  - name: tens
    aggregate: in
    window: timeInterval, intervalDuration(10)
    output: {tens: {ts: intervalLast(), number: Sum(number)}}
  - name: thirties
    aggregate: tens
    window: timeInterval, intervalDuration(30)
    output: {thirties: {ts: intervalLast(), number: Sum(number)}}
  - name: minutes
    aggregate: thirties
    window: timeInterval, intervalDuration(60)
    output: {minutes: {ts: intervalLast(), number: Sum(number)}}
dead_letters: dead
clock: records
max_records_per_batch: 2
"""


def test_panes_of_panes_nest(service):
    """The events of the table in docs/windows.md: no result is late, and none is in the next pane."""
    service.create("in")
    pipeline = service.pipeline(ROLLUP)
    times = [2000, 9000, 11000, 28000, 31000, 62000]
    events = [
        {"at": n, "tuple": {"key": "", "number": n + 1, "ts": ts}, "topic_partition": 0} for n, ts in enumerate(times)
    ]
    play(service, pipeline, events)
    made = {
        name: [tuple(row["tuple"].values()) for row in service.outputs(name) if "tuple" in row]
        for name in ("tens", "thirties", "minutes")
    }
    assert made == {
        "tens": [(9999, 3), (19999, 3), (29999, 4), (39999, 5)],
        "thirties": [(29999, 10), (59999, 5)],
        "minutes": [(59999, 15)],
    }
    assert service.read("dead") == []
