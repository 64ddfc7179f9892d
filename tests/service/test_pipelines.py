"""The whole way on real Kafka and real Spark gives what `replay` gives."""

from __future__ import annotations

import json
import time

import pyarrow as pa
import pytest

from sluice.columns.key_bytes import partition_for
from sluice.replayer.player import replay

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

#: the record timestamps of the tests begin here, milliseconds
ORIGIN = 1_357_000_000_000

PIPELINE = """
streams:
  in: {{schema: {{key: string, number: int64, time: timestamp}}}}
  out: {{partitions: 1}}
  dead: {{}}
operators:
  - name: operator
    aggregate: in
    window: {window}
    {more}
    output: {{out: {{key: Last(key), count: Count(), sum: Sum(number), all: Collect(number)}}}}
dead_letters: dead
clock: {clock}
buckets: {buckets}
max_records_per_batch: {most}
"""


def text(window, **settings):
    more = {"partition_by": "[key]"} if "partitioned" in window else {}
    more |= {"aggregate_incomplete_windows": "true"} if "sliding" in window else {}
    return PIPELINE.format(window=window, more="\n    ".join(f"{k}: {v}" for k, v in more.items()), **settings)


#: milliseconds since ORIGIN, key, number or mark
EVENTS = [
    (0, "a", 1), (10, "b", 2), (10, "a", 3), (900, None, "window"), (1000, "c", 4), (1500, "a", 5), (2000, "b", 6),
    (2000, "c", 17), (2001, None, "window"), (2001, None, "window"), (7300, "a", 8), (7400, "d", 9), (7400, "e", 10),
    (9999, None, "window"), (10_000, "a", 11), (10_500, "b", 40), (11_000, None, "final"), (12_000, "a", 12),
]  # fmt: skip


def records(events, origin):
    """As arguments of `Producer.produce`, in one topic partition."""
    return [
        {"value": b"", "headers": [("sluice-mark", what.encode())], "timestamp": origin + after, "partition": 0}
        if key is None
        else {"value": value(key, what), "timestamp": origin + after, "partition": 0}
        for after, key, what in events
    ]


def value(key, number):
    return json.dumps({"key": key, "number": number, "time": "2013-01-01T00:00:00Z"}).encode()


def replayed(pipeline, events, origin, end=None):
    """What comes out of one topic partition of input."""
    lines = [
        {"at": (origin + after) / 1000} | ({"punct": what} if key is None else {"tuple": json.loads(value(key, what))})
        for after, key, what in events
    ]
    lines += [] if end is None else [{"at": (origin + end) / 1000}]
    found = replay(pipeline, lines, clock_origin="first")
    return [{key: record[key] for key in ("tuple", "punct") if key in record} for record in found]


WINDOWS = [
    "tumbling, count(2), partitioned",
    "tumbling, time(2.0), partitioned",
    "tumbling, delta(number, 3), partitioned",
    "tumbling, punct(), partitioned",
    "sliding, count(2), count(1), partitioned",
    "sliding, time(3.0), count(1), partitioned",
    "sliding, count(3), time(1.5), partitioned",
    "tumbling, count(3)",
    "tumbling, time(2.0)",
    "sliding, delta(number, 5), count(2)",
]


@pytest.mark.parametrize(("buckets", "most"), [(1, 1000), (3, 7)])
@pytest.mark.parametrize("window", WINDOWS)
def test_outputs_are_those_of_replay(service, window, buckets, most):
    """With one bucket in one batch, and with several in several."""
    service.create("in")
    pipeline = service.pipeline(text(window, clock="records", buckets=buckets, most=most))
    service.send("in", records(EVENTS, ORIGIN))
    service.run(pipeline)
    assert service.outputs("out") == replayed(pipeline, EVENTS, ORIGIN)
    assert service.read("dead") == []


