"""What tests do with a broker beside the code that they test."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping
from ctypes import c_ssize_t, c_void_p
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from sluice.kafka.requests import send_request
from tests.recovery.harness.waiting import wait_until


def produce_with_header(kafka: dict[str, str], topic: str, value: bytes, name: bytes) -> None:
    """Writes a record with a header of any name to topic partition 0. A producer of Python takes names in UTF-8 only,
    so this calls the functions of librdkafka.
    """
    folder = Path(f"{confluent_kafka.__path__[0]}.libs")
    client = ctypes.CDLL(str(next(folder.glob("librdkafka*"))))
    client.rd_kafka_conf_new.restype = client.rd_kafka_new.restype = c_void_p
    conf, error = c_void_p(client.rd_kafka_conf_new()), ctypes.create_string_buffer(512)
    for key, text in kafka.items():
        client.rd_kafka_conf_set(conf, key.encode(), text.encode(), error, c_ssize_t(512))
    producer = c_void_p(client.rd_kafka_new(0, conf, error, c_ssize_t(512)))
    end_, topic_, partition, value_, flags, header = 0, 1, 3, 4, 7, 9  # rd_kafka_vtype_t
    fields = [(topic_, topic.encode()), (partition, 0), (value_, value, c_ssize_t(len(value))), (flags, 2),
              (header, name, b"h", c_ssize_t(1)), (end_,)]  # fmt: skip
    assert client.rd_kafka_producev(producer, *(part for field in fields for part in field)) == 0
    assert client.rd_kafka_flush(producer, 30_000) == 0
    client.rd_kafka_destroy(producer)


def add_topic_partitions(kafka: Mapping[str, str], topic: str, count: int) -> None:
    """Gives the topic so many topic partitions, and waits for them: a broker answers before its metadata have them."""
    admin = AdminClient(dict(kafka))  # its futures end with it
    (created,) = admin.create_partitions([NewPartitions(topic, count)]).values()
    created.result(30)
    wait_until(
        lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == count,
        f"{topic} has {count} topic partitions",
    )


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
    """The end offset for a reader. The request is repeated after transient errors: the broker may have just restarted.

    A new admin client of librdkafka now and then needs 3 s for it; a consumer does not.
    """
    level = "read_committed" if isolation == IsolationLevel.READ_COMMITTED else "read_uncommitted"

    def question(client: Consumer) -> int:
        return int(client.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)[1])

    return send_request(
        kafka, "consumer", "get the end offset", question, {"group.id": "tests", "isolation.level": level}
    )
