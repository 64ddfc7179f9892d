"""The windows of SPL, one tuple at a time: slow, obvious, and written as the rules read.

The engine must give what this gives. Rule ids (T1, S8, A16 ...) are those of the semantics reference. Operators and
events have the format of the conformance vectors; an event may add a `topic_partition`, an operator a `schema`.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import Any

import orjson

Value = Any
Tuple = dict[str, Value]
SECOND = 10**9
Key = tuple[Value, ...]


# ---- what a window holds and hands over ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stored:
    """A tuple inside a window: its attributes, when it came in, and the topic partition that it came from."""

    values: Tuple
    arrived: int
    source: int


@dataclass(frozen=True)
class Firing:
    """A flush or a trigger: one batch of output. Without a key: nothing was stored anywhere."""

    key: Key | None
    content: list[Stored]
    full: bool = True
    #: tuples of all partitions, where the window can see them (A18)
    stored: int | None = None
    #: what flushed a tumbling window: a policy, or `partition`
    reason: str = ""
    #: whether the window is still open (F4)
    early: bool = False


def exceeds(new: Value, reference: Value, size: Value) -> bool:
    """The test of every delta policy: strictly more than `size` above (T11, T12); NaN compares false (T14)."""
    return not new < reference and new - reference > size


def size_of(size: Value, newest: Tuple, attribute: str) -> Value:
    """The size of a delta: a number, or an attribute of the newest tuple, of which a timestamp takes seconds."""
    if not isinstance(size, str):
        return size
    return newest[size] * 1e9 if isinstance(newest[attribute], Timestamp) else newest[size]


# ---- partition eviction: section 6 -----------------------------------------------------------------------------------


@dataclass
class PartitionEviction:
    """Which partitions leave as a whole. `last`: those that hold tuples, least recently inserted into first, with the
    second of the last insertion (V1)."""

    policy: str = "none"
    size: int = 0
    last: dict[Key, int] = field(default_factory=dict)

    def inserted(self, key: Key, now: int) -> None:
        self.last.pop(key, None)
        self.last[key] = now // SECOND

    def gone(self, key: Key) -> None:
        self.last.pop(key, None)

    def aged(self, now: int) -> list[Key]:
        """The oldest must be older than allowed; then all go that are as old as allowed (V8)."""
        if self.policy != "partitionAge" or not self.last:
            return []
        limit = now // SECOND - self.size
        return [key for key, at in self.last.items() if at <= limit] if min(self.last.values()) < limit else []

    def surplus(self, sizes: dict[Key, int]) -> list[Key]:
        """As many as are needed, least recently inserted into first (V10, V12)."""
        left, surplus = list(self.last), []
        while (self.policy == "partitionCount" and len(left) > self.size) or (
            self.policy == "tupleCount" and sum(sizes[key] for key in left) > self.size
        ):
            surplus.append(left.pop(0))
        return surplus


# ---- tumbling: section 3 ---------------------------------------------------------------------------------------------


@dataclass
class Tumbling:
    """A partition exists from its first tuple to its flush."""

    partitions: dict[Key, list[Stored]] = field(default_factory=dict)
    period: int | None = None
    leaving: PartitionEviction = field(default_factory=PartitionEviction)
    #: whether an evicted partition is seen once more (V16)
    evicted: bool = False

    def insert(self, key: Key, new: Stored) -> Iterator[Firing]:
        self.partitions.setdefault(key, []).append(new)
        self.leaving.inserted(key, new.arrived)
        yield from self.evict(self.leaving.surplus({k: len(inside) for k, inside in self.partitions.items()}))

    def evict(self, keys: Iterable[Key]) -> Iterator[Firing]:
        """In silence (V5), or like a flush (V16)."""
        for key in keys:
            firing = self.flush(key, "partition")
            if self.evicted:
                yield firing

    def mark(self, source: int, now: int) -> Iterator[Firing]:
        return iter(())  # swallowed (P6)

    def flush(self, key: Key, reason: str) -> Firing:
        self.leaving.gone(key)
        return Firing(key, self.partitions.pop(key), reason=reason)

    def flush_all(self, keys: Iterable[Key], reason: str) -> Iterator[Firing]:
        """Each flushed partition is a batch of its own (T6, T18); one empty batch if there is none (T7, T19)."""
        keys = sorted(keys, key=key_bytes)
        yield from [self.flush(key, reason) for key in keys] or [Firing(None, [])]

    # what each condition does, here for one condition alone and in TumblingAny for several

    def before(self, of: Tumbling, key: Key, new: Stored) -> Iterator[Firing]:
        """What happens to the windows `of` before a tuple is inserted."""
        return iter(())

    def after(self, of: Tumbling, key: Key) -> Iterator[Firing]:
        """What happens when it has been."""
        return iter(())


@dataclass
class TumblingCount(Tumbling):
    size: int = 0

    def insert(self, key: Key, new: Stored) -> Iterator[Firing]:
        if self.size == 0:
            return  # T3
        yield from self.evict(self.leaving.aged(new.arrived))
        yield from super().insert(key, new)
        if len(self.partitions.get(key, [])) == self.size:  # T4: not if it has just been evicted
            yield self.flush(key, "count")  # T1: the arriving tuple is in

    def after(self, of: Tumbling, key: Key) -> Iterator[Firing]:
        if len(of.partitions.get(key, [])) == self.size:
            yield of.flush(key, "count")


@dataclass
class TumblingTime(Tumbling):
    def insert(self, key: Key, new: Stored) -> Iterator[Firing]:
        yield from self.evict(self.leaving.aged(new.arrived))
        yield from super().insert(key, new)

    def tick(self, now: int) -> Iterator[Firing]:
        yield from self.evict(self.leaving.aged(now))  # T9: before
        yield from self.flush_all(self.partitions, "time")  # T5, T6, T7


@dataclass
class TumblingDelta(Tumbling):
    attribute: str = ""
    size: Value = 0

    def exceeds(self, new: Stored, old: Stored) -> bool:
        size = size_of(self.size, new.values, self.attribute)
        return exceeds(new.values[self.attribute], old.values[self.attribute], size)

    def insert(self, key: Key, new: Stored) -> Iterator[Firing]:
        yield from self.evict(self.leaving.aged(new.arrived))
        inside = self.partitions.get(key)
        if inside and self.exceeds(new, inside[0]):
            yield self.flush(key, "delta")  # T10: the arriving tuple is out
        yield from super().insert(key, new)

    def before(self, of: Tumbling, key: Key, new: Stored) -> Iterator[Firing]:
        inside = of.partitions.get(key)
        if inside and self.exceeds(new, inside[0]):
            yield of.flush(key, "delta")


@dataclass
class TumblingPunct(Tumbling):
    def insert(self, key: Key, new: Stored) -> Iterator[Firing]:
        yield from self.evict(self.leaving.aged(new.arrived))
        yield from super().insert(key, new)

    def mark(self, source: int, now: int) -> Iterator[Firing]:
        """A mark's scope is its topic partition: it flushes whole what holds a tuple of it (T18, T19)."""
        found = [k for k, inside in self.partitions.items() if any(t.source == source for t in inside)]
        if found:
            yield from self.evict(self.leaving.aged(now))
            found = [k for k in found if k in self.partitions]
            yield from self.flush_all(found, "punct") if found else ()  # T20
        else:
            yield from self.flush_all([], "punct")


