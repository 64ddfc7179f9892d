"""Reads what a service wrote, as a consumer that sees committed records only."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Self

import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition

from sluice.columns.key_bytes import partition_for
from sluice.kafka.client import client_properties
from sluice.wire.mark_headers import HEADER

Record = dict[str, Any]


class OutputReader:
    """Reads a topic partition as it grows, and compares each record with the wanted one."""

    def __init__(self, kafka: Mapping[str, str], topic: str, number: int, wanted: Sequence[Record]) -> None:
        own = {"group.id": "tests", "isolation.level": "read_committed", "enable.auto.commit": False}
        self._consumer = Consumer(client_properties(kafka, "consumer") | own)
        self._consumer.assign([TopicPartition(topic, number, 0)])
        self._place, self._wanted, self._seen = f"{topic} [{number}]", wanted, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def complete(self) -> bool:
        """Whether all wanted records are there. Raises AssertionError at the first record that differs."""
        for message in self._consumer.consume(10_000, 0.05):
            if message.error() is None:
                found = shown(message)
                wanted = self._wanted[self._seen] if self._seen < len(self._wanted) else None
                assert found == wanted, f"{self._place}, record {self._seen}: {found}, and not {wanted}"
                self._seen += 1
        return self._seen >= len(self._wanted)


def shown(message: Any) -> Record:
    """As `replay` shows it."""
    marks = [value.decode() for name, value in message.headers() or () if name == HEADER]
    return {"punct": marks[0]} if marks else {"tuple": json.loads(message.value())}


def topic_partition(key: str, count: int) -> int:
    """Where Kafka's clients put a key in a topic with `count` topic partitions."""
    return int(partition_for(pa.array([key.encode()]), count)[0])
