"""Input offsets as a consumer group, so that ordinary lag monitors see the service. Nobody reads them back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from confluent_kafka import Consumer, KafkaException, TopicPartition

from sluice.kafka.client import client_properties
from sluice.kafka.client_log import LOGGER


def group_of(query: str) -> str:
    return f"sluice.{query}"


class InputOffsets:
    """Commits the offsets from which a query reads next."""

    def __init__(self, kafka: Mapping[str, str], query: str) -> None:
        own = {"group.id": group_of(query), "enable.auto.commit": False}
        self._consumer = Consumer(client_properties(kafka, "consumer") | own)

    def commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """A failure is logged only: these offsets decide nothing."""
        places = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        try:
            self._consumer.commit(offsets=places, asynchronous=False)
        except KafkaException as error:
            LOGGER.warning("cannot commit input offsets for lag monitors: %s", error.args[0].str())

    def close(self) -> None:
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
