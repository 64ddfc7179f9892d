"""A tuple for which an expression has no value goes to the dead letters as it came, and the next one is handled."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Message

from sluice.batch import reject_collector
from sluice.batch.reject_collector import read_again
from sluice.kafka.kafka_errors import HeaderNameError, UnavailableError
from sluice.wire.dead_letter_record import DeadLetter

PIPELINE = """
streams:
  in: {schema: {key: string, number: int64, by: int64}}
  out: {}
  dead: {}
operators:
  - name: rest
    map: in
    output: {out: {key: key, rest: number % by}}
dead_letters: dead
buckets: 2
"""


@pytest.mark.kafka
@pytest.mark.spark
def test_a_tuple_without_a_value_is_set_aside_with_its_place(service):
    service.create("in", partitions=2)
    pipeline = service.pipeline(PIPELINE)
    values = [
        {"key": "a", "number": 7, "by": 4},
        {"key": "b", "number": 7, "by": 0},
        {"key": "c", "number": 9, "by": 5},
    ]
    rest = {"partition": 1, "key": b"a key", "headers": [("trace", b"1"), ("none", None)]}
    service.send(
        "in", [rest | {"value": json.dumps(v, indent=1).encode(), "timestamp": 1000 + n} for n, v in enumerate(values)]
    )
    service.run(pipeline)
    assert service.outputs("out") == [{"tuple": {"key": "a", "rest": 3}}, {"tuple": {"key": "c", "rest": 4}}]
    (letter,) = service.read("dead")
    headers = dict(letter.headers())
    assert (letter.key(), letter.value()) == (b"a key", json.dumps(values[1], indent=1).encode())
    assert (headers["trace"], headers["none"]) == (b"1", None)
    assert headers["sluice-reason"] == b"no value: operator rest: out.rest has no value: number % by"
    assert (headers["sluice-stream"], headers["sluice-partition"]) == (b"in", b"1")
    assert headers["sluice-timestamp"] == b"1001"


JOIN = """
streams:
  a: {schema: {key: string, number: int64}}
  b: {schema: {key: string, by: int64}}
  out: {}
  dead: {}
operators:
  - name: rest
    join: {left: a, right: b}
    window_left: sliding, count(5)
    window_right: sliding, count(5)
    equality_left: [key]
    equality_right: [key]
    output: {out: {key: left.key, rest: left.number % right.by}}
dead_letters: dead
buckets: 2
"""


@pytest.mark.kafka
@pytest.mark.spark
def test_a_rejected_pair_has_the_position_and_the_key_of_the_newer_record(service):
    for name in "ab":
        service.create(name, partitions=2)
    pipeline = service.pipeline(JOIN)
    service.send("a", [{"value": b'{"key": "x", "number": 7}', "key": b"older", "timestamp": 1000, "partition": 0}])
    newer = [
        {"value": b'{"key": "%s", "by": 0}' % key, "key": b"newer", "timestamp": at, "partition": 1}
        for key, at in ((b"y", 1001), (b"x", 1002))
    ]
    service.send("b", newer)
    service.run(pipeline)
    (found,) = service.read("dead")
    headers = dict(found.headers())
    assert (found.key(), json.loads(found.value())) == (b"newer", {"key": "x", "rest": None})
    assert (headers["sluice-topic"].decode(), headers["sluice-value"]) == (service.topic("b"), b"tuple")
    names = ("stream", "partition", "offset", "timestamp")
    assert [headers[f"sluice-{name}"] for name in names] == [b"b", b"1", b"1", b"1002"]


def letter(**more):
    return DeadLetter(
        stream="in", topic="t", partition=0, offset=7, timestamp=1, reason="late", key=None, value=b'{"k":1}',
        headers=[], original=False, **more,
    )  # fmt: skip


def test_a_refused_tuple_whose_record_has_a_header_that_cannot_be_read_stays_a_tuple(monkeypatch):
    def unreadable(_):
        message = "the name of a header is not UTF-8"
        raise HeaderNameError(message)

    record = Message(topic="t", partition=0, offset=7, value=b"as it was")
    monkeypatch.setattr(reject_collector, "read", lambda _, __, ___, each, **____: each(record))
    monkeypatch.setattr(reject_collector, "headers_of", unreadable)
    assert read_again({}, [letter(), letter()]) == ([letter(), letter()], True)


def test_a_tuple_that_an_operator_made_gets_the_key_of_the_record_that_caused_it(monkeypatch):
    record = Message(topic="t", partition=0, offset=7, value=b"the newer one", key=b"k", timestamp=(1, 2000))
    monkeypatch.setattr(reject_collector, "read", lambda _, __, ___, each, **____: each(record))
    (found,), _ = read_again({}, [letter(made=True)])
    assert (found.key, found.value, found.timestamp, found.original) == (b"k", b'{"k":1}', 2000, False)
    assert ("sluice-value", b"tuple") in found.record(10_000)[2]


def test_records_that_cannot_be_read_again_are_given_up_before_the_transaction_of_their_batch_expires(monkeypatch):
    """Its time-out is a minute by default."""
    limits = []

    def unavailable(*_, retry_s):
        limits.append(retry_s)
        raise UnavailableError("no broker answers")

    monkeypatch.setattr(reject_collector, "read", unavailable)
    assert read_again({}, [letter()]) == ([letter()], False)
    assert limits == [reject_collector.READ_AGAIN_S]