@dataclass
class TumblingAny(Tumbling):
    """Several conditions, each of which flushes as it does alone: before the insertion, after it, at ticks, marks."""

    conditions: list[Tumbling] = field(default_factory=list)

    def insert(self, key: Key, new: Stored) -> Iterator[Firing]:
        if any(isinstance(one, TumblingCount) and one.size == 0 for one in self.conditions):
            return  # T3
        yield from self.evict(self.leaving.aged(new.arrived))
        for one in self.conditions:
            yield from one.before(self, key, new)
        yield from super().insert(key, new)
        for one in self.conditions:
            yield from one.after(self, key)

    def tick(self, now: int) -> Iterator[Firing]:
        yield from TumblingTime.tick(self, now)  # type: ignore[arg-type]

    def mark(self, source: int, now: int) -> Iterator[Firing]:
        marked = any(isinstance(one, TumblingPunct) for one in self.conditions)
        yield from TumblingPunct.mark(self, source, now) if marked else ()  # type: ignore[arg-type]


# ---- sliding: section 4 ----------------------------------------------------------------------------------------------


@dataclass
class Partition:
    """All that outlives a partition's emptiness is here too: fullness, counter, reference (S7)."""

    snapshot: list[Stored] = field(default_factory=list)
    full: bool = False
    counter: int = 0
    reference: Value = None


