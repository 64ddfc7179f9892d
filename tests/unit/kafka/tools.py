"""What tests do with a broker beside the code that they test."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from sluice.kafka.requests import asked


def create(kafka: dict[str, str], topic: NewTopic) -> None:
    client = AdminClient(kafka)
    (future,) = client.create_topics([topic]).values()
    error = future.exception()
    assert error is None or error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS


def visible(kafka: dict[str, str], topic: str, partition: int = 0) -> list:
    """The committed messages of a topic partition, once every transaction is ended there as well."""
    deadline = time.monotonic() + 20
    while end(kafka, topic, partition, IsolationLevel.READ_COMMITTED) < end(kafka, topic, partition):
        assert time.monotonic() < deadline, f"a transaction is open in {topic} [{partition}]"
        time.sleep(0.02)
    own = {"group.id": "tests", "enable.auto.commit": False, "enable.partition.eof": True,
           "isolation.level": "read_committed", "fetch.wait.max.ms": 10}  # fmt: skip
    consumer = Consumer(kafka | own)
    place = TopicPartition(topic, partition)
    place.offset, _ = consumer.get_watermark_offsets(place, timeout=10)
    consumer.assign([place])
    found = []
    while (message := consumer.poll(10)) is not None and message.error() is None:
        found.append(message)
    consumer.close()
    return found


def end(kafka: dict[str, str], topic: str, partition: int, isolation: Any = IsolationLevel.READ_UNCOMMITTED) -> int:
    """The end offset for a reader. It is asked for again after errors that pass: the broker may have just come back.

    A new admin client of librdkafka now and then needs 3 s for it; a consumer does not.
    """
    level = "read_committed" if isolation == IsolationLevel.READ_COMMITTED else "read_uncommitted"

    def question(client: Consumer) -> int:
        return int(client.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)[1])

    return asked(kafka, "consumer", "get the end offset", question, {"group.id": "tests", "isolation.level": level})
