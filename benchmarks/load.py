"""Fills topics: one record per millisecond of record time, keys in turn."""

from __future__ import annotations

import time
from collections.abc import Iterator

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

#: milliseconds since 1970 of the first record
START = 1_700_000_000_000
PARTITIONS = 2
BATCH = 10_000


def make_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result()


def fill(bootstrap: str, topic: str, records: int, keys: int) -> None:
    """As fast as it goes; then moves the clock, so that every window of time falls due."""
    producer = Producer({
        "bootstrap.servers": bootstrap, "linger.ms": 20, "compression.type": "lz4",
        "queue.buffering.max.messages": 1_000_000, "batch.num.messages": 100_000, "batch.size": 1_000_000,
    })  # fmt: skip
    for i in range(records):
        _produce(producer, topic, i, b"k%d" % (i % keys), (START + i, 0.0))
        if i % BATCH == 0:
            producer.poll(0)
    end = START + records + 60_000
    for partition in range(PARTITIONS):
        producer.produce(topic, b"", None, partition, timestamp=end, headers=[("sluice-mark", b"clock")])
    producer.flush()


def trickle(bootstrap: str, topic: str, rate: int, seconds: float, keys: int) -> int:
    """`rate` records a second, each with the time at which it is sent; gives their number."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    count = 0
    for i in paced(rate, seconds):
        now = time.time()
        _produce(producer, topic, i, b"k%d" % (i % keys), (int(now * 1000), now))
        producer.poll(0)
        count = i + 1
    producer.flush()
    return count


def paced(rate: int, seconds: float) -> Iterator[int]:
    """The numbers of records, each at its time: `rate` a second."""
    start = time.monotonic()
    for i in range(int(rate * seconds)):
        wait = start + i / rate - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        yield i


def _produce(producer: Producer, topic: str, i: int, key: bytes, times: tuple[int, float]) -> None:
    """`times`: the record's timestamp in milliseconds, and when it is sent, in seconds."""
    timestamp, sent = times
    produce(producer, topic, json_of(i, key, timestamp, sent), key, timestamp)


def produce(producer: Producer, topic: str, value: bytes, key: bytes, timestamp: int) -> None:
    """Hands a record to the producer, and waits while its queue is full."""
    while True:
        try:
            producer.produce(topic, value, key, timestamp=timestamp)
        except BufferError:
            producer.poll(0.05)
        else:
            return


def json_of(i: int, key: bytes, timestamp: int, sent: float) -> bytes:
    return b'{"k":"%s","v":%.1f,"ts":%d,"w":%.6f}' % (key, (i * 7919) % 1000 / 10, timestamp, sent)


def value_of(i: int, key: bytes) -> tuple[bytes, int]:
    """The value and the timestamp (milliseconds since 1970) of a record that `fill` writes."""
    return json_of(i, key, START + i, 0.0), START + i
