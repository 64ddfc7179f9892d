from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from sluice.kafka import partition_reader
from sluice.kafka.partition_reader import PartitionReader, RecordsNotReadError
from tests.unit.kafka import fake_consumer
from tests.unit.kafka.fake_consumer import END, Message


class Consumer(fake_consumer.Consumer):
    """A consumer that gives `late` after it was unassigned."""

    def __init__(self, *arrivals, late=()):
        super().__init__(*arrivals)
        self._late = list(late)

    def assign(self, places):
        self.assigned += [(p.topic, p.partition, p.offset) for p in places]

    def unassign(self):
        self.rest, self._late = self._late, []


def records(*offsets):
    return [Message(offset) for offset in offsets]


def read(consumer, start, end):
    return [[record.offset() for record in some] for some in PartitionReader(consumer).read(("t", 0), start, end)]


def test_the_records_of_a_range_come_as_they_arrive():
    consumer = Consumer(records(5, 6), records(7))
    assert read(consumer, 5, 8) == [[5, 6], [7]]
    assert consumer.assigned == [("t", 0, 5)]


def test_records_behind_the_end_are_left_out():
    assert read(Consumer(records(5, 6, 7, 8)), 5, 7) == [[5, 6]]


@pytest.mark.parametrize(
    ("arrivals", "found"),
    [
        pytest.param([[*records(0), Message(2, END)]], [[0]], id="markers before the end of the topic partition"),
        pytest.param([records(0, 3)], [[0]], id="a marker before a record behind the end"),
        pytest.param([[*records(0), Message(1, END)], records(1)], [[0], [1]], id="an end before the range ends"),
        pytest.param([[Message(0, END), *records(0, 1)]], [[0, 1]], id="records behind an end"),
    ],
)
def test_offsets_without_records_end_a_range_and_an_early_end_does_not(arrivals, found):
    assert read(Consumer(*arrivals), 0, 2) == found


def test_messages_of_the_range_before_are_dropped():
    assert read(Consumer(records(5), late=[Message(9, END), *records(90)]), 5, 6) == [[5]]


def test_an_error_of_the_client_is_reported():
    with pytest.raises(RecordsNotReadError):
        read(Consumer([*records(0), Message(1, KafkaError.OFFSET_OUT_OF_RANGE)]), 0, 2)


def test_records_that_do_not_arrive_are_reported(monkeypatch):
    """Each look at the time takes a second."""
    seconds = iter(range(1000))
    monkeypatch.setattr(partition_reader.time, "monotonic", lambda: next(seconds))
    with pytest.raises(RecordsNotReadError, match="did not arrive"):
        read(Consumer(records(0)), 0, 2)


@pytest.fixture
def values(kafka, topic):
    """Reads the values of a range of the topic with the one reader."""
    reader = PartitionReader.of(kafka)
    yield lambda start, end: [one.value() for some in reader.read((topic, 0), start, end) for one in some]
    reader.close()


@pytest.mark.kafka
def test_one_reader_reads_ranges_in_any_order_and_only_committed_records(kafka, topic, values):
    producer = Producer(kafka | {"transactional.id": topic})
    producer.init_transactions(10)
    for committed in (True, False, True):
        producer.begin_transaction()
        for _ in range(3):
            producer.produce(topic, str(committed).encode(), partition=0)
        producer.flush(10)
        producer.commit_transaction(10) if committed else producer.abort_transaction(10)
    assert values(0, 12) == [b"True"] * 6
    assert values(0, 4) == [b"True"] * 3
    assert values(3, 8) == []
    assert values(8, 10) == [b"True"] * 2


@pytest.mark.kafka
def test_a_deleted_record_at_the_start_is_reported(kafka, topic, values):
    producer = Producer(kafka)
    for number in range(5):
        producer.produce(topic, str(number).encode(), partition=0)
    producer.flush(10)
    assert values(2, 4) == [b"2", b"3"]
    admin = AdminClient(kafka)
    for deleted in admin.delete_records([TopicPartition(topic, 0, 3)]).values():
        deleted.result(10)
    with pytest.raises(RecordsNotReadError, match="out of range"):
        values(2, 4)
    assert values(3, 5) == [b"3", b"4"]
