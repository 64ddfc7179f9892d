"""Commits input offsets under a consumer group, so that lag monitors can see the service.

The service never reads these offsets. The checkpoint decides where it continues.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from sluice.kafka.client import client_properties
from sluice.kafka.client_log import LOGGER
from sluice.kafka.requests import discard


def group_of(query: str) -> str:
    return f"sluice.{query}"


class InputOffsets:
    """Commits, for one query, the offset of the next record to read of each topic partition."""

    def __init__(self, kafka: Mapping[str, str], query: str) -> None:
        own = {"group.id": group_of(query), "enable.auto.commit": False, "on_commit": _committed}
        self._consumer = Consumer(client_properties(kafka, "consumer") | own)

    def commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commits `offsets`, by topic and topic partition, without waiting for the broker. A failure is only logged."""
        committed = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        try:
            self._consumer.poll(0)  # calls `_committed` for earlier commits
            self._consumer.commit(offsets=committed, asynchronous=True)
        except KafkaException as error:
            _committed(error.args[0], [])

    def close(self) -> None:
        discard([self._consumer])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _committed(error: KafkaError | None, _: list[TopicPartition]) -> None:
    if error is not None:
        LOGGER.warning("cannot commit input offsets for lag monitors: %s", error.str())
