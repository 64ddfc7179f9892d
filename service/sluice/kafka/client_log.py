"""What is logged about Kafka, by us and by the client library."""

from __future__ import annotations

import logging
import re

#: numbers and counts, which differ from one message to the next that says the same
VARYING = re.compile(r", \d+ identical error\(s\) suppressed|\d+")


class RepeatedMessageFilter(logging.Filter):
    """Lets a message through once in a while: while a broker is gone, the library repeats itself ten times a second."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        said = VARYING.sub("", record.getMessage())
        heard = said in self._last and record.created - self._last[said] < self._seconds
        if not heard:
            self._last[said] = record.created
        return not heard


LOGGER = logging.getLogger("sluice.kafka")
#: for the client library
CLIENT = LOGGER.getChild("client")
CLIENT.addFilter(RepeatedMessageFilter(30.0))
