"""A consumer that gives the messages of a test."""

from __future__ import annotations

import threading
from collections import deque

import confluent_kafka
from confluent_kafka import KafkaError

END = KafkaError._PARTITION_EOF  # noqa: SLF001


class Failure:
    def __init__(self, code):
        self._code = code

    def code(self):
        return self._code


class Message:
    """A record, or with `code` an event of the client."""

    def __init__(self, offset, code=None):
        self._offset, self._code = offset, code

    def offset(self):
        return self._offset

    def error(self):
        return None if self._code is None else Failure(self._code)


class Record(Message):
    """A message with its topic partition."""

    def __init__(self, place, offset, code=None, value=b"v"):
        super().__init__(offset, code)
        self._place, self._value = place, value

    def __len__(self):
        return len(self._value)

    def topic(self):
        return self._place[0]

    def partition(self):
        return self._place[1]

    def key(self):
        return None

    def value(self):
        return self._value

    def headers(self):
        return None


class Consumer(confluent_kafka.Consumer):
    """A consumer that gives the messages of `arrivals`, one list for each poll.

    `closed` is the name of the thread that closed it.
    """

    closed = None

    def __init__(self, *arrivals):
        super().__init__({"group.id": "tests"})
        self.arrivals, self.assigned, self.rest = deque(arrivals), [], []

    def assign(self, places):
        self.assigned.append({(p.topic, p.partition): p.offset for p in places})

    def close(self):
        self.closed = threading.current_thread().name

    def poll(self, _):
        first, *self.rest = self.arrivals.popleft() if self.arrivals else [None]
        return first

    def consume(self, *_):
        found, self.rest = self.rest, []
        return found
