"""Earlier tuples, barriers, pairs, delays and throttles through Kafka and Spark give what a replay gives."""

from __future__ import annotations

import pytest

from tests.service.events_as_records import ORIGIN, record, replayed

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PIPELINE = """
streams:
  a: {{schema: {{key: string, n: int64}}}}
  b: {{schema: {{key: string, n: int64}}}}
  out: {{}}
  dead: {{}}
operators:
{operators}
dead_letters: dead
clock: records
merge: timestamp
buckets: {buckets}
max_records_per_batch: {most}
"""
OPERATORS = {
    "previous": """  - name: move
    map: [a, b]
    partition_by: [key]
    forget_after: 4s
    output: {out: {key: key, n: n, before: previous(n), third: "previous(n, 3)", up: change(n)}}""",
    "barrier": """  - {name: meet, barrier: [a, b], partition_by: [key], buffer: 2, timeout: 3s,
     output: {out: {key: a.key, a: a.n, b: b.n}}}""",
    "pair": "  - {name: meet, pair: [a, b], partition_by: [key], output: [out]}",
    "delay": "  - {name: wait, delay: [a, b], by: 2.5s, output: [out]}",
    "throttle": "  - {name: pace, throttle: [a, b], rate: 1, buffer: 3, output: [out]}",
    "delay by key": "  - {name: wait, delay: [a, b], by: 2.5s, partition_by: [key], output: [out]}",
    "throttle by key": "  - {name: pace, throttle: [a, b], rate: 0.5, partition_by: [key], buffer: 2, output: [out]}",
}


def row(at: float, stream: str, key: str, number: int) -> dict:
    return {"at": at, "stream": stream, "tuple": {"key": key, "n": number}, "topic_partition": 0}


EVENTS = [
    row(0.0, "a", "x", 1), row(0.2, "a", "y", 2), row(0.4, "b", "y", 3), row(0.6, "a", "x", 4), row(0.8, "b", "x", 5),
    row(1.0, "a", "x", 6), row(1.2, "a", "x", 7), row(1.4, "b", "z", 8), row(2.6, "b", "x", 9), row(4.8, "a", "z", 10),
    row(5.0, "b", "x", 11), row(9.0, "a", "y", 12), row(9.2, "b", "y", 13), row(9.4, "b", "x", 14),
    {"at": 10.0, "stream": "a", "punct": "final", "topic_partition": 0},
    {"at": 10.2, "stream": "b", "punct": "final", "topic_partition": 0},
]  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_the_service_gives_what_a_replay_gives(service, name: str):
    """Two buckets where the operator may have them, and small batches, so that what waits is in the state."""
    for topic in ("a", "b"):
        service.create(topic)
    several = name not in ("delay", "throttle")
    text = PIPELINE.format(operators=OPERATORS[name], buckets=2 if several else 1, most=4)
    pipeline = service.pipeline(text)
    for topic in ("a", "b"):
        service.send(topic, [record(event, ORIGIN) for event in EVENTS if event["stream"] == topic])
    service.run(pipeline)
    expected = replayed(pipeline, EVENTS)
    assert service.outputs("out") == expected["out"]
    assert len(service.read("dead")) == len(expected.get("", []))
