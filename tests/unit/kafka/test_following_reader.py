from __future__ import annotations

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from sluice.kafka import following_reader
from sluice.kafka.following_reader import FollowingReader, RecordsNotReadError, reader_properties
from sluice.kafka.kafka_errors import HungError
from sluice.kafka.librdkafka.column_consumer import offsets_of
from tests.unit.kafka.fake_consumer import END, Consumer, Record

A, B = ("trades", 0), ("trades", 1)


def reader(*consumers):
    """A reader that makes these consumers, one after the other."""
    left = [*consumers]
    return FollowingReader(lambda: left.pop(0), 2.0)


def records(place, *numbers):
    return [Record(place, number) for number in numbers]


def read(of, starts, ends):
    """The offsets of each list of records, with its topic partition."""
    return [(place, offsets_of(some).tolist()) for place, some in of.read(starts, ends)]


@pytest.fixture
def clock(monkeypatch):
    """Each look at the time takes a tenth of a second."""
    seconds = iter(range(10_000))
    monkeypatch.setattr(following_reader, "time", SimpleNamespace(monotonic=lambda: next(seconds) / 10))


def test_the_records_of_ranges_come_as_they_arrive():
    consumer = Consumer(records(A, 5, 6), [*records(B, 0), *records(A, 7)])
    assert read(reader(consumer), {A: 5, B: 0}, {A: 8, B: 1}) == [(A, [5, 6]), (B, [0]), (A, [7])]
    assert consumer.assigned == [{A: 5, B: 0}]


def test_records_behind_the_end_are_kept_for_the_next_range():
    consumer = Consumer(records(A, 0, 1, 2, 3), records(A, 4))
    of = reader(consumer)
    assert read(of, {A: 0}, {A: 2}) == [(A, [0, 1])]
    assert read(of, {A: 2}, {A: 3}) == [(A, [2])]
    assert read(of, {A: 3}, {A: 5}) == [(A, [3]), (A, [4])]
    assert consumer.assigned == [{A: 0}]


def test_records_of_a_topic_partition_whose_range_has_no_records_are_kept():
    consumer = Consumer([*records(B, 9), *records(A, 3)])
    of = reader(consumer)
    assert read(of, {A: 3, B: 9}, {A: 4, B: 9}) == [(A, [3])]
    assert read(of, {A: 4, B: 9}, {A: 4, B: 10}) == [(B, [9])]


def test_a_client_that_does_not_return_from_an_assignment_is_replaced():
    def hang(_):
        raise HungError("cannot assign the topic partitions: the Kafka client did not return within 10 seconds")

    hung, whole = Consumer(), Consumer(records(A, 0))
    hung.assign = hang
    of = reader(hung, whole)
    with pytest.raises(RecordsNotReadError, match="did not return within 10 seconds"):
        read(of, {A: 0}, {A: 1})
    assert hung.closed
    assert read(of, {A: 0}, {A: 1}) == [(A, [0])]


