"""The windows over event time, one tuple at a time: slow, obvious, and written as the rules read.

timeInterval is that of the semantics reference (E11 to E35); slidingTime is KIP-450's (T1 to T9, W1 to W11, E1 to E8):
at each tuple all windows of a partition are enumerated anew. Times are whole milliseconds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.spec import join_oracle, oracle
from tests.spec.oracle import Firing, Key, Stored, Timestamp, key_bytes

MILLISECOND = 10**6


@dataclass(frozen=True)
class BoundedFiring(Firing):
    """A firing with the bounds and the number of its window, which the pane functions return (E29)."""

    start: int = 0
    end: int = 0
    index: int = 0


# ---- timeInterval ----------------------------------------------------------------------------------------------------


@dataclass
class Pane:
    content: list[tuple[Key, Stored]] = field(default_factory=list)
    fired: int = 0
    #: the partitions with something new
    new: set[Key] = field(default_factory=set)


@dataclass
class TimeInterval:
    duration: int
    period: int
    discard_age: int
    offset: int
    panes: dict[int, Pane] = field(default_factory=dict)
    watermark: float = -math.inf

    def insert(self, key: Key, time: int, new: Stored) -> tuple[bool, list[BoundedFiring]]:
        """Whether the tuple found a place, or was meant to find none; it triggers nothing (E22)."""
        if time < self.watermark - self.discard_age:
            return False, []  # E18
        starts = list(self.starts(time))
        for start in starts:
            pane = self.panes.setdefault(start, Pane())  # E16
            pane.content.append((key, new))
            pane.new.add(key)
        in_gap = (time - self.offset) % self.period >= self.duration  # E15
        return bool(starts) or in_gap, []

    def starts(self, time: int) -> Iterator[int]:
        """Of all panes that hold the time (E11); none reaches across 0."""
        start = time - (time - self.offset) % self.period
        while start > time - self.duration:
            if not start < 0 < start + self.duration:
                yield start
            start -= self.period

    def advance(self, watermark: int) -> Iterator[BoundedFiring]:
        if watermark <= self.watermark:
            return  # E22
        self.watermark = watermark
        for start, pane in sorted(self.panes.items()):
            if watermark >= start + self.duration:
                yield from self.trigger(start, start + self.duration, pane)
            if watermark >= start + self.duration + self.discard_age:
                del self.panes[start]  # E23: complete, trigger, close

    def trigger(self, start: int, end: int, pane: Pane) -> Iterator[BoundedFiring]:
        for key in sorted(pane.new, key=key_bytes):  # E24: a partition that is new, too
            content = [t for k, t in pane.content if k == key]  # E24: the whole content
            stored = len(pane.content)  # A18
            yield BoundedFiring(key, content, stored=stored, start=start, end=end, index=pane.fired)
        pane.fired += bool(pane.new)
        pane.new = set()


class Cumulate(TimeInterval):
    """Panes that begin together and grow by `period` up to `duration`; `panes` has them by end (CU1)."""

    def insert(self, key: Key, time: int, new: Stored) -> tuple[bool, list[BoundedFiring]]:
        if time < self.watermark - self.discard_age:
            return False, []  # CU4
        start = self.start(time)
        for end in range(start + self.period, start + self.duration + 1, self.period):
            if time < end:  # CU2
                pane = self.panes.setdefault(end, Pane())
                pane.content.append((key, new))
                pane.new.add(key)
        return True, []

    def start(self, time: int) -> int:
        return time - (time - self.offset) % self.duration

    def advance(self, watermark: int) -> Iterator[BoundedFiring]:
        if watermark <= self.watermark:
            return
        self.watermark = watermark
        for end, pane in sorted(self.panes.items()):
            if watermark >= end:
                yield from self.trigger(self.start(end - 1), end, pane)
            if watermark >= end + self.discard_age:
                del self.panes[end]


# ---- slidingTime -----------------------------------------------------------------------------------------------------

Kept = list[tuple[int, Stored]]


@dataclass
class SlidingTime:
    difference: int
    grace: int
    window_set: str
    emit: str
    #: of each partition its kept tuples, as they came; a partition is a key of one topic partition
    kept: dict[tuple[int, Key], Kept] = field(default_factory=dict)
    #: stream time of each topic partition
    stream_time: dict[int, float] = field(default_factory=dict)
    #: the number of topic partitions whose stream time is at least the watermark (Q5); 0: only tuples move it (KIP T3)
    following: int = 0

    def insert(self, key: Key, time: int, new: Stored) -> tuple[bool, list[BoundedFiring]]:
        source = new.source
        before = self.stream_time.get(source, -math.inf)
        self.stream_time[source] = now = max(before, time)  # T5
        close = now - self.grace  # T4
        closed = self.closed(source, before - self.grace, close)
        old = self.kept.setdefault((source, key), [])
        with_it = [*old, (time, new)]
        holding = [
            s for s in self.windows(with_it) if s <= time <= s + self.difference and s + self.difference >= close
        ]
        if holding:
            self.kept[source, key] = with_it
        if self.emit == "final":
            return bool(holding), closed
        return bool(holding), self.changed(key, old, with_it, holding, close) if holding else []

    def windows(self, kept: Kept) -> set[int]:
        """The starts of all windows, open or not (KIP W3, P2)."""
        times, d = {t for t, _ in kept}, self.difference
        left = {max(t - d, 0) for t in times}  # W6
        if self.window_set == "perTimestampBackward":
            return left
        if self.window_set == "perTimestampForward":
            return {max(t, 0) for t in times}
        return left | {t + 1 for t in times if any(t + 1 <= u <= t + 1 + d for u in times)}

    def closed(self, source: int, before: float, close: float) -> list[BoundedFiring]:
        """The windows that were open and are not any more, by start, then key."""
        found = [
            (start, key_bytes(key), self.firing(key, kept, start))
            for (place, key), kept in self.kept.items()
            if place == source
            for start in self.windows(kept)
            if before <= start + self.difference < close
        ]
        return [firing for *_, firing in sorted(found, key=lambda row: row[:2])]

    def changed(self, key: Key, old: Kept, new: Kept, holding: list[int], close: float) -> list[BoundedFiring]:
        """The windows that hold the tuple, and those that it brings into being (E1)."""
        born = {s for s in self.windows(new) - self.windows(old) if s + self.difference >= close}
        return [self.firing(key, new, start) for start in sorted(born | set(holding))]

    def firing(self, key: Key, kept: Kept, start: int) -> BoundedFiring:
        end = start + self.difference
        return BoundedFiring(key, [t for time, t in kept if start <= time <= end], start=start, end=end)

    def advance(self, watermark: int) -> Iterator[BoundedFiring]:
        """The windows that a watermark closes, by topic partitions (Q5)."""
        for source in range(self.following):
            before = self.stream_time.get(source, -math.inf)
            self.stream_time[source] = now = max(before, watermark)
            closed = self.closed(source, before - self.grace, now - self.grace)
            yield from closed if self.emit == "final" else []


# ---- the operator ----------------------------------------------------------------------------------------------------


@dataclass
class Aggregate(oracle.Aggregate):
    #: milliseconds as a value of the event time's type
    bound: Callable[[int], Any] = int
    #: the last value below that of these milliseconds
    last: Callable[[int], Any] = int

    def result(self, group: list[Stored], groups: list[list[Stored]], firing: Firing) -> dict[str, Any]:
        assert isinstance(firing, BoundedFiring)
        described = {
            "intervalStart()": self.bound(firing.start), "intervalEnd()": self.bound(firing.end),
            "intervalLast()": self.last(firing.end),
            "paneIndex()": firing.index,
            "paneTiming()": "paneEarly" if firing.early else "paneLate" if firing.index else "paneOnComplete",
        }  # fmt: skip
        calls = self.output
        self.output = {name: call for name, call in calls.items() if call not in described}
        row = super().result(group, groups, firing)
        self.output = calls
        return {name: described[call] if call in described else row[name] for name, call in calls.items()}


class Operator:
    """An Aggregate over event time: its watermark is the least of all topic partitions (E4)."""

    def __init__(self, operator: dict[str, Any], topic_partitions: int = 1) -> None:
        self.schema = operator["schema"]
        self.event_time = operator["event_time"]
        self.window = window(operator)
        kind = self.schema[self.event_time].rstrip("?")
        self.aggregate = Aggregate(
            self.window, operator["partition_by"], operator["group_by"], False, operator["output"],  # type: ignore[arg-type]  # noqa: FBT003
            bound=BOUNDS[kind], last=LASTS[kind],
        )  # fmt: skip
        self.live = set(range(topic_partitions))
        self.watermarks = dict.fromkeys(self.live, -math.inf)
        #: numbers of the events whose tuples found no place
        self.dropped: list[int] = []

    def run(self, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{"after": n} | record for n, event in enumerate(events) for record in self.handle(n, event)]

    def handle(self, number: int, event: dict[str, Any]) -> Iterator[dict[str, Any]]:
        source = event.get("topic_partition", 0)
        if source not in self.live:
            return
        if "tuple" in event:
            yield from self.take(number, event["tuple"], source)
        elif "watermark" in event:
            self.watermarks[source] = max(self.watermarks[source], event["watermark"])
            least = min(self.watermarks.values())
            if least > -math.inf:
                yield from self.emitted(self.window.advance(round(least * 1000)))
        elif event.get("punct") == "final":
            self.live.remove(source)
            if not self.live:
                yield {"punct": "final"}  # E37: nothing of what is open

    def take(self, number: int, values: dict[str, Any], source: int) -> Iterator[dict[str, Any]]:
        typed = oracle.typed(values, self.schema)
        if typed[self.event_time] is None:  # NU27
            self.dropped.append(number)
            return
        time = milliseconds(typed[self.event_time])
        found, firings = self.window.insert(self.aggregate.key(typed), time, Stored(typed, number, source))
        if not found:
            self.dropped.append(number)
        yield from self.emitted(firings)

    def emitted(self, firings: Any) -> Iterator[dict[str, Any]]:
        return map(oracle.as_json, self.aggregate.emit(firings))


class SortOperator(Operator):
    """A Sort over timeInterval: each firing has its whole content in order (O14)."""

    def __init__(self, operator: dict[str, Any], topic_partitions: int = 1) -> None:
        super().__init__(operator | {"group_by": [], "output": {}}, topic_partitions)
        self.aggregate = join_oracle.Sort(
            self.window, operator["partition_by"], operator["order_by"], operator.get("limit")
        )  # type: ignore[assignment]


BOUNDS: dict[str, Callable[[int], Any]] = {
    "int64": int, "float64": lambda ms: ms / 1000, "timestamp": lambda ms: Timestamp(ms * MILLISECOND),
}  # fmt: skip


LASTS: dict[str, Callable[[int], Any]] = {
    "int64": lambda ms: ms - 1,
    "float64": lambda ms: min((ms * MILLISECOND - 1) / 10**9, math.nextafter(ms / 1000, -math.inf)),
    "timestamp": lambda ms: Timestamp(ms * MILLISECOND - 1),
}  # fmt: skip


def milliseconds(value: Any) -> int:
    if isinstance(value, Timestamp):
        return value // MILLISECOND
    return value if isinstance(value, int) else round(value * 1000)


def window(operator: dict[str, Any]) -> TimeInterval | SlidingTime:
    sizes = {name: round(float(size) * 1000) for name, size in re.findall(r"(\w+)\(([^)]*)\)", operator["window"])}
    if "timeDifference" in sizes:
        sets = operator.get("window_set", "distinct"), operator.get("emit", "final")
        return SlidingTime(sizes["timeDifference"], sizes.get("grace", 0), *sets)
    if "maximumDuration" in sizes:
        most, offset = sizes["maximumDuration"], sizes.get("intervalOffset", 0)
        return Cumulate(most, sizes["step"], sizes.get("discardAge", 0), offset % most)
    duration = sizes["intervalDuration"]
    period = sizes.get("creationPeriod", duration)
    return TimeInterval(duration, period, sizes.get("discardAge", 0), sizes.get("intervalOffset", 0) % period)


def run(case: dict[str, Any]) -> tuple[list[dict[str, Any]], list[int]]:
    """The output of a case, and the numbers of the events whose tuples found no place."""
    topic_partitions = 1 + max((e.get("topic_partition", 0) for e in case["input"]), default=0)
    kind = SortOperator if case["operator"]["kind"] == "sort" else Operator
    operator = kind(case["operator"], topic_partitions)
    return operator.run(case["input"]), operator.dropped
