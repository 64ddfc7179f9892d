"""Fills topics: one record per millisecond of record time, keys in turn."""

from __future__ import annotations

import time
from collections.abc import Iterator

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from sluice.kafka.topics import create

#: milliseconds since 1970 of the first record
START = 1_700_000_000_000
PARTITIONS = 2
BATCH = 10_000


def make_topic(bootstrap: str, name: str, partitions: int = PARTITIONS, **config: str) -> bool:
    """Creates a topic. Returns False if it exists."""
    kafka = {"bootstrap.servers": bootstrap}
    if name in AdminClient(kafka).list_topics(timeout=30).topics:
        return False
    create(kafka, NewTopic(name, partitions, 1, config=config))
    return True


def quick_producer(bootstrap: str) -> Producer:
    """A producer of large batches, for topics that are filled as fast as it goes."""
    return Producer({
        "bootstrap.servers": bootstrap, "linger.ms": 20, "compression.type": "lz4",
        "queue.buffering.max.messages": 1_000_000, "batch.num.messages": 100_000, "batch.size": 1_000_000,
        "enable.idempotence": True,
    })  # fmt: skip


def fill(
    bootstrap: str, topic: str, records: int, keys: int, *, partitions: int = PARTITIONS, padding: int = 0
) -> None:
    """As fast as it goes; then moves the clock, so that every window of time falls due.

    The keys are dealt out to the topic partitions, as evenly as they can be. A topic partition without records does not
    move the clock: a batch reads it to its end long before the others. `padding` is the length of a further attribute,
    which no pipeline reads.
    """
    producer = quick_producer(bootstrap)
    for i in range(records):
        number = i % keys
        key = b"k%d" % number
        produce(producer, topic, json_of(i, key, START + i, 0.0, padding), key, START + i, number % partitions)
        if i % BATCH == 0:
            producer.poll(0)
    end = START + records + 60_000
    for partition in range(min(keys, partitions)):
        producer.produce(topic, b"", None, partition, timestamp=end, headers=[("sluice-mark", b"clock")])
    producer.flush()


def trickle(bootstrap: str, topic: str, rate: int, seconds: float, keys: int) -> int:
    """`rate` records a second, each with the time at which it is sent; gives their number."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    count = 0
    for i in paced(rate, seconds):
        now = time.time()
        key, timestamp = b"k%d" % (i % keys), int(now * 1000)
        produce(producer, topic, json_of(i, key, timestamp, now), key, timestamp)
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


def produce(  # noqa: PLR0917 - the arguments of a record, in the order of the client
    producer: Producer, topic: str, value: bytes, key: bytes, timestamp: int, partition: int = -1
) -> None:
    """Hands a record to the producer, and waits while its queue is full. By default its key gives the partition."""
    while True:
        try:
            producer.produce(topic, value, key, partition, timestamp=timestamp)
        except BufferError:
            producer.poll(0.05)
        else:
            return


def json_of(i: int, key: bytes, timestamp: int, sent: float, padding: int = 0) -> bytes:
    """A record. `timestamp` is in milliseconds since 1970, `sent` in seconds."""
    more = b',"p":"%s"' % (b"x" * padding) if padding else b""
    return b'{"k":"%s","v":%.1f,"ts":%d,"w":%.6f%s}' % (key, (i * 7919) % 1000 / 10, timestamp, sent, more)


def value_of(i: int, key: bytes) -> tuple[bytes, int]:
    """The value and the timestamp (milliseconds since 1970) of a record that `fill` writes."""
    return json_of(i, key, START + i, 0.0), START + i