@dataclass
class CountEviction:
    size: int

    def expire(self, p: Partition, now: int) -> None:
        pass

    def admit(self, p: Partition, new: Stored) -> None:
        if self.size == 0:
            return  # S9: nothing is ever stored, never full
        if len(p.snapshot) == self.size:
            p.snapshot.pop(0)  # S4
        p.snapshot.append(new)
        p.full = p.full or len(p.snapshot) == self.size  # 4.5


@dataclass
class TimeEviction:
    span: int

    def expire(self, p: Partition, now: int) -> None:
        p.snapshot = [t for t in p.snapshot if now - t.arrived <= self.span]  # S5; before every observation (S6)

    def admit(self, p: Partition, new: Stored) -> None:
        p.full = True  # 4.5: from the first tuple on
        p.snapshot.append(new)


@dataclass
class DeltaEviction:
    attribute: str
    size: Value

    def expire(self, p: Partition, now: int) -> None:
        pass

    def admit(self, p: Partition, new: Stored) -> None:
        size = size_of(self.size, new.values, self.attribute)
        stay = [t for t in p.snapshot if not exceeds(new.values[self.attribute], t.values[self.attribute], size)]
        p.full = p.full or len(stay) < len(p.snapshot)  # 4.5: with the first eviction
        p.snapshot = [*stay, new]  # S8


@dataclass
class CountTrigger:
    """Comes last and sees the new tuple (S1)."""

    size: int
    period: int | None = None

    def before(self, p: Partition, new: Stored) -> bool:
        return False

    def after(self, p: Partition, new: Stored) -> bool:
        p.counter += 1
        if p.counter != self.size:
            return False  # S10; count(0) never
        p.counter = 0
        return True


@dataclass
class DeltaTrigger:
    """Comes first and sees the window as it was (S1)."""

    attribute: str
    size: Value
    period: int | None = None

    def before(self, p: Partition, new: Stored) -> bool:
        value = new.values[self.attribute]
        if p.reference is None:
            p.reference = value  # S11: the first tuple ever does not fire
            return False
        if not exceeds(value, p.reference, size_of(self.size, new.values, self.attribute)):
            return False
        p.reference = value
        return True

    def after(self, p: Partition, new: Stored) -> bool:
        return False


@dataclass
class TimeTrigger:
    """Arrivals have no influence on it (S13)."""

    period: int

    def before(self, p: Partition, new: Stored) -> bool:
        return False

    def after(self, p: Partition, new: Stored) -> bool:
        return False


@dataclass
class Sliding:
    eviction: CountEviction | TimeEviction | DeltaEviction
    trigger: CountTrigger | DeltaTrigger | TimeTrigger
    partitioned: bool
    partitions: dict[Key, Partition] = field(default_factory=dict)
    leaving: PartitionEviction = field(default_factory=PartitionEviction)

    @property
    def period(self) -> int | None:
        return self.trigger.period

    def insert(self, key: Key, new: Stored) -> Iterator[Firing]:
        """The order of operations of table 4.1."""
        self.expire(new.arrived)
        self.evict(self.leaving.aged(new.arrived))  # S2, V9
        p = self.partitions.setdefault(key, Partition())
        if self.trigger.before(p, new):
            yield self.firing(key)
        self.eviction.admit(p, new)
        if p.snapshot:
            self.leaving.inserted(key, new.arrived)
        self.evict(self.leaving.surplus({k: len(q.snapshot) for k, q in self.partitions.items()}))
        if key in self.partitions and self.trigger.after(p, new):  # V15
            yield self.firing(key)

    def evict(self, keys: list[Key]) -> None:
        """With all that is known of them (V3)."""
        for key in keys:
            del self.partitions[key]
            self.leaving.gone(key)

    def mark(self, source: int, now: int) -> Iterator[Firing]:
        return iter(())  # swallowed (P6)

    def tick(self, now: int) -> Iterator[Firing]:
        self.expire(now)
        self.evict(self.leaving.aged(now))
        stored = [key for key, p in self.partitions.items() if p.snapshot]
        if stored:
            yield from [self.firing(key) for key in sorted(stored, key=key_bytes)]  # S13
        else:
            once_full = not self.partitioned and any(p.full for p in self.partitions.values())
            yield Firing(None, [], full=once_full, stored=0)  # S14, A5

    def expire(self, now: int) -> None:
        for key, p in self.partitions.items():
            self.eviction.expire(p, now)
            if not p.snapshot:
                self.leaving.gone(key)

    def firing(self, key: Key) -> Firing:
        p = self.partitions[key]
        return Firing(key, list(p.snapshot), p.full, sum(len(q.snapshot) for q in self.partitions.values()))


