"""Windows over the timestamps of the Kafka records, with late records, in both lanes."""

from __future__ import annotations

import json
from datetime import datetime
from itertools import accumulate

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME

from sluice.inspect.record_topic import record
from sluice.inspect.verify import verify
from sluice.replayer.player import replay
from tests.service.conftest import Service
from tests.service.events_as_records import ORIGIN

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PIPELINE = """
streams:
  clicks:
    schema: {{page: string, sent: timestamp, number: int64}}
    key: {{attributes: [page]}}
    record_timestamp: sent
    event_time: {{attribute: sent, lag: 2}}
  out: {{}}
  dead: {{}}
operators:
  - name: pages
    aggregate: clicks
    window: {window}
    partition_by: [page]
    output: {{out: {{page: page, first: Min(sent), last: Max(sent), numbers: Collect(number)}}}}
dead_letters: dead
clock: records
buckets: 2
max_records_per_batch: 4
direct_records: {direct}
"""
#: the page and the record timestamp of each click, in milliseconds
CLICKS = [
    ("a", 0), ("b", 1500), ("a", 4001), ("b", 3000), ("a", 9999), ("a", 10_000), ("b", 8000), ("b", 12_345), ("a", 3),
    ("a", 31_000), ("b", 60_000),
]  # fmt: skip


@pytest.mark.parametrize("direct", [0, 2000], ids=["as jobs of Spark", "without a job of Spark"])
@pytest.mark.parametrize(
    "window", ["timeInterval, intervalDuration(10), partitioned", "slidingTime, timeDifference(3), grace(4)"]
)
def test_windows_over_record_timestamps_are_those_of_a_replay_of_the_recorded_topic(service, window, direct):
    service.create("clicks")
    pipeline = service.pipeline(PIPELINE.format(window=window, direct=direct))
    service.send("clicks", [
        {"key": page, "value": json.dumps({"number": n, "sent": "not read"}), "timestamp": ORIGIN + at}
        for n, (page, at) in enumerate(CLICKS)
    ])  # fmt: skip
    service.run(pipeline)

    kafka = {"bootstrap.servers": service.broker}
    made = list(replay(pipeline, record(kafka, {service.topic("clicks"): None}, 100), clock_origin="first"))
    shown = [{word: one[word] for word in ("tuple", "punct") if word in one} for one in made if "stream" in one]
    assert service.outputs("out") == shown
    assert sum("tuple" in one for one in shown) > 3

    (late,) = (one["dead_letter"] for one in made if "dead_letter" in one)
    (letter,) = service.read("dead")
    assert late["tuple"]["sent"] == "2013-01-01T00:26:40.003Z"
    reason = late["reason"].replace("late: ", "late: operator pages: ")
    assert (json.loads(letter.value())["number"], dict(letter.headers())["sluice-reason"].decode()) == (8, reason)
    assert verify(pipeline).differences == []


STAGES = """
streams:
  clicks: {schema: {page: string, sent: timestamp}, record_timestamp: sent, event_time: {attribute: sent, lag: 2}}
  tens: {exchange: true}
  thirties: {}
operators:
  - name: tens
    aggregate: clicks
    window: timeInterval, intervalDuration(10), partitioned
    partition_by: [page]
    output: {tens: {sent: intervalLast(), clicks: Count()}}
  - name: thirties
    aggregate: tens
    window: timeInterval, intervalDuration(30)
    output: {thirties: {sent: intervalStart(), clicks: Sum(clicks)}}
clock: records
buckets: 2
"""


def test_a_time_of_the_records_passes_an_exchange_in_the_value(service):
    service.create("clicks")
    pipeline = service.pipeline(STAGES)
    clicks = [*CLICKS, ("a", 95_000)]
    sent = [{"value": json.dumps({"page": page}), "timestamp": ORIGIN + at} for page, at in clicks]
    service.send("clicks", sent)
    service.run(pipeline, until=lambda: len(service.read("thirties")) >= 4)
    made = replay(pipeline, record({"bootstrap.servers": service.broker}, {service.topic("clicks"): None}, 100))
    expected = [one["tuple"] for one in made if one.get("stream") == "thirties" and "tuple" in one]
    assert [one["clicks"] for one in expected] == [8, 1, 1]
    assert [one["tuple"] for one in service.outputs("thirties") if "tuple" in one] == expected


TIMED = """
streams:
  clicks: {{schema: {{page: string, sent: timestamp}}, record_timestamp: sent, event_time: {{attribute: sent, lag: 2}}}}
  tens: {{marks: {marks}, record_timestamp: last}}
  numbers: {{marks: none, record_timestamp: ms}}
operators:
  - name: tens
    aggregate: clicks
    window: timeInterval, intervalDuration(10), partitioned
    partition_by: [page]
    output: {{tens: {{page: page, last: intervalLast(), clicks: Count()}}}}
  - {{name: numbers, map: clicks, output: {{numbers: {{page: page, ms: "page == 'a' ? toMilliseconds(sent) : 0"}}}}}}
clock: records
buckets: 2
max_records_per_batch: 4
direct_records: {direct}
"""


@pytest.mark.parametrize("direct", [0, 2000], ids=["as jobs of Spark", "without a job of Spark"])
@pytest.mark.parametrize("marks", ["header", "record"])
def test_the_records_of_a_window_have_the_event_time_as_their_timestamp(service, marks, direct):
    service.create("clicks")
    pipeline = service.pipeline(TIMED.format(marks=marks, direct=direct))
    clicks = [*CLICKS, ("a", 95_000)]
    sent = [{"value": json.dumps({"page": page}), "timestamp": ORIGIN + at} for page, at in clicks]
    service.send("clicks", sent)
    service.run(pipeline)

    made = list(replay(pipeline, record({"bootstrap.servers": service.broker}, {service.topic("clicks"): None}, 100)))
    shown = [(one["tuple"], one["timestamp"]) for one in made if one.get("stream") == "tens" and "tuple" in one]
    assert len(shown) == 6
    found = [m for m in service.read("tens") if m.value()]
    assert [json.loads(m.value()) for m in found] == [
        {name: value for name, value in tuple_.items() if name != "last"} for tuple_, _ in shown
    ]
    assert [m.timestamp() for m in found] == [(TIMESTAMP_CREATE_TIME, ms(time)) for _, time in shown]
    times = [m.timestamp()[1] for m in service.read("tens") if Service.shown(m) != {"punct": "final"}]
    assert {time % 10_000 for time in times} == {9_999}, "those of the marks, too"
    assert len(times) == len(found) * (2 if marks == "record" else 1)

    clocks = accumulate((at for _, at in clicks), max)
    assert sorted((json.loads(m.value())["page"], m.timestamp()[1]) for m in service.read("numbers")) == sorted(
        (page, ORIGIN + (at if page == "a" else clock)) for (page, at), clock in zip(clicks, clocks, strict=True)
    ), "0 is no timestamp of a record, so those of b have the operator clock"
    assert verify(pipeline).differences == []


def ms(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1000)
