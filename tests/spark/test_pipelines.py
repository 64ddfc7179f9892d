"""The whole way on real Kafka and real Spark gives what `replay` gives."""

from __future__ import annotations

import json

import pytest

from service.engine.replay import replay

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
