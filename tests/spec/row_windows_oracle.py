"""Aggregates over tables: a dict of the rows of each window partition, and every result computed from scratch.

A dict keeps the place of a key whose value is replaced, as rule EN11 has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.spec.oracle import (
    Aggregate,
    Firing,
    Key,
    Operator,
    Stored,
    Value,
    as_json,
    identity,
    key_bytes,
    nanoseconds,
    typed,
)


class RowWindows:
    """The windows: `newest` rows of each partition (None: all), fired by every `every`-th change or each `period`."""

    def __init__(self, clause: str) -> None:
        kind, *parts = re.findall(r"(\w+)(?:\(([^)]*)\))?", clause)
        self.partitioned = ("partitioned", "") in parts
        sizes = [part for part in parts if part[0] != "partitioned"]
        self.newest = int(sizes.pop(0)[1]) if kind[0] == "sliding" else None
        policy, size = [*sizes, ("count", "1")][0]
        self.every = int(size) if policy == "count" else None
        self.period = nanoseconds(size) if policy == "time" else None
        self.rows: dict[Key, dict[Key, Stored]] = {}
        self.changes: dict[Key, int] = {}
        self.full: set[Key] = set()

    def place(self, row: Key) -> Key | None:
        return next((p for p, rows in self.rows.items() if row in rows), None)

    def put(self, row: Key, p: Key, stored: Stored) -> Iterator[Firing]:
        """EN11: a row that moves to another partition leaves the first one before."""
        if self.place(row) != p:
            yield from self.delete(row)
        self.rows.setdefault(p, {})[row] = stored
        if self.newest is None or len(self.rows[p]) >= self.newest:
            self.full.add(p)
        yield from self.changed(p)

    def delete(self, row: Key) -> Iterator[Firing]:
        p = self.place(row)
        if p is not None:
            del self.rows[p][row]
            yield from self.changed(p)

    def truncate(self) -> Iterator[Firing]:
        """EN14: one change of each window that had rows."""
        emptied = [p for p, rows in self.rows.items() if rows]
        for p in emptied:
            self.rows[p] = {}
        for p in sorted(emptied, key=key_bytes):
            yield from self.changed(p)

    def changed(self, p: Key) -> Iterator[Firing]:
        self.changes[p] = self.changes.get(p, 0) + 1
        if self.every and self.changes[p] % self.every == 0:
            yield self.firing(p)

    def tick(self, now: int) -> Iterator[Firing]:
        stored = [p for p, rows in self.rows.items() if rows]
        yield from [self.firing(p) for p in sorted(stored, key=key_bytes)]
        if not stored:
            yield Firing(None, [], full=bool(self.full) and not self.partitioned, stored=0)

    def content(self, p: Key) -> list[Stored]:
        """EN13: the rows whose keys came last."""
        rows = list(self.rows[p].values())
        return rows if self.newest is None else rows[-self.newest :]

    def firing(self, p: Key) -> Firing:
        return Firing(p, self.content(p), p in self.full, sum(len(self.content(q)) for q in self.rows))


class TableAggregate(Operator):
    def __init__(self, operator: dict[str, Any], topic_partitions: int = 1) -> None:
        self.schema, self.key = operator.get("schema", {}), operator["table_key"]
        self.windows = RowWindows(operator["window"])
        self.aggregate = Aggregate(
            self.windows, operator["partition_by"], operator["group_by"],  # type: ignore[arg-type]
            operator.get("aggregate_incomplete_windows", True), operator["output"],
        )  # fmt: skip
        self.due = nanoseconds(operator.get("clock_origin", 0))
        self.live = set(range(topic_partitions))

    def receive(self, event: dict[str, Any], source: int, now: int) -> Iterator[dict[str, Value]]:
        if "tuple" in event:
            values = typed(event["tuple"], self.schema)
            row, p = identity(values, self.key), self.aggregate.key(values)
            yield from self.emitted(self.windows.put(row, p, Stored(values, now, source)))
        elif "delete" in event:
            yield from self.emitted(self.windows.delete(identity(typed(event["delete"], self.schema), self.key)))
        elif "truncate" in event:
            yield from self.emitted(self.windows.truncate())
        elif event.get("punct") == "final":
            yield from super().receive(event, source, now)

    def emitted(self, firings: Iterator[Firing]) -> Iterator[dict[str, Value]]:
        """Each firing is computed before the next change."""
        yield from map(as_json, self.aggregate.emit(firings))


def run(case: dict[str, Any]) -> list[dict[str, Any]]:
    topic_partitions = 1 + max((e.get("topic_partition", 0) for e in case["input"]), default=0)
    return TableAggregate(case["operator"], topic_partitions).run(case["input"])
