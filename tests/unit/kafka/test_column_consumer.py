"""What a consumer of columns receives is what was written."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import closing

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from sluice.kafka.kafka_errors import HeaderNameError
from sluice.kafka.librdkafka import column_consumer
from sluice.kafka.librdkafka.column_consumer import SCHEMA, ColumnConsumer
from sluice.kafka.range_reader import READER_PROPERTIES
from tests.unit.kafka.broker_tools import produce_with_header

pytestmark = pytest.mark.kafka
#: key, value, headers, timestamp
ROWS = [
    (b"key", b"value", None, 1),
    (b"a tombstone", None, None, 2),
    (b"", b"", [("empty", b""), ("nothing", None)], 3),
    (None, b"no key", None, 4),
    (b"large", b"x" * 100_000, None, 5),
    (b"the same header", b"twice", [("h", b"1"), ("h", b"2")], 6),
]


@pytest.fixture
def consumer(kafka):
    with closing(ColumnConsumer(Consumer(kafka | READER_PROPERTIES))) as made:
        yield made


@pytest.fixture
def send(kafka, topic):
    """Writes rows to a topic partition of the topic."""

    def run(rows, partition=0):
        producer = Producer(kafka)
        for key, value, headers, timestamp in rows:
            producer.produce(topic, value, key, partition, timestamp=timestamp, headers=headers)
        assert producer.flush(30) == 0

    return run


def receive(consumer, ends):
    """The records up to these ends, by topic partition."""
    found, reached = {place: [SCHEMA.empty_table()] for place in ends}, dict.fromkeys(ends, 0)
    deadline = time.monotonic() + 30
    while any(reached[place] < end for place, end in ends.items()):
        assert time.monotonic() < deadline, f"reached {reached}"
        for place, records, at in consumer.receive(1.0):
            found[place].append(pa.Table.from_batches([records]))
            reached[place] = max(at, reached[place])
    return {place: pa.concat_tables(some) for place, some in found.items()}


def rows_of(table):
    found = table.to_pylist()
    lists = [row["headers"] and [(one["key"], one["value"]) for one in row["headers"]] for row in found]
    return [(row["key"], row["value"], some, row["timestamp"]) for row, some in zip(found, lists, strict=True)]


def test_each_kind_of_record_comes_as_it_is(consumer, topic, send):
    send(ROWS)
    consumer.assign({(topic, 0): 0})
    (found,) = receive(consumer, {(topic, 0): 6}).values()
    assert rows_of(found) == ROWS
    assert found.column("offset").to_pylist() == [0, 1, 2, 3, 4, 5]


def test_records_of_several_topic_partitions(consumer, topic, send):
    send(ROWS[:2], 0)
    send(ROWS[2:], 1)
    consumer.assign({(topic, 0): 0, (topic, 1): 0})
    found = receive(consumer, {(topic, 0): 2, (topic, 1): 4})
    assert {place: rows_of(some) for place, some in found.items()} == {(topic, 0): ROWS[:2], (topic, 1): ROWS[2:]}


def test_a_new_assignment_reads_from_its_own_offsets_only(consumer, topic, send):
    send(ROWS, 0)
    send(ROWS, 1)
    for starts in ({(topic, 0): 0}, {(topic, 0): 4}, {(topic, 1): 5}, {(topic, 0): 1, (topic, 1): 2}):
        consumer.assign(starts)
        found = receive(consumer, dict.fromkeys(starts, 6))
        assert {place: rows_of(some) for place, some in found.items()} == {
            place: ROWS[start:] for place, start in starts.items()
        }


def test_records_that_the_client_has_received_before_a_new_assignment_do_not_come(consumer, topic, send):
    send(ROWS)
    consumer.assign({(topic, 0): 0})
    receive(consumer, {(topic, 0): 1})
    time.sleep(0.2)  # whatever else there is of it is in the queue
    consumer.assign({(topic, 1): 0})
    send(ROWS[:1], 1)
    assert rows_of(receive(consumer, {(topic, 1): 1})[topic, 1]) == ROWS[:1]


def test_an_aborted_transaction_moves_the_end_and_has_no_records(consumer, kafka, topic):
    producer = Producer(kafka | {"transactional.id": topic})
    producer.init_transactions(10)
    for committed in (False, True):
        producer.begin_transaction()
        producer.produce(topic, str(committed).encode(), partition=0)
        producer.flush(10)
        producer.commit_transaction(10) if committed else producer.abort_transaction(10)
    consumer.assign({(topic, 0): 0})
    assert receive(consumer, {(topic, 0): 4})[topic, 0].column("value").to_pylist() == [b"True"]


def test_an_offset_that_is_not_there_is_an_error(consumer, topic):
    consumer.assign({(topic, 0): 7})
    with pytest.raises(KafkaException) as error:
        receive(consumer, {(topic, 0): 8})
    assert error.value.args[0].code() == KafkaError._AUTO_OFFSET_RESET  # noqa: SLF001


def test_a_header_whose_name_is_not_utf_8_names_its_record(consumer, kafka, topic, send):
    send(ROWS)
    produce_with_header(kafka, topic, b"value", b"\xff")
    consumer.assign({(topic, 0): 3})
    with pytest.raises(HeaderNameError, match=f"topic {topic}, topic partition 0, offset 6"):
        receive(consumer, {(topic, 0): 7})


def test_more_records_than_one_call_returns(consumer, topic, send, monkeypatch):
    monkeypatch.setattr(column_consumer, "MAX_CONSUMED", 2)
    send(ROWS)
    consumer.assign({(topic, 0): 0})
    assert rows_of(receive(consumer, {(topic, 0): 6})[topic, 0]) == ROWS


def test_a_record_that_comes_past_the_queue_is_not_lost_in_silence(kafka, topic, send):
    """The client does so with a topic partition that it has made anew."""
    send(ROWS)
    inner = Consumer(kafka | READER_PROPERTIES)
    inner.assign([TopicPartition(topic, 0, 0)])  # not by the ColumnConsumer
    with closing(ColumnConsumer(inner)) as consumer, pytest.raises(KafkaException, match="come past the queue"):
        receive(consumer, {(topic, 0): 6})


def test_it_can_be_closed_while_another_thread_waits_for_records(kafka, topic):
    consumer = ColumnConsumer(Consumer(kafka | READER_PROPERTIES))
    consumer.assign({(topic, 0): 0})
    ends = []

    def wait():
        try:
            while True:
                consumer.receive(0.05)
        except KafkaException as error:
            ends.append(error.args[0].str())

    thread = threading.Thread(target=wait)
    thread.start()
    consumer.close()
    consumer.close()
    thread.join(10)
    assert ends == ["the consumer is closed"]


#: what a process does with a consumer that has read, before it ends
LAST = {"it is forgotten": "del consumer", "the process ends": ""}


@pytest.mark.parametrize("last", LAST.values(), ids=LAST)
def test_a_consumer_that_is_not_closed_ends_without_a_wait(kafka, topic, send, last):
    """The end of a client of librdkafka waits for its queues, without a bound."""
    send(ROWS)
    program = f"""
from confluent_kafka import Consumer
from sluice.kafka.librdkafka.column_consumer import ColumnConsumer

consumer = ColumnConsumer(Consumer({kafka | READER_PROPERTIES}))
consumer.assign({{({topic!r}, 0): 2}})
while not consumer.receive(1.0):
    pass
{last}
print("the last line")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "the last line\n"), done.stderr
