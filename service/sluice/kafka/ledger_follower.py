"""Follows the ledger topic: what a query has written, batch by batch, as it becomes visible."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Self

from confluent_kafka import Consumer, TopicPartition

from sluice.kafka import ledger
from sluice.kafka.batch_report import Entry
from sluice.kafka.client import client_properties
from sluice.kafka.client_log import LOGGER

WAIT = 0.2


class Follower:
    """A thread that tells `heard` each entry of a query that becomes visible from now on: a moment after its commit."""

    def __init__(self, kafka: Mapping[str, str], query: str, heard: Callable[[Entry], None]) -> None:
        own = {"group.id": "sluice.ledger", "enable.auto.commit": False, "isolation.level": "read_committed"}
        self._consumer = Consumer(client_properties(kafka, "consumer") | own)
        with ledger.reporting("follow the ledger"):
            place = TopicPartition(ledger.TOPIC, ledger.PARTITION)
            _, end = self._consumer.get_watermark_offsets(place, timeout=ledger.SECONDS)
        self._consumer.assign([TopicPartition(ledger.TOPIC, ledger.PARTITION, end)])
        self._query, self._heard = query.encode(), heard
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sluice-ledger-follower", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        while not self._stopped.is_set():
            for message in self._consumer.consume(100, WAIT):
                if message.error():
                    LOGGER.warning("following the ledger: %s", message.error().str())
                elif message.key() == self._query and message.value():
                    self._heard(Entry.from_json(message.value()))
        self._consumer.close()
