"""`sluice record`: the records of a topic as events."""

import json

from click.testing import CliRunner
from confluent_kafka import Producer

from sluice.cli import main
from sluice.config.load import load_text
from sluice.inspect.record_topic import record
from sluice.replayer.player import replay
from tests.unit.replayer.test_replayed_records import SENT

PIPELINE = """
pipeline: one
streams:
  in: {topic: in, schema: {x: int64}, marks_in: topic_partition}
  out: {topic: out}
operators:
  - {name: only, aggregate: in, window: "tumbling, punct()", output: {out: {n: Count(), x: Sum(x)}}}
"""


def test_records_become_events(kafka, topic):
    producer = Producer(kafka)
    sent = [
        (0, b'{"x":1}', b"A", None, 5_000),
        (1, b'{"x": 2}', None, None, 4_000),
        (0, b"\xff", None, None, 3_000),
        (0, b"", None, [("sluice-mark", b"window")], 6_000),
    ]
    for partition, value, key, headers, at in sent:
        producer.produce(topic, value, key, partition, timestamp=at, headers=headers)
    producer.flush(10)

    events = list(record(kafka, {topic: None}, 10))
    assert events == [
        {"at": 4.0, "topic_partition": 1, "offset": 0, "record": {"value": '{"x": 2}'}},
        {"at": 5.0, "topic_partition": 0, "offset": 0, "record": {"value": {"x": 1}, "key": "A"}},
        {"at": 5.0, "topic_partition": 0, "offset": 1, "record": {"value": {"base64": "/w=="}, "timestamp": 3.0}},
        {"at": 6.0, "topic_partition": 0, "offset": 2, "record": {"value": "", "headers": {"sluice-mark": "window"}}},
    ]
    found = list(replay(load_text(PIPELINE, "p.yaml"), events))
    assert found[0]["dead_letter"]["location"] == "event 2"
    assert found[1]["tuple"] == {"n": 2, "x": 3}

    arguments = ["record", topic, "--last", "1", *(f"--kafka={name}={value}" for name, value in kafka.items())]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.exception
    printed = [json.loads(line) for line in result.stdout.splitlines()]
    assert printed == [events[0], events[3]]


def test_a_replay_of_recorded_events_has_the_timestamps_of_the_records(kafka, topic):
    producer = Producer(kafka)
    for x, at in enumerate((1_711_965_600_123, 1_711_965_599_999, 1_711_965_601_000)):
        producer.produce(topic, json.dumps({"x": x}), partition=0, timestamp=at)
    producer.flush(10)
    found = replay(load_text(SENT, "p.yaml"), list(record(kafka, {topic: None}, 10)))
    assert [one["tuple"]["sent"] for one in found] == [
        "2024-04-01T10:00:00.123Z", "2024-04-01T09:59:59.999Z", "2024-04-01T10:00:01Z",
    ]  # fmt: skip


def test_a_topic_that_does_not_exist(kafka, name):
    arguments = ["record", f"no-{name}", *(f"--kafka={key}={value}" for key, value in kafka.items())]
    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, result.output) == (3, f"sluice: no such topic: no-{name}\n")
