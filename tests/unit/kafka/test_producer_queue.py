"""What is in a producer's queue is what the broker gets."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from sluice.kafka.librdkafka.library import client_pointer
from sluice.kafka.librdkafka.producer_queue import enqueue
from sluice.kafka.records import Records, records

#: value, key, timestamp, headers
ROWS = [
    (b"value", b"key", 1, None),
    (None, b"a tombstone", 2, None),
    (b"", b"", 3, [("empty", b""), ("nothing", None)]),
    (b"no key", None, 4, []),
    (b"x" * 100_000, b"large", 5, None),
    (b"twice", b"the same header", 6, [("h", b"1"), ("h", b"2")]),
]


def columns(rows, topic, partition=1):
    value, key, timestamp, headers = zip(*rows, strict=True)
    places = np.full(len(rows), partition)
    return records(topic, pa.array(value, pa.binary()), pa.array(key, pa.binary()), places, timestamp, headers)


def found(message):
    return message.value(), message.key(), message.timestamp()[1], message.headers()


def expected(row):
    return *row[:3], row[3] or None


@pytest.mark.kafka
def test_each_kind_of_record_arrives_as_it_is(kafka, topic, read):
    producer = Producer(kafka)
    assert enqueue(producer, columns(ROWS, topic), 0, len(ROWS)) == len(ROWS)
    assert producer.flush(30) == 0
    assert [found(message) for message in read(topic, 1)] == [expected(row) for row in ROWS]
    assert {message.partition() for message in read(topic, 1)} == {1}


@pytest.mark.kafka
@pytest.mark.parametrize(("start", "stop"), [(0, 2), (2, 3), (1, 6), (4, 4)])
def test_a_part_of_the_rows_of_a_part_of_a_table(kafka, topic, read, start, stop):
    whole = columns([(b"before", b"k", 0, [("h", b"0")]), *ROWS, (b"behind", b"k", 9, None)], topic)
    producer = Producer(kafka)
    assert enqueue(producer, whole.part(1, 1 + len(ROWS)), start, stop) == stop
    assert producer.flush(30) == 0
    assert [found(message) for message in read(topic, 1)] == [expected(row) for row in ROWS[start:stop]]


def test_a_full_queue_takes_the_first_rows():
    producer = Producer({"bootstrap.servers": "127.0.0.1:1", "queue.buffering.max.messages": 2, "log_level": 0})
    assert enqueue(producer, columns(ROWS, "t"), 1, 6) == 3
    assert enqueue(producer, columns(ROWS, "t"), 3, 6) == 3


def test_an_error_is_raised_as_the_client_raises_it():
    producer = Producer({"bootstrap.servers": "127.0.0.1:1", "message.max.bytes": 50_000, "log_level": 0})
    with pytest.raises(KafkaException) as error:
        enqueue(producer, columns(ROWS, "t"), 0, 6)
    assert error.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_no_rows():
    empty = Records("t", columns(ROWS, "t").columns.slice(0, 0))
    assert enqueue(Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}), empty, 0, 0) == 0


def test_an_object_without_a_client_is_refused():
    class Other:
        __slots__ = ("first",)

    other = Other()
    with pytest.raises(TypeError, match="cannot find the client of librdkafka in a Other"):
        client_pointer(other)