# ---- aggregation functions: section 7.2 ------------------------------------------------------------------------------


def wrapped(number: int) -> int:
    """Two's complement of 64 bits, as the type has it."""
    return (number + 2**63) % 2**64 - 2**63


#: more digits than any sum here has
EXACT = Context(prec=200, rounding=ROUND_HALF_EVEN)


def total(values: list[Value]) -> Value:
    if isinstance(values[0], str):
        return "".join(values)
    if isinstance(values[0], Decimal):
        return decimal(sum(map(Fraction, values)), scale_of(values[0]))  # DE13
    if isinstance(values[0], float):
        return rounded(values, 1)
    return wrapped(sum(values))


def average(values: list[Value], scale: int | None = None) -> Value:
    if isinstance(values[0], Decimal):
        mean = sum(map(Fraction, values)) / len(values)
        return decimal(mean, max(6, scale_of(values[0])) if scale is None else scale)  # DE14
    if isinstance(values[0], float):
        return rounded(values, len(values))
    return int(Fraction(sum(values), len(values)))  # A20: the true mean, cut towards zero


def scale_of(value: Decimal) -> int:
    return -int(value.as_tuple().exponent)


def decimal(value: Fraction, scale: int) -> Decimal:
    """Rounded half to even, as Python rounds fractions."""
    return EXACT.scaleb(Decimal(round(value * 10**scale)), -scale)


def rounded(values: list[float], divisor: int) -> float:
    """The exact sum divided, as the nearest float64."""
    special = [v for v in values if not math.isfinite(v)]
    if special:
        return sum(special)
    exact = sum(map(Fraction, values)) / divisor
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf  # a fraction that is no float64 has no sign for copysign


def leader(values: list[Value], beats: Callable[[Value, Value], bool]) -> int:
    """The first one stays until another is strictly better: ties go to the first, NaN too (A16)."""
    best = 0
    for place, value in enumerate(values):
        if beats(value, values[best]):
            best = place
    return best


def last_leader(values: list[Value], beats: Callable[[Value, Value], bool]) -> int:
    """Like `leader`, but ties go to the last (FN9)."""
    best = 0
    for place, value in enumerate(values):
        if beats(value, values[best]) or value == values[best]:
            best = place
    return best


def less(a: Value, b: Value) -> bool:
    return bool(a < b)


def greater(a: Value, b: Value) -> bool:
    return bool(a > b)


def times(values: list[Value], best: Value) -> int:
    """Occurrences of the extreme (A19, as documented); the NaN that came first is there once."""
    return sum(v == best for v in values) or 1


def distinct(values: list[Value]) -> list[list[Value]]:
    """Equal values together, in the order of first arrival; a NaN equals nothing (A17)."""
    found: list[list[Value]] = []
    for value in values:
        same = next((equal for equal in found if alike(equal[0], value)), None)
        if same is None:
            found.append([value])
        else:
            same.append(value)
    return found


def alike(a: Value, b: Value) -> bool:
    """Values with an inside part by part: Python's == takes one and the same NaN inside them for equal."""
    if a is None or b is None:
        return a is b
    if isinstance(a, list):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(alike(a[name], b[name]) for name in a)
    return bool(a == b)


def at_extreme(values: list[Value], companions: list[Value], beats: Callable[[Value, Value], bool]) -> list[Value]:
    """The distinct companions of all that have the extreme value; of a NaN that came first only its own."""
    best = leader(values, beats)
    hits = [w for v, w in zip(values, companions, strict=True) if v == values[best]] or [companions[best]]
    return [equal[0] for equal in distinct(hits)]


def deviation(values: list[Value], fewer: int) -> float:
    """sqrt(M2 / (n - fewer)), 0 of one tuple; M2 exact (A21)."""
    values = list(map(float, values))  # DE15
    if len(values) <= fewer:
        return 0.0
    if not all(map(math.isfinite, values)):
        return math.nan
    exact = [Fraction(v) for v in values]
    mean = sum(exact) / len(exact)
    squares = sum((v - mean) ** 2 for v in exact)
    try:
        return math.sqrt(float(squares) / (len(exact) - fewer))
    except OverflowError:
        return math.inf


