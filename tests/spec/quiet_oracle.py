"""Streams whose watermark follows the clock while they are quiet (`advance`), one moment at a time: slow, obvious, and
written as rules E3 to E5, Q1 to Q5 and F5 read.

The windows are those of the other oracles, which count whole milliseconds. Times here are nanoseconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from tests.spec import event_oracle, oracle, session_oracle
from tests.spec.early_oracle import Early, Open, open_windows, policy
from tests.spec.event_oracle import MILLISECOND, BoundedFiring, SlidingTime

Record = dict[str, Any]
#: how many steps have the same length, before those of twice the length, and the least length (Q3)
STEPS, LEAST_STEP = 100, 10 * MILLISECOND


@dataclass
class Stream:
    """The watermark of a stream, from its tuples and from the clock."""

    lag: int
    gap: int
    idle_after: int
    #: by topic partition: its watermark, and the operator clock when its last item came
    watermarks: dict[int, float]
    heard: dict[int, int]
    idle: set[int] = field(default_factory=set)
    watermark: float = -math.inf
    #: how many steps the watermark has made in the present silence, and how long they are together
    steps: int = 0
    passed: int = 0

    def moments(self, now: int) -> Iterator[int]:
        """The watermarks that time brings until `now`, inclusive: one for each instant."""
        while (moment := self.next_moment()) <= now:
            before = self.watermark
            while self.next_moment() == moment:
                self.watermark = max(before, self.watermark, self.stepped(int(moment)))
            if self.watermark > before:  # E5
                yield int(self.watermark)

    def stepped(self, at: int) -> float:
        """What the watermark becomes: topic partitions have become idle, or the next step is due."""
        if len(self.idle) < len(self.heard):
            self.idle |= {source for source, heard in self.heard.items() if heard + self.idle_after <= at}
            return self.least()
        self.passed += max(self.gap, LEAST_STEP) << (self.steps // STEPS)  # Q3
        self.steps += 1
        return at - self.lag  # Q1

    def next_moment(self) -> float:
        """When a topic partition becomes idle, or the next step is due."""
        awake = [heard for source, heard in self.heard.items() if source not in self.idle]
        if awake:
            return min(awake) + self.idle_after
        if self.watermark == -math.inf:
            return math.inf  # Q2
        return max(self.heard.values()) + self.idle_after + self.passed

    def advanced(self, watermark: float) -> Iterator[int]:
        if watermark > self.watermark:  # E5
            self.watermark = watermark
            yield int(watermark)

    def least(self) -> float:
        """E4; of topic partitions that are all idle the greatest one."""
        awake = [watermark for source, watermark in self.watermarks.items() if source not in self.idle]
        return min(awake) if awake else max(self.watermarks.values())

    def item(self, at: int, source: int) -> None:
        """Any item ends the silence (Q4)."""
        self.heard[source] = at
        self.steps = self.passed = 0
        self.idle.discard(source)

    def tuple(self, source: int, time: int) -> Iterator[int]:
        """The watermark that follows a tuple (E3)."""
        before = self.watermarks[source]
        if time - self.lag > before and time - self.lag - before >= self.gap:
            self.watermarks[source] = time - self.lag
            yield from self.advanced(self.least())


def stream_of(operator: dict[str, Any], events: list[Record]) -> Stream:
    declared = operator["watermarks"]
    lag, gap, idle = (oracle.nanoseconds(declared[name]) for name in ("lag", "minimum_gap", "idle_after"))
    sources = range(1 + max(event.get("topic_partition", 0) for event in events))
    start = oracle.nanoseconds(events[0]["at"])
    return Stream(lag, gap, idle, dict.fromkeys(sources, -math.inf), dict.fromkeys(sources, start))


class Quiet:
    """An operator over such a stream, and its early results if it has some."""

    def __init__(self, case: dict[str, Any]) -> None:
        operator = case["operator"]
        self.stream = stream_of(operator, case["input"])
        kind = session_oracle.Operator if operator["window"].startswith("session") else event_oracle.Operator
        self.operator = kind(operator, len(self.stream.heard))
        self.window = self.operator.window
        if isinstance(self.window, SlidingTime):
            self.window.following = len(self.stream.heard)
        self.early = Early(self.operator, *policy(operator["early"])) if "early" in operator else None

    def handle(self, number: int, event: Record) -> Iterator[Record]:
        """The records of one event, after what is due by then."""
        at, source = oracle.nanoseconds(event["at"]), event.get("topic_partition", 0)
        if not self.operator.live:
            return  # P14
        yield from self.pass_time(at)
        if source not in self.operator.live or not event.keys() & {"tuple", "punct", "watermark"}:
            return
        if event.get("punct") == "final":
            yield from self.operator.handle(number, event)
            return
        self.stream.item(at, source)
        if "tuple" in event:
            yield from self.operator.take(number, event["tuple"], source)
            if self.early is not None:
                yield from self.early.counted(at)
            values = oracle.typed(event["tuple"], self.operator.schema)
            time = event_oracle.milliseconds(values[self.operator.event_time]) * MILLISECOND
            for watermark in self.stream.tuple(source, time):
                yield from self.operator.emitted(self.advanced(watermark))

    def pass_time(self, now: int) -> Iterator[Record]:
        """What happens until `now`, inclusive: early results, and what the watermarks of the clock cause."""
        while self.early is not None and (due := min(self.early.due(), default=math.inf)) <= now:
            instant = int(min(due, self.stream.next_moment()))
            yield from self.at_instant(self.early, self.early.due().get(instant, []), instant)
        for watermark in self.stream.moments(now):
            yield from self.operator.emitted(self.advanced(watermark))

    def advanced(self, watermark: int) -> Iterator[BoundedFiring]:
        """The results of a watermark, which may be between two milliseconds."""
        return self.window.advance(Fraction(watermark, MILLISECOND))

    def at_instant(self, early: Early, due: list[Open], now: int) -> Iterator[Record]:
        """Early results, and what a watermark of the clock causes then, are in order of their windows and keys (F5)."""
        for watermark in self.stream.moments(now):
            yield from early.emitted(due, self.closed(watermark))
            due = []
        yield from early.emitted(due, [])

    def closed(self, watermark: int) -> list[Open]:
        """The results of a watermark, with the places of their windows in this order: the reach of a session, the start
        of a pane.
        """
        reach = {
            (one.rank[1], one.result.start): one.order
            for one in open_windows(self.window)
            if isinstance(one.result, BoundedFiring)
        }
        found = [(firing.start, Open(firing.start, firing)) for firing in self.advanced(watermark)]
        return [replace(one, order=reach.get((one.rank[1], start), start)) for start, one in found]


def run(case: dict[str, Any]) -> tuple[list[Record], list[int]]:
    """The output of a case, and the numbers of the events whose tuples were late."""
    quiet = Quiet(case)
    found = [{"after": n} | record for n, event in enumerate(case["input"]) for record in quiet.handle(n, event)]
    return found, quiet.operator.dropped
