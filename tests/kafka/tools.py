"""What tests do with a broker beside the code that they test."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic


def create(kafka: dict[str, str], topic: NewTopic) -> None:
    client = AdminClient(kafka)
    (future,) = client.create_topics([topic]).values()
    error = future.exception()
    assert error is None or error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS


def visible(kafka: dict[str, str], topic: str, partition: int = 0) -> list:
    """The committed messages of a topic partition."""
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
