"""Joins over event time through Kafka and Spark, in several buckets and batches, are those of replay."""

from __future__ import annotations

import pytest

from tests.service.events_as_records import ORIGIN, record, replayed

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PIPELINE = """
streams:
  orders: {{schema: {{key: string, order: int64, ts: timestamp}}, event_time: ts}}
  prices: {{schema: {{key: string, price: int64, ts: timestamp}}, event_time: ts}}
  near: {{watermarks: true}}
  valid: {{watermarks: true}}
  alone: {{}}
  alone_too: {{}}
  dead: {{}}
operators:
  - name: near
    join: {{left: orders, right: prices}}
    window: interval, before(3), after(2), grace(1)
    equality_left: [key]
    equality_right: [key]
    algorithm: outer
    unmatched_left: alone
    unmatched_right: alone_too
    output: {{near: {{key: left.key, ts: left.ts, order: order, price: price}}}}
  - name: valid
    join: {{left: orders, right: prices}}
    window: asOf, maximumAge(8), grace(1)
    equality_left: [key]
    equality_right: [key]
    algorithm: leftOuter
    default_right: {{price: -1}}
    output: {{valid: {{key: left.key, ts: left.ts, order: order, price: price}}}}
dead_letters: dead
clock: records
merge: timestamp
buckets: {buckets}
max_records_per_batch: {most}
"""


def order(at, key, number, seconds, source=0):
    row = {"key": key, "order": number, "ts": seconds}
    return {"at": at, "stream": "orders", "tuple": row, "topic_partition": source}


def price(at, key, value, seconds):
    return {"at": at, "stream": "prices", "tuple": {"key": key, "price": value, "ts": seconds}}


def watermarks(at, seconds):
    return [{"at": at, "stream": "orders", "watermark": seconds, "topic_partition": source} for source in (0, 1)] + [
        {"at": at + 0.1, "stream": "prices", "watermark": seconds}
    ]


#: the events of each moment come from one topic partition, so that their order does not depend on Spark
EVENTS = [
    price(0, "a", 10, 100), price(1, "b", 20, 101), order(2, "a", 1, 102), order(3, "b", 2, 103.5, 1),
    order(4, "c", 3, 104), price(5, "a", 11, 104), price(6, "a", 12, 101.5), *watermarks(7, 104),
    order(8, "a", 4, 102.5), order(9, "a", 5, 106, 1), price(10, "b", 21, 103), price(11, "d", 30, 107),
    order(12, "b", 6, 111), *watermarks(13, 110), price(14, "b", 22, 111), order(15, "d", 7, 120, 1),
    *watermarks(16, 119.5), order(17, "c", 8, 121), *watermarks(18, 1e9),
]  # fmt: skip


@pytest.mark.parametrize(("buckets", "most"), [(1, 1000), (3, 4)])
def test_joins_over_event_time_are_those_of_replay(service, buckets, most):
    service.create("orders", partitions=2)
    service.create("prices")
    pipeline = service.pipeline(PIPELINE.format(buckets=buckets, most=most))
    for stream in ("orders", "prices"):
        service.send(stream, [record(event, ORIGIN) for event in EVENTS if event["stream"] == stream])
    finals = [("orders", 0), ("orders", 1), ("prices", 0)]
    ends = [{"at": 20 + n, "stream": s, "punct": "final", "topic_partition": p} for n, (s, p) in enumerate(finals)]
    for event in ends:
        service.send(event["stream"], [record(event, ORIGIN)])
    service.run(pipeline)
    expected = replayed(pipeline, [*EVENTS, *ends])
    for stream in ("near", "valid", "alone", "alone_too"):
        assert service.outputs(stream) == expected[stream], stream
    assert [made["tuple"]["order"] for made in expected["valid"] if "tuple" in made] == [1, 2, 3, 5, 6, 7, 8]
    assert [made["tuple"]["price"] for made in expected["valid"] if "tuple" in made] == [12, 21, -1, 11, 22, -1, -1]
    assert len(service.read("dead")) == len(expected[""])
