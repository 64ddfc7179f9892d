from __future__ import annotations

import threading
import weakref

import pytest
from confluent_kafka import KafkaError

from sluice.kafka.partition_reader import RecordsNotReadError
from sluice.spark.lanes import record_feed
from sluice.spark.lanes.record_feed import RecordFeed
from tests.unit.kafka import fake_consumer
from tests.unit.kafka.fake_consumer import END, Message

A, B = ("trades", 0), ("trades", 1)


class Record(Message):
    """A message of the Kafka client, with its topic partition: a record, or with `code` an event."""

    def __init__(self, place, offset, code=None, value=b"v"):
        super().__init__(offset, code)
        self._place, self._value = place, value

    def topic(self):
        return self._place[0]

    def partition(self):
        return self._place[1]

    def key(self):
        return None

    def value(self):
        return self._value

    def headers(self):
        return None


class Consumer(fake_consumer.Consumer):
    """A consumer that keeps the thread that closed it, in `closed`."""

    closed = None

    def assign(self, places):
        self.assigned.append({(p.topic, p.partition): p.offset for p in places})

    def close(self):
        self.closed = threading.current_thread().name


@pytest.fixture
def clock(monkeypatch):
    """Each look at the time takes a tenth of a second."""
    seconds = iter(range(10_000))
    monkeypatch.setattr(record_feed.time, "monotonic", lambda: next(seconds) / 10)


def offsets(taken):
    return {place: [record.offset() for record in records] for place, records in taken.items()}


def records(place, *numbers):
    return [Record(place, number) for number in numbers]


def test_the_records_between_start_and_end_come_in_order():
    feed = RecordFeed(lambda: Consumer(records(A, 5, 6), [*records(B, 0), *records(A, 7)]))
    assert offsets(feed.take({A: 5, B: 0}, {A: 8, B: 1})) == {A: [5, 6, 7], B: [0]}


def test_records_behind_the_end_are_kept_for_the_next_batch():
    consumer = Consumer(records(A, 0, 1, 2, 3))
    feed = RecordFeed(lambda: consumer)
    assert offsets(feed.take({A: 0}, {A: 2})) == {A: [0, 1]}
    assert offsets(feed.take({A: 2}, {A: 4})) == {A: [2, 3]}
    assert consumer.assigned == [{A: 0}]


def test_a_topic_partition_without_new_records_is_left_out_and_not_waited_for():
    feed = RecordFeed(lambda: Consumer(records(A, 3)))
    assert offsets(feed.take({A: 3, B: 9}, {A: 4, B: 9})) == {A: [3]}


def test_offsets_of_transaction_markers_have_no_record():
    feed = RecordFeed(lambda: Consumer([*records(A, 0), Record(A, 2, END)]))
    assert offsets(feed.take({A: 0}, {A: 2})) == {A: [0]}


def test_an_end_before_the_batch_ends_is_no_reason_to_stop():
    feed = RecordFeed(lambda: Consumer([*records(A, 0), Record(A, 1, END)], records(A, 1)))
    assert offsets(feed.take({A: 0}, {A: 2})) == {A: [0, 1]}


def test_after_a_batch_that_spark_did_the_consumer_goes_to_the_start_of_the_next():
    consumer = Consumer(records(A, 0, 1), records(A, 90))
    feed = RecordFeed(lambda: consumer)
    feed.take({A: 0}, {A: 1})
    assert offsets(feed.take({A: 90}, {A: 91})) == {A: [90]}
    assert consumer.assigned == [{A: 0}, {A: 90}]


@pytest.mark.usefixtures("clock")
def test_records_that_do_not_arrive_are_left_to_spark():
    consumer = Consumer(records(A, 0))
    feed = RecordFeed(lambda: consumer)
    with pytest.raises(RecordsNotReadError, match="did not arrive"):
        feed.take({A: 0}, {A: 2})
    assert consumer.closed == "sluice-discard", "closing may block while a broker does not answer"


def test_an_error_of_the_client_is_left_to_spark_and_the_next_batch_has_a_new_consumer():
    consumers = [Consumer([Record(A, 0, KafkaError.OFFSET_OUT_OF_RANGE)]), Consumer(records(A, 1))]
    feed = RecordFeed(lambda: consumers.pop(0))
    with pytest.raises(RecordsNotReadError):
        feed.take({A: 0}, {A: 1})
    assert offsets(feed.take({A: 1}, {A: 2})) == {A: [1]}


def test_a_batch_of_large_records_is_left_to_spark(monkeypatch):
    """Not all of them are in memory at once. A batch before or after it that is small is not."""
    monkeypatch.setattr(record_feed, "MAX_BYTES", 100)
    large = [Record(A, number, value=b"x" * 40) for number in range(6)]
    consumers = [Consumer(records(A, 0), *([one] for one in large[1:])), Consumer(large[5:])]
    feed = RecordFeed(lambda: consumers.pop(0))
    assert offsets(feed.take({A: 0}, {A: 1})) == {A: [0]}
    with pytest.raises(RecordsNotReadError, match="more than 100 bytes"):
        feed.take({A: 1}, {A: 5})
    assert offsets(feed.take({A: 5}, {A: 6})) == {A: [5]}


def test_after_a_batch_of_large_records_only_a_smaller_one_is_expected_to_fit(monkeypatch):
    monkeypatch.setattr(record_feed, "MAX_BYTES", 100)
    feed = RecordFeed(lambda: Consumer(*([Record(A, number, value=b"x" * 40)] for number in range(6))))
    assert feed.fits(6)
    with pytest.raises(RecordsNotReadError):
        feed.take({A: 0}, {A: 6})
    assert not feed.fits(6)
    assert feed.fits(1)


def test_records_of_a_batch_that_is_left_to_spark_are_not_kept_in_memory(monkeypatch):
    """While batches are large, the feed reads nothing, and would keep what it has read of the first one."""
    monkeypatch.setattr(record_feed, "MAX_BYTES", 100)
    record = Record(A, 0, value=b"x" * 200)
    consumers, kept = [Consumer([record])], weakref.ref(record)
    del record
    feed = RecordFeed(consumers.pop)
    with pytest.raises(RecordsNotReadError, match="more than 100 bytes"):
        feed.take({A: 0}, {A: 2})
    assert kept() is None


def test_large_records_are_forgotten_by_and_by(monkeypatch):
    """The next records may be small, which only a batch that is read here can show."""
    monkeypatch.setattr(record_feed, "MAX_BYTES", 100)
    feed = RecordFeed(lambda: Consumer(*([Record(A, number, value=b"x" * 40)] for number in range(6))))
    with pytest.raises(RecordsNotReadError):
        feed.take({A: 0}, {A: 6})
    assert any(feed.fits(6) for _ in range(500))