def approximate(values: list[float], share: float) -> float:
    """At place floor(share * (n - 1)), in the middle of the numbers with its first 19 bits."""
    values = list(map(float, values))  # DE15
    if any(math.isnan(v) for v in values):
        return math.nan
    value = sorted(values)[math.floor(share * (len(values) - 1))]
    (bits,) = struct.unpack(">Q", struct.pack(">d", abs(value)))
    if math.isinf(value) or bits < 1 << 45:
        return value if math.isinf(value) else 0.0
    (middle,) = struct.unpack(">d", struct.pack(">Q", bits >> 45 << 45 | 1 << 44))
    return math.copysign(middle, value)


def percentile(values: list[Value], share: float) -> float:
    """Linear between the neighbours of place share * (n - 1)."""
    if isinstance(values[0], Decimal):
        return exact_percentile(values, share)
    if any(map(math.isnan, values)):
        return math.nan
    ordered = sorted(float(v) for v in values)
    place = share * (len(ordered) - 1)
    low, high, part = ordered[math.floor(place)], ordered[math.ceil(place)], place - math.floor(place)
    return low if part == 0 or low == high else low * (1 - part) + high * part


def exact_percentile(values: list[Decimal], share: float) -> Decimal:
    """Interpolated exactly (DE15)."""
    below, rest = divmod(Fraction(str(share)) * (len(values) - 1), 1)
    ordered = sorted(map(Fraction, values))
    found = ordered[below] if not rest else ordered[below] + (ordered[below + 1] - ordered[below]) * rest
    return decimal(found, max(6, scale_of(values[0])))


def by_element(function: Callable[..., Value]) -> Callable[..., Value]:
    """Of lists, which are of one size here: element by element."""
    return lambda v: (
        [function(list(column)) for column in zip(*v, strict=True)] if isinstance(v[0], list) else function(v)
    )


#: over the columns of one group, in arrival order
def top(values: list[Value], by: list[Value], n: int, *, least: bool) -> list[Value]:
    """The values with the least or greatest `by`; NaN is above all numbers, and of equal ones the earlier is first.

    `sorted` is stable, also in reverse.
    """

    def rank(place: int) -> Any:
        one = by[place]
        if isinstance(one, float):
            return math.isnan(one), 0.0 if math.isnan(one) else one
        return one.encode() if isinstance(one, str) else one

    return [values[place] for place in sorted(range(len(by)), key=rank, reverse=not least)[:n]]


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "First": lambda v, n=None: v[0] if n is None else v[:n],
    "Last": lambda v, n=None: v[-1] if n is None else v[-n:],
    "Any": lambda v: v[-1],
    "Collect": lambda v, n=None: v[:n],
    "CollectDistinct": lambda v, n=None: [equal[0] for equal in distinct(v)][:n],
    "CountByDistinct": lambda v, n=None: [len(equal) for equal in distinct(v)][:n],
    "CountDistinct": lambda v: len(distinct(v)),
    "Sum": by_element(total),
    "Average": lambda v, *scale: average(v, *scale) if scale else by_element(average)(v),
    "Min": by_element(lambda v: v[leader(v, less)]),
    "Max": by_element(lambda v: v[leader(v, greater)]),
    "MinCount": lambda v: times(v, v[leader(v, less)]),
    "MaxCount": lambda v: times(v, v[leader(v, greater)]),
    "ArgMin": lambda v, w: w[leader(v, less)],
    "ArgMax": lambda v, w: w[leader(v, greater)],
    "ArgMinLast": lambda v, w: w[last_leader(v, less)],
    "ArgMaxLast": lambda v, w: w[last_leader(v, greater)],
    "FirstBy": lambda w, v: w[leader(v, less)],
    "LastBy": lambda w, v: w[last_leader(v, greater)],
    "CollectArgMin": lambda v, w: at_extreme(v, w, less),
    "CollectArgMax": lambda v, w: at_extreme(v, w, greater),
    "MinN": lambda v, n: top(v, v, n, least=True),
    "MaxN": lambda v, n: top(v, v, n, least=False),
    "CollectMinN": lambda v, by, n: top(v, by, n, least=True),
    "CollectMaxN": lambda v, by, n: top(v, by, n, least=False),
    "PopulationStdDev": lambda v: deviation(v, 0),
    "SampleStdDev": lambda v: deviation(v, 1),
    "Median": lambda v: percentile(v, 0.5),
    "Percentile": percentile,
    "ApproxPercentile": approximate,
}


#: functions whose result is a list, which is empty where no value is left (NU19)
OF_LISTS = (
    "First", "Last", "Collect", "CollectDistinct", "CountByDistinct", "CollectArgMin", "CollectArgMax",
    "MinN", "MaxN", "CollectMinN", "CollectMaxN",
)  # fmt: skip


