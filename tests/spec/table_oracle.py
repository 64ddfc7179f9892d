"""Joins with a table, one tuple at a time: slow, obvious, and written as the rules M1 to M6 read."""

from __future__ import annotations

from collections.abc import Iterator

from tests.spec.join_oracle import OTHER, Case, JoinedRows, Record, condition, equal
from tests.spec.join_oracle import side as settings
from tests.spec.oracle import Tuple, identity, typed


class TableJoin(JoinedRows):
    def __init__(self, operator: Case, topic_partitions: dict[str, int]) -> None:
        self.operator = operator
        windows = {"left": "sliding, count(0)", "right": "sliding, count(1)"}
        keys = {"partition_by_left": [], "partition_by_right": []}
        self.sides = {name: settings(operator | windows | keys, name) for name in OTHER}
        self.match = condition(operator.get("match"))
        self.live = {name: set(range(count)) for name, count in topic_partitions.items()}
        self.table: list[Tuple] = []

    def run(self, events: list[Record]) -> list[Record]:
        return [{"after": n} | record for n, event in enumerate(events) for record in self.handle(event)]

    def handle(self, event: Record) -> Iterator[Record]:
        name, source = event.get("port"), event.get("topic_partition", 0)
        if name is None or source not in self.live[name] or not self.live["left"]:
            return
        if event.get("punct") == "final":
            self.live[name].remove(source)
            if not self.live["left"]:  # M6
                streams = ["output", *(["unmatched_left"] if self.sides["left"].apart else [])]
                yield from ({"stream": stream, "punct": "final"} for stream in streams)
        elif "delete" in event:  # M4
            self.remove(typed(event["delete"], self.sides["right"].schema))
        elif "tuple" in event and name == "right":  # M2
            row = typed(event["tuple"], self.sides["right"].schema)
            if any(row[name] is None for name in self.sides["right"].equality):
                return  # NU29
            self.remove(row)
            self.table.append(row)
        elif "tuple" in event:
            yield from self.look_up(typed(event["tuple"], self.sides["left"].schema))

    def remove(self, key: Tuple) -> None:
        names = self.sides["right"].equality
        self.table = [row for row in self.table if identity(row, names) != identity(key, names)]

    def look_up(self, values: Tuple) -> Iterator[Record]:
        left, right = self.sides["left"], self.sides["right"]
        for row in self.table:
            if equal(left, values, right, row) and self.match(values, row):
                yield self.joined({"left": values, "right": row})
                break
        else:  # M5
            if not left.outer:
                return
            if left.apart:
                yield {"stream": "unmatched_left", "tuple": self.unmatched_row(values)}
                return
            yield self.joined({"left": values, "right": right.default})
        yield {"stream": "output", "punct": "window"}

    def unmatched_row(self, values: Tuple) -> Record:
        (row,) = (record["tuple"] for record in self.unmatched(self.sides["left"], Lone(values)))
        return row


class Lone:
    """A tuple without a row, as `JoinedRows.unmatched` reads it."""

    matched = False

    def __init__(self, values: Tuple) -> None:
        self.values = values


def run(case: Case) -> list[Record]:
    counts = dict.fromkeys(OTHER, 1)
    for event in case["input"]:
        if "port" in event:
            counts[event["port"]] = max(counts[event["port"]], event.get("topic_partition", 0) + 1)
    return TableJoin(case["operator"], counts).run(case["input"])
