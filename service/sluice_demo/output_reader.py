"""Reads the output topics of the demo with a plain Kafka consumer that sees committed records only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from sluice.wire.mark_headers import HEADER
from sluice_demo.departures_board import Board

MAX_CONSUMED = 5000


class Reader:
    """Reads the records of the output topics and enters them on the board."""

    def __init__(self, bootstrap: str, board: Board, delays: str, days: str, dead: str) -> None:
        self._board = board
        self._handlers: Mapping[str, Callable[[dict[str, Any]], None]] = {delays: board.delay, days: board.day}
        self._dead = dead
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "sluice-demo",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
                "log_level": 0,
            }
        )
        topics = self._consumer.list_topics(timeout=30).topics
        places = [(topic, place) for topic in (delays, days, dead) for place in topics[topic].partitions]
        self._consumer.assign([TopicPartition(topic, place, 0) for topic, place in places])

    def read(self, seconds: float) -> None:
        """Handles up to MAX_CONSUMED records, for which it waits at most `seconds`."""
        for message in self._consumer.consume(MAX_CONSUMED, seconds):
            self._handle(message)

    def close(self) -> None:
        self._consumer.close()

    def _handle(self, message: Message) -> None:
        if error := message.error():
            raise KafkaException(error)
        if message.topic() == self._dead:
            self._board.dead += 1
            return
        self._handlers[str(message.topic())](orjson.loads(message.value() or b""))
        if any(name == HEADER for name, _ in message.headers() or ()):
            self._board.marks_out += 1