def aggregated(function: str, columns: list[Any]) -> Value:
    """The function of the tuples in which its argument is not null (NU18); First, Last and Any of all (NU20)."""
    of, lists = FUNCTIONS[function.removesuffix("Present")], [c for c in columns if isinstance(c, list)]
    if function in ("First", "Last", "Any") and len(columns) == 1:
        return of(*columns) if columns[0] else None
    present = lists if function in ("CollectMinN", "CollectMaxN") else lists[:1]
    if function in ("FirstBy", "LastBy"):  # the value is taken as it is (NU21)
        present = lists[1:]
    rows = [n for n in range(len(lists[0])) if all(column[n] is not None for column in present)]
    if not rows:
        return 0 if function == "CountDistinct" else [] if function in OF_LISTS else None
    found = of(*([c[n] for n in rows] if isinstance(c, list) else c for c in columns))
    return [v for v in found if v is not None] if function in ("CollectArgMin", "CollectArgMax") else found


# ---- the operator: section 7 -----------------------------------------------------------------------------------------


@dataclass
class Aggregate:
    window: Tumbling | Sliding
    partition_by: list[str]
    group_by: list[str]
    incomplete: bool
    output: dict[str, str]

    def emit(self, firings: Iterable[Firing]) -> Iterator[dict[str, Value]]:
        """The tuples of each batch, then its mark (P9), which an early result has not (F4); nothing before the window
        was full (S17).
        """
        for firing in firings:
            if firing.full or self.incomplete:
                groups = self.groups(firing.content)
                yield from ({"tuple": self.result(group, groups, firing)} for group in groups)
                if not firing.early:
                    yield {"punct": "window"}

    def groups(self, content: list[Stored]) -> list[list[Stored]]:
        """In the order of their first tuples; none of an empty batch (A4)."""
        groups: dict[Key, list[Stored]] = {}
        for stored in content:
            groups.setdefault(identity(stored.values, self.group_by), []).append(stored)
        return list(groups.values())

    def result(self, group: list[Stored], groups: list[list[Stored]], firing: Firing) -> Tuple:
        everything = len(firing.content) if firing.stored is None else firing.stored  # A18
        counts = {
            "Count": len(group),
            "CountAll": everything,
            "CountGroups": len(groups),
            "CountByGroup": [len(g) for g in groups] if self.group_by else [everything],
            "flushReason": firing.reason,
            "isEarly": firing.early,
        }
        row = {}
        for name, call in self.output.items():
            whole, condition = with_condition(call)
            function, arguments = parsed_call(whole)
            parts = [[stored.values for stored in g if holds(condition, stored.values)] for g in groups]  # FN1
            part = parts[next(n for n, g in enumerate(groups) if g is group)]
            columns = [[values[a] for values in part] if a.isidentifier() else constant(a) for a in arguments]
            if function == "Count" and columns:
                row[name] = sum(value is not None for value in columns[0])  # NU19
            elif condition and function in counts:
                sizes = [len(one) for one in parts]
                of_part = {"Count": len(part), "CountGroups": sum(map(bool, sizes)), "CountByGroup": sizes}
                row[name] = of_part[function]
            else:
                row[name] = counts[function] if function in counts else aggregated(function, columns)
        return row

    def key(self, values: Tuple) -> Key:
        return identity(values, self.partition_by)


class Operator:
    """An Aggregate on its clock, with its final marks."""

    def __init__(self, operator: dict[str, Any], topic_partitions: int = 1) -> None:
        self.schema = operator.get("schema", {})
        self.aggregate = Aggregate(
            window(operator, self.schema), operator["partition_by"], operator["group_by"],
            operator["aggregate_incomplete_windows"], operator["output"],
        )  # fmt: skip
        self.compared = compared(operator["window"])
        self.due = nanoseconds(operator.get("clock_origin", 0))
        self.live = set(range(topic_partitions))

    def run(self, events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{"after": n} | record for n, event in enumerate(events) for record in self.handle(event)]

    def handle(self, event: dict[str, Any]) -> Iterator[dict[str, Any]]:
        now = nanoseconds(event["at"])
        yield from self.move_clock(now)
        source = event.get("topic_partition", 0)
        if source in self.live:  # P13, P14: after its own final mark nothing of a topic partition counts
            yield from self.receive(event, source, now)

    def move_clock(self, now: int) -> Iterator[dict[str, Any]]:
        """What falls due on the way happens at its own time, before the event (C2, C3)."""
        w = self.aggregate.window
        while w.period and self.due + w.period <= now:
            self.due += w.period
            if self.live:
                yield from map(as_json, self.aggregate.emit(w.tick(self.due)))

    def receive(self, event: dict[str, Any], source: int, now: int) -> Iterator[dict[str, Any]]:
        if "tuple" in event:
            values = typed(event["tuple"], self.schema)
            if any(values[name] is None for name in self.compared):
                return  # NU27: a dead letter
            firings = self.aggregate.window.insert(self.aggregate.key(values), Stored(values, now, source))
            yield from map(as_json, self.aggregate.emit(firings))
        elif event.get("punct") == "window":
            yield from map(as_json, self.aggregate.emit(self.aggregate.window.mark(source, now)))
        elif event.get("punct") == "final":
            self.live.remove(source)
            if not self.live:
                yield {"punct": "final"}  # and nothing of what is stored (P10)


