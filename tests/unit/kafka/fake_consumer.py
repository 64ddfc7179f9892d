"""A consumer that gives the messages of a test."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import groupby

from confluent_kafka import KafkaError, KafkaException

from sluice.kafka.librdkafka.column_consumer import Arrival, of_messages

END = KafkaError._PARTITION_EOF  # noqa: SLF001


@dataclass
class Record:
    """A record of a topic partition, or with `code` an event of the client."""

    place: tuple[str, int]
    number: int
    code: int | None = None
    content: bytes = b"v"
    milliseconds: int = 0

    def offset(self):
        return self.number

    def key(self):
        return None

    def value(self):
        return self.content

    def headers(self):
        return None

    def timestamp(self):
        return 1, self.milliseconds


class Consumer:
    """A ColumnConsumer that gives the messages of `arrivals`, one list for each call."""

    closed = False

    def __init__(self, *arrivals):
        self.arrivals, self.assigned = deque(arrivals), []

    def assign(self, starts):
        self.assigned.append(dict(starts))

    def close(self):
        self.closed = True

    def receive(self, _):
        messages = self.arrivals.popleft() if self.arrivals else []
        return [self._arrival(place, [*some]) for place, some in groupby(messages, lambda one: one.place)]

    def _arrival(self, place, messages):
        for one in messages:
            if one.code not in (None, END):
                raise KafkaException(KafkaError(one.code))
        reached = max(one.number + (one.code is None) for one in messages)
        return Arrival(place, of_messages([one for one in messages if one.code is None]), reached)
