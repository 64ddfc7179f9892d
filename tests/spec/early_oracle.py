"""Early results, one event at a time: slow, obvious, and written as rules F1 to F9 of docs/reference read.

The windows are those of the other oracles. After each event this one looks at what every open window holds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from tests.spec import event_oracle, oracle, session_oracle
from tests.spec.event_oracle import BoundedFiring, TimeInterval
from tests.spec.oracle import SECOND, Firing, Key, Stored, Tumbling, key_bytes
from tests.spec.session_oracle import Sessions

AnyOperator = oracle.Operator | event_oracle.Operator


@dataclass(frozen=True)
class Open:
    """An open window as its early result would show it. `order` sorts the windows of one instant before their keys."""

    order: float
    result: Firing

    @property
    def rank(self) -> tuple[float, bytes]:
        assert self.result.key is not None
        return self.order, key_bytes(self.result.key)


def open_windows(window: Any) -> Iterator[Open]:
    if isinstance(window, Tumbling):
        for key, content in window.partitions.items():
            yield Open(0, Firing(key, list(content), reason="early"))
    elif isinstance(window, TimeInterval):
        for start, pane in window.panes.items():
            if window.watermark < start + window.duration:  # F7
                for key in {key for key, _ in pane.content}:
                    yield Open(start, pane_firing(key, start, pane, window.duration))
    elif isinstance(window, Sessions):
        for key, sessions in window.open.items():
            for session in sessions:
                yield Open(window.reach(session), session.firing(key))


def pane_firing(key: Key, start: int, pane: event_oracle.Pane, duration: int) -> BoundedFiring:
    content = [stored for of, stored in pane.content if of == key]
    return BoundedFiring(key, content, stored=len(pane.content), start=start, end=start + duration)


@dataclass
class Early:
    """An operator, and the early results of its windows."""

    operator: AnyOperator
    count: int | None
    wait: int | None
    #: the operator clock at which each tuple came, and the tuples that a result has had, by their identities
    came: dict[int, int] = field(default_factory=dict)
    shown: set[int] = field(default_factory=set)
    #: all tuples, so that identities stay their own
    kept: list[Stored] = field(default_factory=list)

    @property
    def window(self) -> Any:
        return self.operator.aggregate.window

    def run(self, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{"after": n} | record for n, event in enumerate(events) for record in self.handle(n, event)]

    def handle(self, number: int, event: dict[str, Any]) -> Iterator[dict[str, Any]]:
        now = oracle.nanoseconds(event["at"])
        yield from self.pass_time(number, now)
        yield from self.inner(number, event)
        yield from self.counted(now)

    def counted(self, now: int) -> Iterator[dict[str, Any]]:
        """What the tuples that came at `now` cause by their number (F1)."""
        for one in open_windows(self.window):
            for stored in one.result.content:
                if id(stored) not in self.came:
                    self.came[id(stored)] = now
                    self.kept.append(stored)
        if self.count is not None:  # F1
            full = [one for one in open_windows(self.window) if len(self.unseen(one)) >= self.count]
            yield from self.emitted(full, [])

    def inner(self, number: int, event: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if isinstance(self.operator, event_oracle.Operator):
            yield from self.operator.handle(number, event)
        else:
            yield from self.operator.handle(event)

    def unseen(self, one: Open) -> list[Stored]:
        return [stored for stored in one.result.content if id(stored) not in self.shown]

    def due(self) -> dict[int, list[Open]]:
        """When which windows are due (F2)."""
        found: dict[int, list[Open]] = {}
        for one in open_windows(self.window):
            new = self.unseen(one)
            if new and self.wait is not None:
                found.setdefault(min(self.came[id(stored)] for stored in new) + self.wait, []).append(one)
        return found

    def pass_time(self, number: int, now: int) -> Iterator[dict[str, Any]]:
        """What is due on the way, at its own time. What the windows themselves emit at an instant comes first, as a
        session that is over has a lesser reach than an open one, and a window that does so has no early result then
        (F3). The results of one instant are in order of their windows and keys (F5).
        """
        while self.operator.live and (due := min(self.due(), default=now + 1)) <= now:
            yield from self.clock(number, due - 1)
            if isinstance(self.window, Sessions):
                ended = self.window.advance(due) if self.window.tick == 1 else ()
                over = [Open(-math.inf, one) for one in ended]
            else:
                over = []
                yield from self.clock(number, due)
            yield from self.emitted(self.due().get(due, []), over)

    def clock(self, number: int, at: int) -> Iterator[dict[str, Any]]:
        yield from self.inner(number, {"at": Decimal(at) / SECOND, "topic_partition": -1})

    def emitted(self, early: list[Open], over: list[Open]) -> Iterator[dict[str, Any]]:
        """Early results, and those of windows that are over at the same instant."""
        for one in early:
            self.shown.update(id(stored) for stored in one.result.content)
        results = [*(replace(one, result=replace(one.result, early=True)) for one in early), *over]
        firings = [one.result for one in sorted(results, key=lambda one: one.rank)]
        yield from map(oracle.as_json, self.operator.aggregate.emit(firings))


def policy(text: str) -> tuple[int | None, int | None]:
    """The count, and the wait in nanoseconds."""
    parts = dict(re.findall(r"(\w+)\(([^)]*)\)", text))
    return (
        int(parts["count"]) if "count" in parts else None,
        oracle.nanoseconds(parts["time"]) if "time" in parts else None,
    )


def run(case: dict[str, Any]) -> list[dict[str, Any]]:
    """The output of a case."""
    operator = case["operator"]
    topic_partitions = 1 + max((e.get("topic_partition", 0) for e in case["input"]), default=0)
    kind = operator["window"].partition(",")[0]
    made: AnyOperator
    if kind == "session":
        made = session_oracle.Operator(operator, topic_partitions)
    elif kind == "timeInterval":
        made = event_oracle.Operator(operator, topic_partitions)
    else:
        made = oracle.Operator(operator, topic_partitions)
    return Early(made, *policy(operator["early"])).run(case["input"])
