"""A batch that was planned with gigabytes of records is done in bounded memory, also by a start with less memory."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.recovery.running import PATIENCE, Running, committed, resident

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

RECORDS = int(os.environ.get("SLUICE_TEST_LARGE_RECORDS", "5000"))
SIZE = 900_000
PARTITIONS = 2
#: bytes of memory that no process of the service may exceed: the JVM has a heap of 1 GB
MEMORY = 1500 << 20
STREAMS = {
    "in": {"topic": "large.in", "schema": {"id": "int64", "text": "string"}},
    "out": {"topic": "large.out", "partitions": PARTITIONS, "marks": "none"},
    "count": {"topic": "large.count", "partitions": 1, "marks": "none"},
    "dead": {"topic": "large.dead", "partitions": PARTITIONS},
}
OPERATORS = [
    {"name": "all", "map": "in", "output": ["out"]},
    {
        "name": "counted", "aggregate": "in", "window": "sliding, count(10), count(1)",
        "aggregate_incomplete_windows": True, "output": {"count": {"id": "Last(id)", "n": "Count()"}},
    },
]  # fmt: skip


def value_of(number: int) -> bytes:
    """Every other record is garbage; each is of its own, and compresses well."""
    block = random.Random(number).randbytes(500).hex()
    text = (block * (SIZE // len(block) + 1))[:SIZE]
    return json.dumps({"id": number, "text": text}).encode() if number % 2 else text.encode()


def send(broker: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker})
    admin.create_topics([NewTopic("large.in", PARTITIONS)])["large.in"].result()
    producer = Producer({"bootstrap.servers": broker, "compression.type": "lz4", "linger.ms": 5})
    for number in range(RECORDS):
        while True:
            try:
                producer.produce("large.in", value_of(number), str(number), partition=number % 4 // 2)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(PATIENCE) == 0


@contextmanager
def peak_memory(service: Running) -> Iterator[dict[str, int]]:
    """The greatest resident memory in bytes that each process of the service has had, looked at twice a second."""
    most: dict[str, int] = defaultdict(int)
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.5):
            commands = service.descendants()
            for pid, size in resident(commands).items():
                name = f"{pid} {commands[pid].split()[0]}"
                most[name] = max(most[name], size)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield most
    finally:
        over.set()
        looking.join()


def test_a_batch_of_gigabytes_that_was_begun_with_more_memory_needs_a_heap_of_one(broker, tmp_path):
    send(broker)
    kafka = {"bootstrap.servers": broker}
    pipeline = {
        "pipeline": "large", "streams": STREAMS, "operators": OPERATORS, "dead_letters": "dead", "kafka": kafka,
        "buckets": 2, "max_bytes_per_batch": 1 << 40,
    }  # fmt: skip
    service = Running(tmp_path, pipeline)
    service.start(environment={"SLUICE_SPARK_driver_memory": "3g"})
    try:
        service.wait_for(lambda: any((service.checkpoint / "spool").glob("[0-9]*")))
    finally:
        service.kill()
    assert (service.checkpoint / "offsets" / "0").exists()
    assert not (service.checkpoint / "commits" / "0").exists()

    began = time.monotonic()
    service.start(environment={"SLUICE_SPARK_driver_memory": "1g"})
    try:
        with peak_memory(service) as most:
            service.wait_for((service.checkpoint / "commits" / "0").exists, 3000)
            took = time.monotonic() - began
            service.end()
    finally:
        service.kill()
    print(f"{RECORDS} records took {took:.0f} s; MB of each process:")  # noqa: T201
    for name, size in sorted(most.items()):
        print(f"  {size >> 20:>6} {name}")  # noqa: T201
    assert not (service.checkpoint / "spool").exists()

    good, garbage = set(range(1, RECORDS, 2)), set(range(0, RECORDS, 2))
    found = [json.loads(message.value()) for message in committed(kafka, "large.count", 1)]
    assert {one["id"] for one in found} == good
    assert len(found) == len(good)
    seen = set()
    for message in committed(kafka, "large.out", PARTITIONS):
        number = json.loads(message.value()[:40].split(b",")[0] + b"}")["id"]
        assert json.loads(message.value()) == json.loads(value_of(number))
        assert number not in seen
        seen.add(number)
    assert seen == good
    seen = set()
    for message in committed(kafka, "large.dead", PARTITIONS):
        number = int(message.key())
        assert message.value() == value_of(number)
        assert number not in seen
        seen.add(number)
    assert seen == garbage
    assert max(most.values()) < MEMORY