def run(case: dict[str, Any]) -> list[dict[str, Any]]:
    """The output of a case."""
    topic_partitions = 1 + max((e.get("topic_partition", 0) for e in case["input"]), default=0)
    return Operator(case["operator"], topic_partitions).run(case["input"])


# ---- text and values -------------------------------------------------------------------------------------------------


def window(operator: dict[str, Any], schema: dict[str, str]) -> Tumbling | Sliding:
    kind, *policies = re.findall(r"(\w+)(?:\(([^)]*)\))?", operator["window"])
    partitioned = ("partitioned", "") in policies
    sizes = [(name, text) for name, text in policies if name not in ("partitioned", "or", *LEAVING)]
    if kind[0] == "tumbling":
        found, *others = [tumbling(*one, schema) for one in sizes]
        if others:
            period = next((one.period for one in (found, *others) if one.period), None)
            found = TumblingAny(period=period, conditions=[found, *others])
        found.evicted = operator.get("aggregate_evicted_partitions", False)
    else:
        eviction, trigger = [*sizes, ("count", "1")][:2]  # W1
        found = Sliding(evictions(*eviction, schema), triggers(*trigger, schema), partitioned)
    found.leaving = leaving(operator["window"])
    return found


def leaving(window: str) -> PartitionEviction:
    found = re.findall(rf"({'|'.join(LEAVING)})\(([^)]*)\)", window)
    return PartitionEviction(found[0][0], int(float(found[0][1]))) if found else PartitionEviction()  # V6


LEAVING = ("partitionAge", "partitionCount", "tupleCount")


def tumbling(policy: str, text: str, schema: dict[str, str]) -> Tumbling:
    if policy == "count":
        return TumblingCount(size=int(text))
    if policy == "time":
        return TumblingTime(period=nanoseconds(text))
    if policy == "delta":
        attribute, size = delta(text, schema)
        return TumblingDelta(attribute=attribute, size=size)
    return TumblingPunct()


def evictions(policy: str, text: str, schema: dict[str, str]) -> CountEviction | TimeEviction | DeltaEviction:
    if policy == "count":
        return CountEviction(int(text))
    return TimeEviction(nanoseconds(text)) if policy == "time" else DeltaEviction(*delta(text, schema))


def triggers(policy: str, text: str, schema: dict[str, str]) -> CountTrigger | TimeTrigger | DeltaTrigger:
    if policy == "count":
        return CountTrigger(int(text))
    return TimeTrigger(nanoseconds(text)) if policy == "time" else DeltaTrigger(*delta(text, schema))


def delta(text: str, schema: dict[str, str]) -> tuple[str, int | float | str]:
    """Attribute and size, which may be an attribute; it is in units of the attribute, of a timestamp in seconds."""
    attribute, size = (part.strip() for part in text.split(","))
    if size.isalpha():
        return attribute, size
    if schema.get(attribute, "").rstrip("?") == "timestamp":
        return attribute, nanoseconds(size)
    if "decimal" in schema.get(attribute, ""):
        return attribute, Decimal(size)
    return attribute, float(size) if "." in size else int(size)


def with_condition(call: str) -> tuple[str, str]:
    """`Sum(f, where: b)` as `Sum(f)` and `b`."""
    before, where, condition = call.partition("where: ")
    return (f"{before.rstrip(', ')})", condition[:-1]) if where else (call, "")


