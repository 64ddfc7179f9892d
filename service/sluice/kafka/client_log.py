"""The loggers for messages about Kafka: of the service, and of the client library."""

from __future__ import annotations

import logging
import re

#: the parts in which repetitions of a message differ: numbers, and counts of suppressed errors
VARYING = re.compile(r", \d+ identical error\(s\) suppressed|\d+")


class RepeatedMessageFilter(logging.Filter):
    """Passes a message at most once in `seconds`. Messages that differ only in numbers count as the same message.

    The library repeats a message ten times a second while a broker is unreachable.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        message = VARYING.sub("", record.getMessage())
        repeated = message in self._last and record.created - self._last[message] < self._seconds
        if not repeated:
            self._last[message] = record.created
        return not repeated


LOGGER = logging.getLogger("sluice.kafka")
#: the logger that the client library writes to
CLIENT = LOGGER.getChild("client")
CLIENT.addFilter(RepeatedMessageFilter(30.0))
