"""The input topics: filled at full speed, or at a fixed rate with the send time in each record."""

from __future__ import annotations

import time
from typing import NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from benchmarks.load import PARTITIONS, make_topic, paced, produce
from benchmarks.peers.workload import START
from benchmarks.running import committed_consumer

POLL_EVERY = 10_000


class Load(NamedTuple):
    """Records that come at a fixed rate.

    rate        records a second
    seconds     how long they come
    keys        number of keys
    linger_ms   milliseconds that the producer waits for further records of a request
    partitions  topic partitions of the input
    busy        processes beside the system that do nothing but use a processor
    """

    rate: int
    seconds: float
    keys: int
    linger_ms: int = 2
    partitions: int = PARTITIONS
    busy: int = 0

    @property
    def records(self) -> int:
        return int(self.rate * self.seconds)


def delete_topics(bootstrap: str, prefix: str) -> None:
    """Deletes all topics whose name begins with `prefix`: the output, and the internal topics of a system."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    names = [name for name in admin.list_topics(timeout=10).topics if name.startswith(prefix)]
    if names:
        for deleted in admin.delete_topics(names).values():
            deleted.result()


def fill(bootstrap: str, topic: str, records: int, keys: int) -> None:
    """Writes the records to the topic, 45 bytes each, unless it has them already."""
    if not make_topic(bootstrap, topic):
        return
    producer = Producer({
        "bootstrap.servers": bootstrap, "linger.ms": 20, "compression.type": "lz4",
        "queue.buffering.max.messages": 2_000_000, "enable.idempotence": True,
    })  # fmt: skip
    for i in range(records):
        _produce(producer, topic, i, keys, b"}")
        if i % POLL_EVERY == 0:
            producer.poll(0)
    producer.flush()


def trickle(bootstrap: str, topic: str, load: Load) -> None:
    """Writes the records of the load; attribute w of each is the time in seconds at which it is sent."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": load.linger_ms, "acks": "1"})
    for i in paced(load.rate, load.seconds):
        _produce(producer, topic, i, load.keys, b',"w":%.6f}' % time.time())
        producer.poll(0)
    producer.flush()


def _produce(producer: Producer, topic: str, i: int, keys: int, end: bytes) -> None:
    key, timestamp = b"k%d" % (i % keys), START + i
    value = b'{"k":"%s","v":%.1f,"ts":%d' % (key, (i * 7919) % 1000 / 10, timestamp) + end
    produce(producer, topic, value, key, timestamp)


def committed_reader(bootstrap: str, topic: str, wait_ms: int = 500) -> Consumer:
    """A consumer that reads committed records of the whole topic from its beginning."""
    consumer = committed_consumer(bootstrap, {"fetch.wait.max.ms": wait_ms})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    return consumer


def end_offsets(consumer: Consumer, topic: str) -> int:
    """The end offsets of all topic partitions, added up; markers of transactions count."""
    ends = (consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=10) for p in range(PARTITIONS))
    return sum(high for _, high in ends)
