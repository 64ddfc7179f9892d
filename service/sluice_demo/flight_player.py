"""Plays the flights into Kafka."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from sluice.engine.stream.items import WINDOW
from sluice.kafka.client import client_properties
from sluice.kafka.murmur2 import partition_for
from sluice.wire.mark_headers import header
from sluice_demo.flights import AIRPORTS, Day, Departure

DAY = 86_400_000
#: seconds; shorter waits are not worth their cost
SHORT = 0.005
DEFAULTS = {"linger.ms": 5, "log_level": 0}


class Player(threading.Thread):
    """Sends each departure when it is due, and behind each day a window mark to every topic partition.

    With a speed, the first day goes at once and the others wait for `go`: by then the service has seen its first batch,
    for which it starts programs and loads code.
    """

    def __init__(
        self,
        kafka: Mapping[str, str],
        topic: str,
        topic_partitions: int,
        days: Iterable[Day],
        days_per_second: float | None,
    ) -> None:
        """`kafka` has librdkafka's properties; `days_per_second`: None plays as fast as it goes."""
        super().__init__(name="player", daemon=True)
        self.days = self.tuples = self.marks = 0
        #: airports of each day: how many summaries there must be
        self.summaries = 0
        self.error: KafkaError | None = None
        self._topic = topic
        self._topic_partitions = topic_partitions
        self._place = places(topic_partitions)
        self._played = days
        self._speed = days_per_second
        #: a moment, and the time of flights that is due then
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
        """Lets the days after the first begin."""
        self._going.set()

    def stop(self) -> None:
        """Ends it in the middle of a day; what is not sent yet is thrown away."""
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
        """Waits until it is time; False if the player was stopped."""
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
    """The topic partition of each airport, as every Kafka client in Java would choose it."""
    keys = pa.array([airport.encode() for airport in AIRPORTS], pa.binary())
    return dict(zip(AIRPORTS, partition_for(keys, topic_partitions).tolist(), strict=True))
