"""The board of the demo: the data that the screen shows, and the reader of the output topics that fills it.

The reader is a plain Kafka consumer that sees committed records only.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from sluice.wire.mark_headers import HEADER

#: number of days that the board keeps
DAYS = 8
#: seconds over which a rate is computed
SPAN = 3.0
#: maximum number of records of a reading
MAX_CONSUMED = 5000


@dataclass(slots=True)
class Airport:
    """The last tuple of the stream `delays` for an airport."""

    time: str
    departures: int
    delay: float


@dataclass(frozen=True, slots=True)
class Summary:
    """A tuple of the stream `days`: the summary of a day of an airport."""

    departures: int
    delay: float
    worst: float
    worst_flight: str


class Rate:
    """The growth of a count per second, over the last SPAN seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def per_second(self, count: int, now: float) -> float:
        self._seen.append((now, count))
        while now - self._seen[0][0] > SPAN:
            self._seen.popleft()
        then, before = self._seen[0]
        return (count - before) / (now - then) if now > then else 0.0


@dataclass(slots=True)
class Board:
    #: number of cancelled flights of the year, which are not played
    cancelled: int = 0
    #: days, tuples and marks that the player has sent
    days_in: int = 0
    tuples_in: int = 0
    marks_in: int = 0
    #: tuples read from the output of either operator, marks, and dead letters
    delays_out: int = 0
    days_out: int = 0
    marks_out: int = 0
    dead: int = 0
    airports: dict[str, Airport] = field(default_factory=dict)
    days: dict[str, dict[str, Summary]] = field(default_factory=dict)
    rate_in: float = 0.0
    rate_out: float = 0.0
    _in: Rate = field(default_factory=Rate)
    _out: Rate = field(default_factory=Rate)

    @property
    def lag(self) -> int:
        """The number of sent departures whose average has not been read yet."""
        return self.tuples_in - self.delays_out

    @property
    def clock(self) -> str:
        """The time of the latest departure whose average has been read; empty at first."""
        return max((airport.time for airport in self.airports.values()), default="")

    @property
    def out(self) -> int:
        """The number of records read from the output topics."""
        return self.delays_out + self.days_out + self.marks_out + self.dead

    def incomplete(self, tuples: int, summaries: int) -> bool:
        """Whether outputs are missing, if `tuples` departures were sent and `summaries` day summaries are expected."""
        return self.delays_out + self.dead < tuples or (self.days_out < summaries and not self.dead)

    def sent(self, days: int, tuples: int, marks: int) -> None:
        self.days_in, self.tuples_in, self.marks_in = days, tuples, marks

    def delay(self, value: dict[str, Any]) -> None:
        self.delays_out += 1
        self.airports[value["origin"]] = Airport(value["time"], value["departures"], value["delay"])

    def day(self, value: dict[str, Any]) -> None:
        self.days_out += 1
        worst = f"{value['worst_carrier']} {value['worst_flight']}"
        summary = Summary(value["departures"], value["delay"], value["worst"], worst)
        self.days.setdefault(value["date"], {})[value["origin"]] = summary
        while len(self.days) > DAYS:
            del self.days[min(self.days)]

    def tick(self, now: float | None = None) -> None:
        """Computes the rates as of `now` (monotonic seconds; None means the present)."""
        now = time.monotonic() if now is None else now
        self.rate_in = self._in.per_second(self.tuples_in, now)
        self.rate_out = self._out.per_second(self.delays_out + self.days_out, now)


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
