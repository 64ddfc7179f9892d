"""Waits for the next record of topic partitions in one request, which the broker answers when the record comes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial

from confluent_kafka import Consumer, KafkaException, TopicPartition

from sluice.kafka.client import client_properties
from sluice.kafka.kafka_errors import HungError
from sluice.kafka.range_reader import END, READER_PROPERTIES, Offsets
from sluice.kafka.requests import REQUEST, bounded, discard

#: How a broker answers: with the first record, or after five seconds. The client holds few records, and requests no
#: further ones until they are taken.
WAITING = {
    "fetch.min.bytes": 1, "fetch.wait.max.ms": 5000, "fetch.message.max.bytes": 16 << 10,
    "queued.max.messages.kbytes": 16, "fetch.queue.backoff.ms": 1000,
}  # fmt: skip
#: seconds of one poll: the longest time after which `end` ends a wait
POLL_S = 1.0


class RecordWait:
    """Waits for records behind the offsets that were read. For one thread; `end` may be called by another one."""

    def __init__(self, kafka: Mapping[str, str], make: Callable[[dict[str, object]], Consumer] = Consumer) -> None:
        """`make` makes a consumer with these properties."""
        self._properties = client_properties(kafka, "consumer") | READER_PROPERTIES | WAITING
        self._make = make
        self._consumers: list[Consumer] = []
        #: the offsets behind which it waits; empty: it does not
        self._starts: Offsets = {}
        self._over = threading.Event()

    def wait(self, starts: Offsets, seconds: float) -> bool:
        """Waits until a topic partition has a committed record from these offsets on, for at most so many seconds.

        Returns whether one may have come: also after an error of the client, and after `end`.
        """
        deadline = time.monotonic() + seconds
        try:
            consumer = self._at(starts)
            while not self._over.is_set():
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                message = consumer.poll(min(left, POLL_S))
                if message is not None and not (message.error() and message.error().code() == END):
                    break
            self.rest()
        except (KafkaException, HungError):
            self.close()
        return True

    def rest(self) -> None:
        """Requests nothing until the next `wait`."""
        if self._starts:
            self._starts = {}
            try:
                bounded("leave the topic partitions", REQUEST, self._consumers[0].unassign)
            except HungError:
                self.close()

    def end(self) -> None:
        """Ends the wait, and lets no later one begin."""
        self._over.set()

    def close(self) -> None:
        """Closes the client; the next `wait` makes a new one."""
        self._starts = {}
        discard(self._consumers)

    def _at(self, starts: Offsets) -> Consumer:
        if not self._consumers:
            self._consumers.append(self._make(self._properties))
        if starts != self._starts:
            places = [TopicPartition(*place, offset) for place, offset in starts.items()]
            bounded("assign the topic partitions", REQUEST, partial(self._consumers[0].assign, places))
            self._starts = dict(starts)
        return self._consumers[0]