@pytest.mark.parametrize("buckets", [1, 3])
def test_time_passes_while_no_records_come(service, buckets):
    """The idle clock fires what is due, in all buckets, up to now."""
    service.create("in")
    pipeline = service.pipeline(
        text("tumbling, time(2.0), partitioned", clock="processing", buckets=buckets, most=1000)
    )
    events = EVENTS[:16]
    origin = int(time.time() * 1000) - 60_000
    expected = replayed(pipeline, events, origin, end=60_000)
    service.send("in", records(events, origin))
    service.run(pipeline, until=lambda: len(service.read("out")) >= len(expected))
    assert service.outputs("out")[: len(expected)] == expected


def test_several_topic_partitions_are_handled_in_the_order_of_time(service):
    """Records of one batch; of one time, those of the lower topic partition come first."""
    service.create("in", partitions=3)
    pipeline = service.pipeline(text("sliding, count(2), count(1)", clock="records", buckets=1, most=1000))
    by_element = [sorted(EVENTS[number:15:3], key=lambda event: event[0]) for number in range(3)]
    for number, events in enumerate(by_element):
        service.send("in", [record | {"partition": number} for record in records(events, ORIGIN)])
    service.run(pipeline)
    in_order = sorted(
        ((after, number, key, what) for number, events in enumerate(by_element) for after, key, what in events),
        key=lambda event: event[:2],
    )
    assert service.outputs("out") == replayed(
        pipeline, [(after, key, what) for after, _, key, what in in_order], ORIGIN
    )


def test_runs_go_where_their_key_belongs(service):
    """To the topic partition that Kafka's own clients would choose, with that key and the time of the firing."""
    service.create("in")
    service.create("out", partitions=4)
    pipeline = service.pipeline(text("tumbling, count(2), partitioned", clock="records", buckets=2, most=1000))
    service.send("in", records(EVENTS[:10], ORIGIN))
    service.run(pipeline)
    messages = service.read("out")
    places = dict(zip(b"abc".decode(), partition_for(pa.array([b"a", b"b", b"c"]), 4).tolist(), strict=True))
    assert {(m.key().decode(), m.partition()) for m in messages} == {(key, places[key]) for key in "abc"}
    assert {m.timestamp()[1] - ORIGIN for m in messages} == {10, 2000}
    assert [service.shown(m) for m in messages if m.key() == b"a"] == [
        {"tuple": {"key": "a", "count": 2, "sum": 4, "all": [1, 3]}}, {"punct": "window"},
    ]  # fmt: skip


def test_a_map_hands_records_on_with_their_keys_and_marks(service):
    service.create("in", partitions=2)
    service.create("out", partitions=2)
    pipeline = service.pipeline(MAP)
    mark = {"value": b"", "headers": [("sluice-mark", b"window")]}
    service.send("in", [
        {"value": value("a", 1), "key": b"k1", "timestamp": ORIGIN, "partition": 1},
        {"value": value("b", -1), "key": b"k2", "timestamp": ORIGIN + 1, "partition": 1},
        mark | {"timestamp": ORIGIN + 2, "partition": 1},
        {"value": value("c", 3), "timestamp": ORIGIN + 3, "partition": 0},
    ])  # fmt: skip
    service.run(pipeline)
    assert [(m.partition(), m.key(), service.shown(m)) for m in service.read("out")] == [
        (0, None, {"tuple": {"key": "c", "double": 6}}),
        (1, b"k1", {"tuple": {"key": "a", "double": 2}}),
        (1, None, {"punct": "window"}),
    ]


MAP = """
streams:
  in: {schema: {key: string, number: int64, time: timestamp}}
  out: {}
operators:
  - name: positive
    map: in
    where: number > 0
    output: {out: {key: key, double: number * 2}}
buckets: 2
"""


def test_marks_ride_on_the_last_tuple_of_their_run(service):
    service.create("in")
    pipeline = service.pipeline(
        text("tumbling, punct(), partitioned", clock="records", buckets=2, most=1000).replace(
            "out: {partitions: 1}", "out: {partitions: 1, marks: header}"
        )
    )
    service.send("in", records(EVENTS[:10], ORIGIN))
    service.run(pipeline)
    messages = service.read("out")
    assert [json.loads(m.value())["key"] for m in messages] == ["a", "b", "a", "b", "c"]
    assert all(m.headers() == [("sluice-mark", b"window")] for m in messages)
