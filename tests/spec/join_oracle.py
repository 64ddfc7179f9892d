"""SPL's Join and Sort, one tuple at a time: slow, obvious, and written as the rules read (see oracle.py)."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cmp_to_key
from typing import Any

from tests.spec import oracle
from tests.spec.oracle import (
    Key,
    PartitionEviction,
    Stored,
    Tuple,
    Value,
    as_json,
    exceeds,
    identity,
    key_bytes,
    nanoseconds,
    typed,
)

Record = dict[str, Any]
Case = dict[str, Any]
OTHER = {"left": "right", "right": "left"}
OUTER = {"left": ("leftOuter", "outer"), "right": ("rightOuter", "outer")}
DEFAULTS = {
    "boolean": False, "int64": 0, "float64": 0.0, "string": "", "timestamp": "1970-01-01T00:00:00Z", "decimal": "0",
    "list": [], "map": {},
}  # fmt: skip


def default(kind: str) -> Value:
    """SPL's default of a type, in the JSON of an event: of a struct that of each member."""
    if kind.endswith("?"):
        return None
    word = re.split("[<(]", kind)[0]
    return {n: default(of) for n, of in oracle.members(kind).items()} if word == "tuple" else DEFAULTS[word]


# ---- join: section 8 -------------------------------------------------------------------------------------------------


@dataclass
class Waiting:
    """A tuple inside a window; matched: whether it met any other at any time of its stay (J12)."""

    values: Tuple
    arrived: int
    partition: Key
    matched: bool = False


@dataclass
class Side:
    name: str
    policy: str
    size: Value
    partition_by: list[str]
    equality: list[str]
    schema: dict[str, str]
    outer: bool
    apart: bool
    default: Tuple
    attribute: str = ""
    leaving: PartitionEviction = field(default_factory=PartitionEviction)
    snapshot: list[Waiting] = field(default_factory=list)
    frozen: bool = False
    live: set[int] = field(default_factory=set)

    @property
    def stores(self) -> bool:
        return (self.policy, self.size) != ("count", 0)

    def keeps_apart(self, attribute: str) -> bool:
        """Whether no tuple evicts one with another value of the attribute."""
        alone = self.policy == "time" or not self.stores
        return self.leaving.policy == "none" and (alone or attribute in self.partition_by)

    def admit(self, new: Waiting) -> list[Waiting]:
        """Puts a tuple into the window; gives those that leave for it (S4, S8)."""
        self.lose(self.leaving.aged(new.arrived))
        own = [t for t in self.snapshot if t.partition == new.partition]
        leaving: list[Waiting] = []
        if self.policy == "count" and len(own) == self.size:
            leaving = own[:1]
        elif self.policy == "delta":
            value = new.values[self.attribute]
            size = oracle.size_of(self.size, new.values, self.attribute)
            leaving = [t for t in own if exceeds(value, t.values[self.attribute], size)]
        self.snapshot = [t for t in self.snapshot if not any(t is gone for gone in leaving)] + [new]
        self.leaving.inserted(new.partition, new.arrived)
        self.lose(self.leaving.surplus(Counter(t.partition for t in self.snapshot)))
        return leaving

    def lose(self, partitions: list[Key]) -> None:
        """In silence, whether they met any or not (V18)."""
        for key in partitions:
            self.snapshot = [t for t in self.snapshot if t.partition != key]
            self.leaving.gone(key)

    def expired(self, now: int) -> list[Waiting]:
        """Those that have been inside for more than the time (S5); none once the side is final (J18)."""
        if self.policy != "time" or self.frozen:
            return []
        leaving = [t for t in self.snapshot if now - t.arrived > self.size]
        self.snapshot = self.snapshot[len(leaving) :]
        for key in {t.partition for t in leaving} - {t.partition for t in self.snapshot}:
            self.leaving.gone(key)
        return leaving


class JoinedRows:
    """The output rows of a join, which `operator` describes, with these sides."""

    operator: Case
    sides: dict[str, Side]

    def unmatched(self, side: Side, gone: Any) -> Iterator[Record]:
        if gone.matched or not side.outer:
            return
        if side.apart:  # J14
            yield {"stream": f"unmatched_{side.name}", "tuple": as_json({"tuple": gone.values})["tuple"]}
        else:  # J13
            yield self.joined({side.name: gone.values, OTHER[side.name]: self.sides[OTHER[side.name]].default})

    def joined(self, pair: dict[str, Tuple]) -> Record:
        row = {}
        for name, text in self.operator["output"].items():
            port, attribute = text.split(".")
            row[name] = pair[port][attribute]
        return {"stream": "output", **as_json({"tuple": row})}