def test_too_many_records_behind_the_end_are_dropped_and_read_again_for_the_next_range(monkeypatch):
    """One topic partition comes faster than the other. Its records do not fill the memory."""
    two = sum(some.nbytes for _, some, _ in Consumer(records(A, 1, 2)).receive(0))
    monkeypatch.setattr(following_reader, "MAX_KEPT", two // 2)  # of each topic partition
    consumer = Consumer(records(A, 0, 1, 2, 3, 4), records(B, 7), [*records(A, 1, 2), *records(B, 8)])
    of = reader(consumer)
    assert read(of, {A: 0, B: 7}, {A: 1, B: 8}) == [(A, [0]), (B, [7])]
    assert read(of, {A: 1, B: 8}, {A: 3, B: 9}) == [(A, [1, 2]), (B, [8])]
    assert consumer.assigned == [{A: 0, B: 7}, {B: 7}, {A: 1, B: 8}]


@pytest.mark.parametrize(
    ("arrivals", "found"),
    [
        pytest.param([[*records(A, 0), Record(A, 2, END)]], [[0]], id="markers before the end of the topic partition"),
        pytest.param([records(A, 0, 3)], [[0]], id="a marker before a record behind the end"),
        pytest.param(
            [[*records(A, 0), Record(A, 1, END)], records(A, 1)], [[0], [1]], id="an end before the range ends"
        ),
        pytest.param([[Record(A, 0, END), *records(A, 0, 1)]], [[0, 1]], id="records behind an end"),
    ],
)
def test_offsets_without_records_end_a_range_and_an_early_end_does_not(arrivals, found):
    assert read(reader(Consumer(*arrivals)), {A: 0}, {A: 2}) == [(A, some) for some in found]


def test_a_range_of_markers_that_were_seen_with_the_range_before_is_not_waited_for():
    """The client reports the end of a topic partition once."""
    of = reader(Consumer([*records(A, 0), Record(A, 2, END)]))
    assert read(of, {A: 0}, {A: 1}) == [(A, [0])]
    assert read(of, {A: 1}, {A: 2}) == []


def test_ranges_elsewhere_are_read_from_their_starts():
    consumer = Consumer(records(A, 0, 1), records(A, 90))
    of = reader(consumer)
    read(of, {A: 0}, {A: 1})
    assert read(of, {A: 90}, {A: 91}) == [(A, [90])]
    assert consumer.assigned == [{A: 0}, {A: 90}]


def test_records_that_the_caller_does_not_take_are_read_again():
    of = reader(Consumer(records(A, 0), records(A, 1)), Consumer(records(A, 0, 1)))
    taken = of.read({A: 0}, {A: 2})
    next(taken)
    taken.close()
    assert read(of, {A: 0}, {A: 2}) == [(A, [0, 1])]


@pytest.mark.usefixtures("clock")
def test_records_that_do_not_arrive_are_reported():
    consumer = Consumer(records(A, 0))
    with pytest.raises(RecordsNotReadError, match="did not arrive"):
        read(reader(consumer), {A: 0}, {A: 2})
    assert consumer.closed


def test_an_error_of_the_client_is_reported_and_the_next_range_has_a_new_consumer():
    of = reader(Consumer([*records(A, 0), Record(A, 1, KafkaError.OFFSET_OUT_OF_RANGE)]), Consumer(records(A, 1)))
    with pytest.raises(RecordsNotReadError):
        read(of, {A: 0}, {A: 2})
    assert read(of, {A: 1}, {A: 2}) == [(A, [1])]


@pytest.mark.parametrize(
    ("block", "expected"),
    [({}, (65_536, 5)), ({"fetch.min.bytes": "1", "fetch.wait.max.ms": "100"}, ("1", "100"))],
    ids=["an answer has many records, within 5 ms", "the kafka block decides otherwise"],
)
def test_how_long_a_broker_waits_with_its_answer(block, expected):
    properties = reader_properties({"bootstrap.servers": "x:1"} | block, 1 << 20)
    assert (properties["fetch.min.bytes"], properties["fetch.wait.max.ms"]) == expected


@pytest.fixture
def values(kafka, topic):
    """Reads the values of a range of the topic with the one reader."""
    reader = FollowingReader.of(kafka, 10.0, 1 << 20)
    at = topic, 0
    yield lambda start, end: [
        value for _, some in reader.read({at: start}, {at: end}) for value in some.column("value").to_pylist()
    ]
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


def test_a_reader_that_rests_requests_nothing_and_goes_on_at_the_next_range():
    consumer = Consumer(records(A, 0, 1), records(A, 1))
    of = reader(consumer)
    assert read(of, {A: 0}, {A: 1}) == [(A, [0])]
    of.rest()
    of.rest()
    assert read(of, {A: 1}, {A: 1}) == [], "a batch without records"
    assert read(of, {A: 1}, {A: 2}) == [(A, [1])]
    assert consumer.assigned == [{A: 0}, {}, {A: 1}]


def test_a_reader_that_has_read_nothing_may_rest():
    of = reader()
    of.rest()
