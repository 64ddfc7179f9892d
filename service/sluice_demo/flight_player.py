"""Plays the flights into a Kafka topic: each departure at its time, with a chosen speed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from sluice.columns.key_bytes import partition_for
from sluice.engine.stream.items import WINDOW
from sluice.kafka.client import client_properties
from sluice.wire.mark_headers import header
from sluice_demo.flights import AIRPORTS, Day, Departure

DAY = 86_400_000
#: seconds; a shorter wait is skipped
SHORT = 0.005
DEFAULTS = {"linger.ms": 5, "log_level": 0}


class Player(threading.Thread):
    """A thread that sends each departure when it is due and, after each day, a window mark to every topic partition.

    With a speed, the first day is sent at once, and the others are sent after `go` was called. The caller does so when
    the service has handled its first batch, which takes longer because the service starts processes for it.
    """

    def __init__(
        self,
        kafka: Mapping[str, str],
        topic: str,
        topic_partitions: int,
        days: Iterable[Day],
        days_per_second: float | None,
    ) -> None:
        """`kafka` has librdkafka properties. `days_per_second` is the speed; None plays as fast as possible."""
        super().__init__(name="player", daemon=True)
        self.days = self.tuples = self.marks = 0
        #: sum over the played days of the airports with departures: the expected number of tuples of `days`
        self.summaries = 0
        self.error: KafkaError | None = None
        self._topic = topic
        self._topic_partitions = topic_partitions
        self._place = places(topic_partitions)
        self._played = days
        self._speed = days_per_second
        #: a monotonic time in seconds, and the flight time (ms since 1970) that is due then
        self._began: tuple[float, int] | None = None
        self._going = threading.Event()
        self._stopped = threading.Event()
        self._producer = Producer(DEFAULTS | client_properties(kafka, "producer") | {"enable.idempotence": True})

    def run(self) -> None:
        try:
            self._play()
        except KafkaException as error:
            self.error = error.args[0]
        if self._stopped.is_set():
            self._producer.purge()
        self._producer.flush()

    def go(self) -> None:
        """Starts the days after the first."""
        self._going.set()

    def stop(self) -> None:
        """Ends the thread, even in the middle of a day. Records that were not sent yet are discarded."""
        self._stopped.set()
        self._going.set()
        self.join()

    def _play(self) -> None:
        for number, day in enumerate(self._played):
            if number == 1 and self._speed is not None:
                self._producer.flush()
                self._going.wait()
                self._began = time.monotonic(), day.start
            for departure in day.departures:
                if not self._due(departure.at):
                    return
                self._send(departure)
            if not self._due(day.end):
                return
            self._mark(day)

    def _due(self, at: int) -> bool:
        """Waits until the flight time `at` (ms since 1970) is due. Returns False if the player was stopped."""
        if self._began is not None and self._speed is not None:
            then, first = self._began
            seconds = then + (at - first) / DAY / self._speed - time.monotonic()
            if seconds > SHORT:
                self._producer.poll(0)
                self._stopped.wait(seconds)
        return not self._stopped.is_set()

    def _send(self, departure: Departure) -> None:
        origin = departure.origin
        self._produce(self._place[origin], departure.at, value=departure.value, key=origin.encode())
        self.tuples += 1

    def _mark(self, day: Day) -> None:
        for place in range(self._topic_partitions):
            self._produce(place, day.end, value=None, headers=[header(WINDOW)])
            self.marks += 1
        self.summaries += len({departure.origin for departure in day.departures})
        self.days += 1

    def _produce(self, place: int, at: int, **record: Any) -> None:  # noqa: ANN401 - produce's own keywords
        while True:
            try:
                self._producer.produce(
                    self._topic, partition=place, timestamp=at, on_delivery=self._delivered, **record
                )
            except BufferError:
                self._producer.poll(0.1)
            else:
                return

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None and not self._stopped.is_set():
            self.error = error


def places(topic_partitions: int) -> dict[str, int]:
    """The topic partition of each airport, by the same hash of the key as in Kafka's Java client."""
    keys = pa.array([airport.encode() for airport in AIRPORTS], pa.binary())
    return dict(zip(AIRPORTS, partition_for(keys, topic_partitions).tolist(), strict=True))
