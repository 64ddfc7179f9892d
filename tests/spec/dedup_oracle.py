"""A Dedup, one tuple at a time: slow, obvious, and written as the rules Z1 to Z8 of docs/reference/extensions.md read.

All tuples that ever began a period are kept; a tuple is compared with all of them. Times are whole numbers:
milliseconds of event time, nanoseconds of the clock.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tests.spec import event_oracle, oracle
from tests.spec.oracle import Key

Record = dict[str, Any]


@dataclass
class Period:
    """The first tuple's time, and all tuples with their times, in order of arrival."""

    key: Key
    begin: int
    tuples: list[tuple[int, oracle.Tuple]] = field(default_factory=list)
    emitted: bool = False

    @property
    def newest(self) -> oracle.Tuple:
        latest = max(time for time, _ in self.tuples)
        return [values for time, values in self.tuples if time == latest][-1]


class Operator:
    def __init__(self, operator: dict[str, Any], topic_partitions: int) -> None:
        self.schema, self.by, self.keep = operator["schema"], operator["by"], operator.get("keep", "first")
        ((word, size),) = re.findall(r"(\w+)\((.*)\)", operator["within"])
        self.event_time = operator["event_time"] if word == "eventTime" else None
        self.size = int(Decimal(size) * (1000 if self.event_time else oracle.SECOND))
        self.periods: list[Period] = []
        self.live = set(range(topic_partitions))
        self.watermarks = dict.fromkeys(self.live, -math.inf)
        self.now = -math.inf
        self.late: list[int] = []

    def run(self, events: list[Record]) -> list[Record]:
        return [
            {"after": n} | oracle.as_json(record) for n, event in enumerate(events) for record in self.handle(n, event)
        ]

    def handle(self, number: int, event: Record) -> Iterator[Record]:
        if not self.live:
            return  # P14
        if self.event_time is None:
            yield from self.advance(oracle.nanoseconds(event["at"]))
        source = event.get("topic_partition", 0)
        if source not in self.live:
            return
        if "tuple" in event:
            yield from self.take(number, oracle.typed(event["tuple"], self.schema))
        elif "watermark" in event:
            self.watermarks[source] = max(self.watermarks[source], event["watermark"])
            least = min(self.watermarks.values())
            if self.event_time is not None and least > -math.inf:
                yield from self.advance(round(least * 1000))
        elif event.get("punct") == "window":
            yield {"punct": "window"}
        elif event.get("punct") == "final":
            self.live.remove(source)
            if not self.live:
                yield from self.emitted(self.periods, by_end=self.event_time is not None)
                yield {"punct": "final"}

    def take(self, number: int, values: oracle.Tuple) -> Iterator[Record]:
        if self.event_time is not None and values[self.event_time] is None:
            self.late.append(number)
            return
        time = self.now if self.event_time is None else event_oracle.milliseconds(values[self.event_time])
        if time < self.now:
            self.late.append(number)
            return
        key = oracle.identity(values, self.by)
        near = [p for p in self.periods if p.key == key and abs(p.begin - time) < self.size]
        before = [p for p in near if p.begin <= time]
        if near:
            (before or near)[0].tuples.append((time, values))
            return
        self.periods.append(Period(key, time, [(time, values)], emitted=self.keep == "first"))
        if self.keep == "first":
            yield {"tuple": values}

    def advance(self, now: int) -> Iterator[Record]:
        if now > self.now:
            self.now = now
            yield from self.emitted([p for p in self.periods if p.begin + self.size <= now], by_end=True)

    def emitted(self, periods: list[Period], *, by_end: bool) -> Iterator[Record]:
        over = [p for p in periods if not p.emitted]
        for period in sorted(over, key=lambda p: (p.begin * by_end, oracle.key_bytes(p.key))):
            period.emitted = True
            yield {"tuple": period.newest}


def run(case: dict[str, Any]) -> tuple[list[Record], list[int]]:
    """The output of a case, and the numbers of the events whose tuples were late."""
    topic_partitions = 1 + max((e.get("topic_partition", 0) for e in case["input"]), default=0)
    operator = Operator(case["operator"], topic_partitions)
    return operator.run(case["input"]), operator.late
