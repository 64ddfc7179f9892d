"""Joins over event time, one tuple at a time: slow, obvious, and written as the rules I1 to I8 and U1 to U7 read.

Times are nanoseconds. Nothing is ever forgotten: each tuple is compared with all that came before it.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.spec.event_oracle import milliseconds
from tests.spec.join_oracle import OTHER, Case, JoinedRows, Record, condition, equal
from tests.spec.join_oracle import side as settings
from tests.spec.oracle import Tuple, identity, key_bytes, nanoseconds, typed

MILLISECOND = 10**6


@dataclass
class Seen:
    """A tuple that was not late. `left`: whether it has left the join."""

    side: str
    values: Tuple
    time: int
    number: int
    matched: bool = False
    gone: bool = False


class EventJoin(JoinedRows, ABC):
    def __init__(self, operator: Case, topic_partitions: dict[str, int]) -> None:
        self.operator = operator
        word = {f"schema_{name}": operator[f"schema_{name}"] for name in OTHER}
        nothing = {"left": "sliding, count(0)", "right": "sliding, count(0)"}
        self.sides = {name: settings(operator | nothing | word, name) for name in OTHER}
        sizes = dict(re.findall(r"(\w+)\(([^)]*)\)", operator["window"]))
        self.sizes = {name: nanoseconds(size) for name, size in sizes.items()}
        self.match = condition(operator.get("match"))
        self.live = {name: set(range(count)) for name, count in topic_partitions.items()}
        self.watermarks = {name: dict.fromkeys(live, -math.inf) for name, live in self.live.items()}
        self.seen: list[Seen] = []
        self.clock = -math.inf
        #: the numbers of the events whose tuples were late
        self.dropped: list[int] = []

    def run(self, events: list[Record]) -> list[Record]:
        return [{"after": n} | record for n, event in enumerate(events) for record in self.handle(n, event)]

    def handle(self, number: int, event: Record) -> Iterator[Record]:
        name, source = event.get("port"), event.get("topic_partition", 0)
        if name is None or source not in self.live[name]:
            return
        if "tuple" in event:
            values = typed(event["tuple"], self.sides[name].schema)
            if values[self.operator["event_time"]] is None:  # NU27
                self.dropped.append(number)
                return
            time = milliseconds(values[self.operator["event_time"]]) * MILLISECOND
            if time < self.clock:  # I4, U4
                self.dropped.append(number)
                return
            yield from marked(list(self.arrive(Seen(name, values, time, number))))
        elif "watermark" in event:
            mine = self.watermarks[name]
            mine[source] = max(mine[source], milliseconds(event["watermark"]) * MILLISECOND)
            clock = min(min(of.values()) for of in self.watermarks.values()) - self.sizes.get("grace", 0)
            if clock > self.clock:
                self.clock = clock
                yield from self.advance()
        elif event.get("punct") == "final":
            self.live[name].remove(source)
            if not any(self.live.values()):  # I8: what is stored is not emitted
                streams = ["output", *(f"unmatched_{n}" for n in OTHER if self.sides[n].apart)]
                yield from ({"stream": stream, "punct": "final"} for stream in streams)

    @abstractmethod
    def arrive(self, new: Seen) -> Iterator[Record]:
        """The outputs that a tuple causes that is not late."""

    @abstractmethod
    def advance(self) -> Iterator[Record]:
        """The outputs that a watermark causes."""

    def partners(self, left: Tuple, right: Tuple) -> bool:
        sides = self.sides["left"], self.sides["right"]
        return equal(sides[0], left, sides[1], right) and self.match(left, right)

    def order(self, one: Seen) -> Any:
        """The order of the outputs of one watermark (I6, U6)."""
        key = identity(one.values, self.sides[one.side].equality)
        return one.time, key_bytes(key) if key else b"", one.side, one.number


def marked(records: list[Record]) -> list[Record]:
    """A window mark follows the outputs of a tuple (I6)."""
    some = any(record["stream"] == "output" for record in records)
    return [*records, *[{"stream": "output", "punct": "window"}] * some]


class IntervalJoin(EventJoin):
    def near(self, left: Seen, right: Seen) -> bool:
        return -self.sizes["before"] <= right.time - left.time <= self.sizes["after"]  # I1

    def until(self, one: Seen) -> int:
        """The time after which no tuple can be near."""
        return one.time + self.sizes["after" if one.side == "left" else "before"]

    def arrive(self, new: Seen) -> Iterator[Record]:
        for other in sorted((o for o in self.seen if o.side != new.side), key=lambda o: (o.time, o.number)):  # I2
            left, right = (new, other) if new.side == "left" else (other, new)
            if self.near(left, right) and self.partners(left.values, right.values):
                new.matched = other.matched = True
                yield self.joined({"left": left.values, "right": right.values})
        self.seen.append(new)
        if self.until(new) < self.clock:
            new.gone = True
            yield from self.unmatched(self.sides[new.side], new)

    def advance(self) -> Iterator[Record]:
        leaving = [one for one in self.seen if not one.gone and self.until(one) < self.clock]  # I5
        for one in sorted(leaving, key=self.order):
            one.gone = True
            yield from self.unmatched(self.sides[one.side], one)


class AsOfJoin(EventJoin):
    def arrive(self, new: Seen) -> Iterator[Record]:
        self.seen.append(new)
        yield from ()

    def advance(self) -> Iterator[Record]:
        certain = [one for one in self.seen if one.side == "left" and not one.gone and one.time < self.clock]  # U2
        for one in sorted(certain, key=self.order):
            one.gone = True
            older = [o for o in self.seen if o.side == "right" and o.time <= one.time]  # U1
            older = [o for o in older if self.partners(one.values, o.values)]
            newest = max(older, key=lambda o: (o.time, o.number), default=None)
            if newest is not None and one.time - newest.time <= self.sizes.get("maximumAge", math.inf):  # U3
                yield self.joined({"left": one.values, "right": newest.values})
            else:
                yield from self.unmatched(self.sides[one.side], one)


def run(case: Case) -> tuple[list[Record], list[int]]:
    """The outputs of a case, and the numbers of the events whose tuples were late."""
    counts = dict.fromkeys(OTHER, 1)
    for event in case["input"]:
        if "port" in event:
            counts[event["port"]] = max(counts[event["port"]], event.get("topic_partition", 0) + 1)
    kind = IntervalJoin if case["operator"]["window"].startswith("interval") else AsOfJoin
    join = kind(case["operator"], counts)
    return join.run(case["input"]), join.dropped
