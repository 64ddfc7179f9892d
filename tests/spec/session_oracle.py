"""Sessions, one tuple at a time: slow, obvious, and written as the rules of docs/reference/session.md read.

Times are whole numbers: milliseconds of event time, nanoseconds of the clock.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tests.spec import event_oracle, oracle
from tests.spec.event_oracle import BOUNDS, BoundedFiring
from tests.spec.oracle import SECOND, Key, Stored, key_bytes

MAX_GAP = 3_650 * 86_400 * SECOND


@dataclass(frozen=True)
class Tuple:
    time: int
    gap: int
    stored: Stored

    @property
    def until(self) -> int:
        return self.time + self.gap


@dataclass
class Session:
    tuples: list[Tuple]

    @property
    def first(self) -> int:
        return min(t.time for t in self.tuples)

    @property
    def last(self) -> int:
        return max(t.time for t in self.tuples)

    @property
    def until(self) -> int:
        return max(t.until for t in self.tuples)

    def firing(self, key: Key) -> BoundedFiring:
        """The content is in the order of arrival."""
        content = sorted((t.stored for t in self.tuples), key=lambda stored: stored.arrived)
        return BoundedFiring(key, content, start=self.first, end=self.last)


@dataclass
class Sessions:
    #: a number of ticks, or the attribute that has it in seconds
    gap: int | str
    longest: float
    grace: int
    updates: bool
    #: nanoseconds of a tick
    tick: int
    now: float = -math.inf
    open: dict[Key, list[Session]] = field(default_factory=dict)

    def gap_of(self, stored: Stored) -> int | None:
        """G4: nanoseconds to the nearest, above 0 and of at most ten years, in whole ticks."""
        if not isinstance(self.gap, str):
            return self.gap
        if stored.values[self.gap] is None:
            return None
        seconds = float(stored.values[self.gap])
        if not math.isfinite(seconds):
            return None
        nanoseconds = round(Decimal(repr(seconds)) * SECOND)
        return nanoseconds // self.tick if 0 < nanoseconds <= MAX_GAP else None

    def insert(self, key: Key, time: int, new: Stored) -> tuple[bool, list[BoundedFiring]]:
        """Whether the tuple found a session, and what comes out (G10)."""
        gap = self.gap_of(new)
        if gap is None:
            return False, []
        sessions = self.open.setdefault(key, [])
        joined = self.joined(sorted(sessions, key=lambda s: s.first), Tuple(time, gap, new))
        whole = Session([t for s in joined for t in s.tuples] + [Tuple(time, gap, new)])
        if self.reach(whole) + self.grace < self.now:
            return False, []  # G7
        self.open[key] = [s for s in sessions if s not in joined] + [whole]
        if self.longest == math.inf:
            self.check(key)
        return True, [whole.firing(key)] if self.updates else []

    def joined(self, sessions: list[Session], new: Tuple) -> list[Session]:
        """The sessions that the tuple joins (G2, G3), none of which becomes too long (G9)."""
        around = [s for s in sessions if s.first <= new.time <= s.last]
        before = [s for s in sessions if s.last < new.time][-1:]
        behind = [s for s in sessions if s.first > new.time]
        found = around or [s for s in before if new.time <= s.until and new.time - s.first <= self.longest]
        for session in behind:
            whole = Session([t for s in found for t in s.tuples] + [new])
            both = Session(whole.tuples + session.tuples)
            if session.first > whole.until or both.last - both.first > self.longest:
                break
            found = [*found, session]
        return found

    def check(self, key: Key) -> None:
        """Without a maximum, sessions are what is connected, however it came (G2)."""
        tuples = sorted((t for s in self.open[key] for t in s.tuples), key=lambda t: t.time)
        connected: list[Session] = []
        for one in tuples:
            if connected and one.time <= connected[-1].until:
                connected[-1].tuples.append(one)
            else:
                connected.append(Session([one]))
        found = sorted(sorted(t.stored.arrived for t in s.tuples) for s in self.open[key])
        assert found == sorted(sorted(t.stored.arrived for t in s.tuples) for s in connected)

    def reach(self, session: Session) -> float:
        """The latest time of a tuple that could join (G5, G9)."""
        return min(session.until, session.first + self.longest)

    def advance(self, now: int) -> Iterator[BoundedFiring]:
        """What is over comes out in the order in which that happened, then by key (G5, G8), and is gone."""
        if now <= self.now:
            return
        self.now = now
        over = [
            (self.reach(s), key_bytes(key), key, s)
            for key, sessions in self.open.items()
            for s in sessions
            if self.reach(s) + self.grace < now
        ]
        for _, _, key, session in sorted(over, key=lambda row: row[:2]):
            self.open[key].remove(session)
            if not self.updates:
                yield session.firing(key)


@dataclass
class Aggregate(event_oracle.Aggregate):
    def result(self, group: list[Stored], groups: list[list[Stored]], firing: oracle.Firing) -> dict[str, Any]:
        """CountAll counts the tuples of the session (G13)."""
        assert isinstance(firing, BoundedFiring)
        described = {"sessionStart()": self.bound(firing.start), "sessionEnd()": self.bound(firing.end)}
        calls = self.output
        self.output = {name: call for name, call in calls.items() if call not in described}
        row = oracle.Aggregate.result(self, group, groups, firing)
        self.output = calls
        return {name: described[call] if call in described else row[name] for name, call in calls.items()}


class Operator(event_oracle.Operator):
    """An Aggregate over sessions of event time (G6), or without `event_time` of the clock (G11, G12)."""

    def __init__(self, operator: dict[str, Any], topic_partitions: int = 1) -> None:
        self.schema, self.event_time = operator["schema"], operator.get("event_time")
        self.window: Sessions = window(operator)  # type: ignore[assignment]
        bound = BOUNDS[self.schema[self.event_time].rstrip("?")] if self.event_time else lambda ns: ns / SECOND
        self.aggregate = Aggregate(
            self.window, operator["partition_by"], operator["group_by"], False, operator["output"],  # type: ignore[arg-type]  # noqa: FBT003
            bound=bound,
        )  # fmt: skip
        self.live = set(range(topic_partitions))
        self.watermarks = dict.fromkeys(self.live, -math.inf)
        self.dropped: list[int] = []
        self.at = 0

    def handle(self, number: int, event: dict[str, Any]) -> Iterator[dict[str, Any]]:
        self.at = oracle.nanoseconds(event["at"])
        if self.event_time is None and self.live:
            yield from self.emitted(self.window.advance(self.at))
        yield from super().handle(number, event)

    def take(self, number: int, values: dict[str, Any], source: int) -> Iterator[dict[str, Any]]:
        typed = oracle.typed(values, self.schema)
        if self.event_time and typed[self.event_time] is None:
            self.dropped.append(number)
            return
        time = event_oracle.milliseconds(typed[self.event_time]) if self.event_time else self.at
        found, firings = self.window.insert(self.aggregate.key(typed), time, Stored(typed, number, source))
        if not found:
            self.dropped.append(number)
        yield from self.emitted(firings)


def window(operator: dict[str, Any]) -> Sessions:
    parts = dict(re.findall(r"(\w+)\(([^)]*)\)", operator["window"]))
    tick = event_oracle.MILLISECOND if "event_time" in operator else 1

    def ticks(size: str) -> int:
        return int(Decimal(size) * SECOND) // tick

    gap = parts["inactivityGap"]
    longest = ticks(parts["maximumDuration"]) if "maximumDuration" in parts else math.inf
    updates = operator.get("emit") == "updates"
    return Sessions(gap if gap.isalpha() else ticks(gap), longest, ticks(parts.get("grace", "0")), updates, tick)


def run(case: dict[str, Any]) -> tuple[list[dict[str, Any]], list[int]]:
    """The output of a case, and the numbers of the events whose tuples found no session."""
    topic_partitions = 1 + max((e.get("topic_partition", 0) for e in case["input"]), default=0)
    operator = Operator(case["operator"], topic_partitions)
    return operator.run(case["input"]), operator.dropped
