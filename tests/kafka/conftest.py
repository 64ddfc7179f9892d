from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from service.kafka import ledger
from service.kafka.topics import LEDGER_CONFIG

NUMBERS = itertools.count()


@pytest.fixture
def kafka(broker: str) -> dict[str, str]:
    """The `kafka:` block of a pipeline file."""
    return {"bootstrap.servers": broker}


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"test-{next(NUMBERS)}"


@pytest.fixture
def create_topic(kafka) -> Callable[..., None]:
    """Creates a topic: name, topic partitions, properties, and where it is to be, if not in `kafka`."""
    return lambda name, partitions=1, at=None, **config: create(at or kafka, NewTopic(name, partitions, config=config))


@pytest.fixture
def topic(kafka, name) -> str:
    """A topic of two topic partitions, and the ledger's."""
    create(kafka, NewTopic(name, 2))
    create(kafka, NewTopic(ledger.TOPIC, 1, config=LEDGER_CONFIG))
    return name


def create(kafka: dict[str, str], topic: NewTopic) -> None:
    client = AdminClient(kafka)
    (future,) = client.create_topics([topic]).values()
    error = future.exception()
    assert error is None or error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS


@pytest.fixture
def read(kafka) -> Callable[[str, int], list]:
    """Reads what is visible in a topic partition, to its end: the committed messages."""

    def messages(topic: str, partition: int = 0) -> list:
        consumer = Consumer(kafka | {"group.id": "tests", "enable.auto.commit": False, "enable.partition.eof": True,
                                     "isolation.level": "read_committed", "fetch.wait.max.ms": 10})  # fmt: skip
        place = TopicPartition(topic, partition)
        place.offset, _ = consumer.get_watermark_offsets(place, timeout=10)
        consumer.assign([place])
        found = []
        while (message := consumer.poll(10)) is not None and message.error() is None:
            found.append(message)
        consumer.close()
        return found

    return messages