#: the conditions of the random tests (FN1): an attribute, a comparison, and one that has no value for 0
CONDITIONS: dict[str, Callable[[Tuple], Any]] = {
    "": lambda _: True,
    "b": lambda t: t["b"],
    "i > 2": lambda t: t["i"] is not None and t["i"] > 2,
    "12 % i == 0": lambda t: bool(t["i"]) and 12 % t["i"] == 0,
    "isPresent(s)": lambda t: t["s"] is not None,
}


def holds(condition: str, values: Tuple) -> bool:
    """Whether the condition is true: null is not, and neither is an error."""
    return CONDITIONS[condition](values) is True


def parsed_call(call: str) -> tuple[str, list[str]]:
    """Function and arguments; an attribute alone is its Last (A3)."""
    function, _, arguments = call.rstrip(")").partition("(")
    return (function, [a.strip() for a in arguments.split(",") if a]) if "(" in call else ("Last", [call])


def constant(text: str) -> int | float:
    return float(text) if "." in text else int(text)


def nanoseconds(seconds: float | str) -> int:
    return round(Decimal(str(seconds)) * SECOND)


def key_bytes(key: Key) -> bytes:
    """In this order partitions fire together: one string as it is, else as JSON; one null behind all (NU24)."""
    if key == (None,):
        return b"\xff"
    if len(key) == 1 and isinstance(key[0], str):
        return key[0].encode()
    values = [word(plain(v)) for v in key]
    value = values[0] if len(values) == 1 else values
    return orjson.dumps(value, default=lambda number: orjson.Fragment(f"{number:f}"))


def word(value: Value) -> Value:
    """In a key what is not finite is a word, and -0.0 is 0.0."""
    if not isinstance(value, float):
        return value
    if math.isnan(value):
        return "NaN"
    return value + 0.0 if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def identity(values: Tuple, attributes: list[str]) -> Key:
    """Equal for tuples of one partition or group: there is one NaN (unlike A9), and one zero."""
    return tuple(math.nan if values[a] != values[a] else values[a] for a in attributes)


class Timestamp(int):
    """Nanoseconds since 1970; a type of its own so that a result is known to be one."""


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def typed(values: Tuple, schema: dict[str, str]) -> Tuple:
    return {name: read(v, schema.get(name, "")) for name, v in values.items()}


def read(value: Value, kind: str) -> Value:  # noqa: PLR0911 - a table of the types
    """The value of a type: of a map in the order of its keys (ST2), of a struct with each of its members."""
    kind = kind.removesuffix("?")
    word, _, inner = kind.removesuffix(">").partition("<")
    if value is None or not kind:
        return value
    if kind == "timestamp":
        return timestamp(value)
    if kind.startswith("decimal"):
        scale = int(kind.removesuffix(")").replace("(", ",").split(",")[-1])
        return decimal(Fraction(value), scale)
    if word == "list":
        return [read(item, inner) for item in value]
    if word == "map":
        return {key: read(value[key], inner.split(", ", 1)[1]) for key in sorted(value, key=str.encode)}
    if word == "tuple":
        return {name: read(value.get(name), of) for name, of in members(kind).items()}
    return value


def members(kind: str) -> dict[str, str]:
    """The types of the members of a struct."""
    return dict(re.findall(r"(\w+): ((?:[^<>,()]|<[^<>]*>|\([^)]*\))+)", kind))


def compared(*windows: str) -> set[str]:
    """The attributes that the delta policies of these windows read, and the sizes that are attributes."""
    found = re.findall(r"delta\((\w+),\s*(\w+)", " ".join(windows))
    return {name for pair in found for name in pair if name.isalpha()}


def timestamp(text: str) -> Timestamp:
    """Of `2013-01-01T05:15:00.000000001Z`."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    seconds = (datetime.fromisoformat(whole + "+00:00") - EPOCH) // (EPOCH.resolution * 10**6)
    return Timestamp(seconds * SECOND + int(fraction.ljust(9, "0") or 0))


def as_json(record: dict[str, Any]) -> dict[str, Any]:
    """With timestamps as text."""
    return {k: {n: plain(v) for n, v in t.items()} if k == "tuple" else t for k, t in record.items()}


def plain(value: Value) -> Value:
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {name: plain(v) for name, v in value.items()}
    if not isinstance(value, Timestamp):
        return value
    seconds, fraction = divmod(value, SECOND)
    text = (EPOCH + seconds * (EPOCH.resolution * 10**6)).strftime("%Y-%m-%dT%H:%M:%S")
    return text + (f".{fraction:09d}".rstrip("0") if fraction else "") + "Z"