class Join(JoinedRows):
    def __init__(self, operator: Case, topic_partitions: dict[str, int]) -> None:
        self.operator = operator
        self.sides = {name: side(operator, name) for name in OTHER}
        for name, count in topic_partitions.items():
            self.sides[name].live = set(range(count))
        self.match = condition(operator.get("match"))
        pairs = zip(*(side.equality for side in self.sides.values()), strict=True)
        #: whether the tuples of some key never meet, nor evict, those of another
        self.spread = any(all(map(Side.keeps_apart, self.sides.values(), pair)) for pair in pairs)

    def run(self, events: Iterable[Record]) -> list[Record]:
        return [{"after": n} | record for n, event in enumerate(events) for record in self.handle(event)]

    def handle(self, event: Record) -> Iterator[Record]:
        now = nanoseconds(event["at"])
        yield from self.expire(now)  # before anybody looks (S6, J21)
        name = event.get("port")
        source = event.get("topic_partition", 0)
        if name and source in self.sides[name].live:
            side = self.sides[name]
            if "tuple" in event:
                values = typed(event["tuple"], side.schema)
                if any(values[one] is None for one in oracle.compared(self.operator[name])):
                    return  # NU27: a dead letter
                yield from self.arrive(side, self.sides[OTHER[name]], values, now)
            elif event.get("punct") == "final":
                side.live.remove(source)
                side.frozen = not side.live
                if all(not each.live for each in self.sides.values()):
                    streams = ["output", *(f"unmatched_{n}" for n in OTHER if self.sides[n].apart)]
                    yield from ({"stream": stream, "punct": "final"} for stream in streams)

    def expire(self, now: int) -> Iterator[Record]:
        """By the time at which they leave; those of one moment as they came, the left side's first. If the tuples may
        be spread over buckets, those of one moment are in order of their keys.
        """
        leaving = [(t.arrived + s.size, self.rank(s, t), s, t) for s in self.sides.values() for t in s.expired(now)]
        for _, _, s, t in sorted(leaving, key=lambda each: each[:2]):
            yield from self.unmatched(s, t)  # without a mark (J19)

    def rank(self, of: Side, gone: Waiting) -> bytes:
        return key_bytes(identity(gone.values, of.equality)) if self.spread else b""

    def arrive(self, x: Side, y: Side, values: Tuple, now: int) -> Iterator[Record]:
        """The steps of section 8.1."""
        new = Waiting(values, now, identity(values, x.partition_by))
        records = []
        for other in y.snapshot:  # all partitions (J10), oldest first (J9)
            pair = {x.name: values, y.name: other.values}
            if equal(x, values, y, other.values) and self.match(pair["left"], pair["right"]):
                new.matched = other.matched = True
                records.append(self.joined(pair))
        leaving = x.admit(new) if x.stores else [new]  # J17
        records += [record for gone in leaving for record in self.unmatched(x, gone)]  # J8
        yield from records
        if any(record["stream"] == "output" for record in records):  # J11
            yield {"stream": "output", "punct": "window"}


def equal(x: Side, values: Tuple, y: Side, others: Tuple) -> bool:
    """NaN equals nothing (J16), as Python's == says, and null equals nothing (NU25)."""
    return all(values[a] == others[b] and values[a] is not None for a, b in zip(x.equality, y.equality, strict=True))


def side(operator: Case, name: str) -> Side:
    policy, text = re.findall(r"(count|time|delta)\(([^)]*)\)", operator[name])[0]
    schema = operator.get(f"schema_{name}", {})
    attribute = ""
    size: Value = int(text) if policy == "count" else None
    if policy == "time":
        size = nanoseconds(text)
    elif policy == "delta":
        attribute, size = oracle.delta(text, schema)
    given = operator.get(f"default_{name}", {})
    null = given is None  # NU26: all of the side
    missing = {attr: None if null else default(kind) for attr, kind in schema.items()}
    filled = typed(missing | (given or {}), schema)
    outer = operator["algorithm"] in OUTER[name]
    return Side(
        name, policy, size, operator[f"partition_by_{name}"], operator[f"equality_{name}"], schema, outer,
        bool(operator.get(f"unmatched_{name}")), filled, attribute, oracle.leaving(operator[name]),
    )  # fmt: skip


#: the conditions of random joins, as the file has them and as Python has them
CONDITIONS = {
    None: lambda _left, _right: True,
    "left.i <= right.i": lambda left, right: present(left["i"], right["i"]) and left["i"] <= right["i"],
    "left.b || left.s == right.s": lambda left, right: (
        left["b"] or (present(left["s"], right["s"]) and left["s"] == right["s"])
    ),
    "i2 % left.i == 0": lambda left, right: (
        present(left["i"], right["i2"]) and left["i"] != 0 and right["i2"] % left["i"] == 0  # by 0: no value
    ),
}


