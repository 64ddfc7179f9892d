"""Records that come all the time, so that a batch is in hand at any time."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from confluent_kafka import Producer

from sluice.kafka.client import client_properties
from tests.recovery.harness.output_reader import Record
from tests.recovery.harness.service import Service
from tests.unit.kafka.broker_tools import visible

KEYS = 10
#: seconds between two records
PAUSE = 0.02
_numbers = count()


class Source:
    """Sends tuples {"k": ..., "v": number} to the stream `in` of a service, past a proxy."""

    def __init__(self, service: Service) -> None:
        own = {"enable.idempotence": True, "linger.ms": 0}
        self._producer = Producer(client_properties(service.kafka, "producer") | own)
        self._topic = service.topic("in")
        self._confirmed = threading.Semaphore(0)

    def produce(self) -> None:
        number = next(_numbers)
        value = {"k": f"key {number % KEYS}", "v": number}
        self._producer.produce(self._topic, json.dumps(value).encode(), value["k"], on_delivery=self._delivered)
        self._producer.poll(0)

    def _delivered(self, error: object, _: object) -> None:
        if error is None:
            self._confirmed.release()

    def flush(self) -> None:
        """Waits until the broker has all tuples."""
        assert self._producer.flush(120) == 0

    def await_sent(self, count: int) -> None:
        """Waits until the broker has `count` more records."""
        for _ in range(count):
            self._producer.poll(0)
            assert self._confirmed.acquire(timeout=120)

    @contextmanager
    def feeding(self) -> Iterator[None]:
        """Sends a tuple every PAUSE seconds, from a thread, until the block ends. The broker has all of them then."""
        over = threading.Event()

        def feed() -> None:
            while not over.wait(PAUSE):
                self.produce()

        thread = threading.Thread(target=feed)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            self.flush()


def send_one(service: Service) -> None:
    """Sends a tuple, and waits until the broker has it.

    The client is new: after a restart and a freeze of the broker, librdkafka's producer may keep an old leader epoch.
    """
    source = Source(service)
    source.produce()
    source.flush()


@contextmanager
def feeding(service: Service) -> Iterator[Source]:
    """A source that sends tuples until the block ends."""
    source = Source(service)
    with source.feeding():
        yield source


def appended(service: Service) -> list[Record]:
    """What the input topic holds, as events of a replay; at the end enough time has passed for every window.

    The times are those of the topic (`LogAppendTime`), which has one topic partition.
    """
    found = [
        {"at": message.timestamp()[1] / 1000, "stream": "in", "tuple": json.loads(message.value())}
        for message in visible(service.kafka, service.topic("in"))
    ]
    return [*found, {"at": found[-1]["at"] + 5}]
