"""Reading events from files, and what their topic partitions are."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from sluice.columns.json_columns import written_values
from sluice.config.load import load_text
from sluice.model.spec import Stream
from sluice.model.types import INT64, Schema
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import EventError, numbered, read, topic_partitions
from sluice.replayer.player import replay

SCHEMA: Schema = (("x", INT64),)


def test_times_are_exact_to_the_nanosecond(tmp_path: Path):
    file = tmp_path / "events.jsonl"
    file.write_text('{"at": 1357017300.123456789}\n\n{"at": 1357017300.123456790}\n')
    (batch,) = Cutter([Stream("trades", SCHEMA)]).batches(read(file), 10)
    assert batch.at.tolist() == [1357017300123456789, 1357017300123456790]


def test_a_stream_has_the_topic_partitions_that_its_events_name():
    events = [{"at": 0, "stream": "b", "punct": "window", "topic_partition": 2}, {"at": 0, "stream": "a"}]
    assert topic_partitions(numbered(events), ["a", "b"]) == {"a": 1, "b": 3}


def test_a_topic_partition_has_a_bound():
    """Each topic partition takes memory, also one without events."""
    assert topic_partitions([("f:1", {"topic_partition": 9_999})], ["in"]) == {"in": 10_000}
    with pytest.raises(EventError, match=r"^f:2: `topic_partition` must be at most 9999, got 10000$"):
        topic_partitions([("f:1", {}), ("f:2", {"topic_partition": 10_000})], ["in"])


def test_a_stream_that_is_no_text_has_no_topic_partitions():
    """It is reported where the event is read."""
    assert topic_partitions([("f:1", {"stream": [], "topic_partition": 3})], ["in"]) == {"in": 1}


DIGITS = """
pipeline: digits
streams:
  rows: {topic: rows, schema: {a: json, b: "tuple<raw: json, n: int64>", c: "decimal(38, 9)", d: float64, e: json?}}
  copies: {topic: copies}
operators:
  - {name: copy, map: rows, output: {copies: {a: a, b: b, c: c, d: d, e: e}}}
"""
VALUES = (
    '{"a":{"x":1.10,"y":[1e5,12345678901234567890123]},"b":{"raw":2.50,"n":1},'
    '"c":12345678901234567890123456789.123456789,"d":1.10}'
)


@pytest.mark.parametrize("event", [f'"tuple": {VALUES}', f'"record": {{"value": {VALUES}}}'])
def test_the_digits_of_json_and_decimals_come_in_and_out(tmp_path, event):
    file = tmp_path / "events.jsonl"
    file.write_text(f'{{"at": 1, {event}}}\n{{"at": 2, "stream": "rows", {event.replace("1.10", "3.30")}}}\n')
    records = replay(load_text(DIGITS, "digits.yaml"), file, values=written_values)
    expected = VALUES.replace("12345678901234567890123456789.123456789", '"12345678901234567890123456789.123456789"')
    first, second = (orjson.dumps(record["tuple"]).decode() for record in records)
    assert first == expected.replace('"d":1.10}', '"d":1.1,"e":null}')
    assert second == first.replace("1.10", "3.30").replace('"d":1.1,', '"d":3.3,')


def test_a_decimal_with_too_many_digits_in_the_text_is_reported(tmp_path):
    file = tmp_path / "events.jsonl"
    file.write_text('{"at": 1, "tuple": {"a": 1, "b": {"raw": 1, "n": 1}, "c": 0.1234567891, "d": 1}}\n')
    with pytest.raises(EventError, match='attribute "c" must be decimal'):
        list(replay(load_text(DIGITS, "digits.yaml"), file))
    file.write_text('{"at": 1, "tuple": {"a": 1, "b": {"raw": 1, "n": 1}, "c": 1.1234567890000000001, "d": 1}}\n')
    with pytest.raises(EventError, match='attribute "c" must be decimal'):
        list(replay(load_text(DIGITS, "digits.yaml"), file))


def test_a_rejected_tuple_keeps_its_digits(tmp_path):
    file = tmp_path / "events.jsonl"
    file.write_text('{"at": 1, "tuple": {"a": 1.10, "b": {"raw": 1, "n": 0}, "c": 1, "d": 1}}\n')
    pipeline = load_text(DIGITS.replace("{a: a,", "{a: a, n: 1 / b.n,"), "digits.yaml")
    (record,) = replay(pipeline, file, values=written_values)
    assert '"a":1.10' in orjson.dumps(record).decode()