def present(*values: Value) -> bool:
    """NU30: a condition that is null holds for no pair."""
    return None not in values


def condition(text: str | None) -> Any:
    if text in CONDITIONS:
        return CONDITIONS[text]
    python = re.sub(r"(left|right)\.(\w+)", r'\1["\2"]', text).replace("&&", " and ").replace("||", " or ")
    return eval(f"lambda left, right: {python}")  # noqa: S307 - the conditions of the conformance vectors


def run_join(case: Case) -> list[Record]:
    counts = dict.fromkeys(OTHER, 1)
    for event in case["input"]:
        if "port" in event:
            counts[event["port"]] = max(counts[event["port"]], event.get("topic_partition", 0) + 1)
    return Join(case["operator"], counts).run(case["input"])


# ---- sort: section 9 -------------------------------------------------------------------------------------------------


@dataclass
class Sort:
    """Takes the place of an Aggregate: emits what a firing holds, in order."""

    window: Any
    partition_by: list[str]
    order_by: list[tuple[str, str]]
    limit: int | None = None

    def emit(self, firings: Iterable[oracle.Firing]) -> Iterator[Record]:
        for firing in firings:
            yield from ({"tuple": t.values} for t in self.sorted(firing.content)[: self.limit])  # O5
            if not isinstance(self.window, Progressive):  # O10
                yield {"punct": "window"}

    def sorted(self, content: list[Stored]) -> list[Stored]:
        """Equal ones as they came (O6)."""
        return sorted(content, key=cmp_to_key(self.compared))

    def compared(self, a: Stored, b: Stored) -> int:
        for name, order in self.order_by:
            direction, *nulls = [order] if isinstance(order, str) else order.values()
            if (a.values[name] is None) != (b.values[name] is None):  # NU28
                return -1 if (a.values[name] is None) == (nulls == ["first"]) else 1
            x, y = ordered(a.values[name]), ordered(b.values[name])
            if x != y:
                return (-1 if x < y else 1) * (1 if direction == "asc" else -1)
        return 0

    def key(self, values: Tuple) -> Key:
        return identity(values, self.partition_by)


def ordered(value: Value) -> Value:
    """NaN is greater than every number; strings are in the order of their bytes."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value


@dataclass
class Progressive:
    """O8 to O13: the first in order leaves for the one that comes."""

    size: int
    leaving: PartitionEviction
    partitions: dict[Key, list[Stored]] = field(default_factory=dict)
    period: None = None
    sort: Any = None

    def insert(self, key: Key, new: Stored) -> Iterator[oracle.Firing]:
        if not self.size:
            return  # O12: nothing, ever
        self.lose(self.leaving.aged(new.arrived))
        inside = self.partitions.setdefault(key, [])
        if len(inside) == self.size:
            first = self.sort(inside)[0]
            yield oracle.Firing(key, [first])
            inside[:] = [t for t in inside if t is not first]
        inside.append(new)
        self.leaving.inserted(key, new.arrived)
        self.lose(self.leaving.surplus({k: len(tuples) for k, tuples in self.partitions.items()}))

    def lose(self, keys: list[Key]) -> None:
        """In silence (V20)."""
        for key in keys:
            del self.partitions[key]
            self.leaving.gone(key)

    def mark(self, *_: int) -> Iterator[oracle.Firing]:
        return iter(())

    def rest(self) -> Iterator[oracle.Firing]:
        """O11."""
        for key in sorted(self.partitions, key=key_bytes):
            yield oracle.Firing(key, self.partitions[key])


class SortOperator(oracle.Operator):
    def __init__(self, operator: Case, topic_partitions: int) -> None:
        nothing = {"group_by": [], "aggregate_incomplete_windows": False, "output": {}}
        super().__init__(operator | nothing, topic_partitions)
        window = self.aggregate.window
        if operator["window"].startswith("sliding"):
            size = int(re.findall(r"count\((\d+)\)", operator["window"])[0])
            window = Progressive(size, oracle.leaving(operator["window"]))
        self.aggregate = Sort(window, operator["partition_by"], operator["order_by"], operator.get("limit"))
        window.sort = self.aggregate.sorted

    def receive(self, event: Record, source: int, now: int) -> Iterator[Record]:
        last = event.get("punct") == "final" and self.live == {source}
        if last and isinstance(self.aggregate.window, Progressive):
            yield from map(as_json, self.aggregate.emit(self.aggregate.window.rest()))
        yield from super().receive(event, source, now)


def run_sort(case: Case) -> list[Record]:
    topic_partitions = 1 + max((e.get("topic_partition", 0) for e in case["input"]), default=0)
    return SortOperator(case["operator"], topic_partitions).run(case["input"])
