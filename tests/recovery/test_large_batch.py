"""A batch that was planned with gigabytes of records is done in bounded memory, also by a start with less memory."""

from __future__ import annotations

import json
import os
import random

import pytest
from confluent_kafka import Message, Producer

from tests.recovery.harness.process_table import peak_memory, processes
from tests.recovery.harness.service import TOPIC_PARTITIONS, Service
from tests.recovery.harness.waiting import PATIENCE

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

#: more bytes than the memory of any process
RECORDS, SIZE = int(os.environ.get("SLUICE_TEST_LARGE_RECORDS", "2500")), 900_000
#: bytes of memory that no process of the service may exceed: the JVM has a heap of 1 GB
MEMORY = 1500 << 20
FILE = f"""
max_bytes_per_batch: {1 << 40}
streams:
  in: {{schema: {{id: int64, text: string}}}}
  out: {{marks: none}}
  count: {{marks: none, partitions: 1}}
  dead: {{}}
operators:
  - {{name: all, map: in, output: [out]}}
  - name: counted
    aggregate: in
    window: sliding, count(10), count(1)
    aggregate_incomplete_windows: true
    output: {{count: {{id: Last(id), n: Count()}}}}
dead_letters: dead
"""


def value_of(number: int) -> bytes:
    """Every other record is garbage; each is of its own, and compresses well."""
    block = random.Random(number).randbytes(500).hex()
    text = (block * (SIZE // len(block) + 1))[:SIZE]
    return json.dumps({"id": number, "text": text}).encode() if number % 2 else text.encode()


def send(service: Service) -> None:
    own = {"compression.type": "lz4", "linger.ms": 5}
    producer = Producer(service.kafka | own)
    for number in range(RECORDS):
        while True:
            try:
                partition = number % (2 * TOPIC_PARTITIONS) // 2
                producer.produce(service.topic("in"), value_of(number), str(number), partition=partition)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(PATIENCE) == 0


def number_of(stream: str, message: Message) -> int:
    """A dead letter has the key of its record."""
    if stream == "dead":
        return int(message.key())
    return json.loads(message.value()[:40].split(b",")[0] + b"}")["id"]


def test_a_batch_of_gigabytes_that_was_begun_with_more_memory_needs_a_heap_of_one(services):
    service = services(FILE)
    service.create("in")
    send(service)
    service.start(SLUICE_SPARK_driver_memory="3g")
    service.wait_until(lambda: any((service.checkpoint / "spool").glob("[0-9]*")), "the batch is in hand")
    position = service.kill()
    assert (position.planned, position.committed, position.next_batch) == (0, -1, 0)

    service.start(SLUICE_SPARK_driver_memory="1g")
    with peak_memory(lambda: processes(service.pid)) as most:
        service.wait_until((service.checkpoint / "commits" / "0").exists, "the batch is done", 2 * PATIENCE)
        service.end()
    assert not (service.checkpoint / "spool").exists()

    good, garbage = [*range(1, RECORDS, 2)], [*range(0, RECORDS, 2)]
    found = [json.loads(message.value())["id"] for message in service.messages("count", 0)]
    assert sorted(found) == good
    for stream, wanted in (("out", good), ("dead", garbage)):
        found = []
        for message in (one for place in range(TOPIC_PARTITIONS) for one in service.messages(stream, place)):
            found.append(number := number_of(stream, message))
            value, sent = message.value(), value_of(number)
            assert value == sent if stream == "dead" else json.loads(value) == json.loads(sent)
        assert sorted(found) == wanted
    assert max(most.values()) < MEMORY, most
