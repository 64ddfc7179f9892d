"""Random pipelines for `make chaos`: each flow is a part of the pipeline, and says what must come out of its records.

The calculations are written from the rules, in plain Python over lists, and use nothing of the product. A flow chooses
its sizes with a seed. Its outputs have the key `k`, and are compared in the order of each key.
"""

from __future__ import annotations

import json
import random
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

Tuple = dict[str, Any]
#: stream and key -> the tuples that must come out, in order
Outputs = dict[tuple[str, str], list[Tuple]]

#: the stream of an operator that comes and goes (`upgrade`)
EXTRA = "extra"
#: in place of a tuple, with the key: the mark of a firing
MARK = "mark"
#: the key of the records that end windows, of whose outputs nothing is expected
LAST = "last"
KEYS = [f"key {number}" for number in range(20)]
#: seconds by which event times are out of order at most; also the `lag` of the streams
LAG = 2.0
#: seconds by which a late record is late: beyond all that waits
LATE = 3600.0


class Sent(NamedTuple):
    """A record that was sent.

    key    the key of the record; empty: none, and the record goes to each topic partition
    value  the tuple, or bytes that are no tuple
    """

    stream: str
    key: str
    value: Tuple | bytes

    @property
    def data(self) -> bytes:
        return self.value if isinstance(self.value, bytes) else json.dumps(self.value).encode()


class Flow(ABC):
    """A part of the pipeline: its streams and operators, the records that go in, and the tuples that must come out."""

    #: streams of the file and their settings
    streams: dict[str, Any]
    operators: list[dict[str, Any]]
    #: whether the order of the outputs of a key follows from the records
    ordered = True
    #: whether each tuple of its first input has a number `n` of its own
    numbered = False

    def __init__(self, seeded: random.Random) -> None:
        self.random = seeded
        self.number = 0

    @property
    def inputs(self) -> list[str]:
        written = {stream for operator in self.operators for stream in operator["output"]}
        return [stream for stream in self.streams if stream not in written]

    @property
    def outputs(self) -> list[str]:
        """Written and not read again by the pipeline."""
        written = [stream for operator in self.operators for stream in operator["output"]]
        return [stream for stream in written if not self.streams[stream].get("exchange")]

    def before(self) -> Iterator[Sent]:
        """Records that are there before the service starts."""
        return iter(())

    def record(self, now: float) -> Sent:
        """The next record. `now` is the time in seconds since 1970."""
        self.number += 1
        key = KEYS[0] if self.random.random() < 0.3 else self.random.choice(KEYS)
        return self.of(key, self.number, now)

    @abstractmethod
    def of(self, key: str, number: int, now: float) -> Sent: ...

    def last(self, now: float) -> Iterator[Sent]:
        """Records after all others, with which open windows end; they go to each topic partition."""
        return iter(())

    @abstractmethod
    def expected(self, sent: Sequence[Sent]) -> Outputs: ...

    def letters(self, sent: Sequence[Sent]) -> Iterator[bytes]:
        """The values of the records that must become dead letters."""
        return (one.data for one in sent if isinstance(one.value, bytes))


class CountTumbling(Flow):
    """Tumbling windows of n tuples. Some records are no JSON."""

    numbered = True

    def __init__(self, seeded: random.Random) -> None:
        super().__init__(seeded)
        self.size = seeded.randint(2, 7)
        self.streams = {"orders": {"schema": {"k": "string", "n": "int64"}}, "totals": {"marks": "none"}}
        self.operators = [{
            "name": "totals", "aggregate": "orders",
            "window": f"tumbling, count({self.size}), partitioned", "partition_by": ["k"],
            "output": {"totals": {"k": "k", "s": "Sum(n)", "last": "Last(n)"}},
        }]  # fmt: skip

    def of(self, key: str, number: int, now: float) -> Sent:
        return Sent("orders", key, b"{no JSON %d" % number if number % 23 == 0 else {"k": key, "n": number})

    def expected(self, sent: Sequence[Sent]) -> Outputs:
        found: Outputs = {}
        for key, numbers in numbers_by_key(sent).items():
            windows = [numbers[first : first + self.size] for first in range(0, len(numbers), self.size)]
            found["totals", key] = [{"k": key, "s": sum(w), "last": w[-1]} for w in windows if len(w) == self.size]
        return found


class CountSliding(Flow):
    """Sliding windows over the last n tuples, at every m-th tuple; every seventh value is null."""

    numbered = True

    def __init__(self, seeded: random.Random) -> None:
        super().__init__(seeded)
        self.size, self.trigger = seeded.randint(2, 9), seeded.randint(1, 4)
        self.streams = {"readings": {"schema": {"k": "string", "n": "int64", "v": "int64?"}}, "sums": {"marks": "none"}}
        self.operators = [{
            "name": "sums", "aggregate": "readings",
            "window": f"sliding, count({self.size}), count({self.trigger}), partitioned", "partition_by": ["k"],
            "aggregate_incomplete_windows": True,
            "output": {"sums": {"k": "k", "n": "Last(n)", "all": "Count()", "s": "Sum(v)"}},
        }]  # fmt: skip

    def of(self, key: str, number: int, now: float) -> Sent:
        return Sent("readings", key, {"k": key, "n": number, "v": None if number % 7 == 0 else number})

    def expected(self, sent: Sequence[Sent]) -> Outputs:
        found: Outputs = {}
        for key, numbers in numbers_by_key(sent).items():
            ends = range(self.trigger, len(numbers) + 1, self.trigger)
            found["sums", key] = [self._sum(key, numbers[max(0, end - self.size) : end]) for end in ends]
        return found

    @staticmethod
    def _sum(key: str, window: list[int]) -> Tuple:
        present = [number for number in window if number % 7]
        return {"k": key, "n": window[-1], "all": len(window), "s": sum(present) if present else None}


class DeltaTumbling(Flow):
    """Tumbling windows that end when a value has grown by more than d."""

    numbered = True

    def __init__(self, seeded: random.Random) -> None:
        super().__init__(seeded)
        self.size = seeded.choice([20, 50, 90])
        self.streams = {"meters": {"schema": {"k": "string", "n": "int64"}}, "steps": {"marks": "none"}}
        self.operators = [{
            "name": "steps", "aggregate": "meters",
            "window": f"tumbling, delta(n, {self.size}), partitioned", "partition_by": ["k"],
            "output": {"steps": {"k": "k", "n": "First(n)", "all": "Collect(n)"}},
        }]  # fmt: skip

    def of(self, key: str, number: int, now: float) -> Sent:
        return Sent("meters", key, {"k": key, "n": number})

    def expected(self, sent: Sequence[Sent]) -> Outputs:
        found: Outputs = defaultdict(list)
        for key, numbers in numbers_by_key(sent).items():
            window: list[int] = []
            for number in numbers:
                if window and number - window[0] > self.size:
                    found["steps", key].append({"k": key, "n": window[0], "all": window})
                    window = []
                window = [*window, number]
        return dict(found)


class Panes(Flow):
    """Panes of event time: records out of order, and late ones, which become dead letters."""

    def __init__(self, seeded: random.Random) -> None:
        super().__init__(seeded)
        self.length = seeded.choice([1, 2, 5])
        event_time = {"attribute": "t", "lag": LAG}
        self.streams = {
            "clicks": {"schema": {"k": "string", "n": "int64", "t": "timestamp"}, "event_time": event_time},
            "panes": {"marks": "none"},
        }
        self.operators = [{
            "name": "panes", "aggregate": "clicks",
            "window": f"timeInterval, intervalDuration({self.length}), partitioned", "partition_by": ["k"],
            "output": {"panes": {"k": "k", "all": "Count()", "s": "Sum(n)", "least": "Min(n)"}},
        }]  # fmt: skip

    def of(self, key: str, number: int, now: float) -> Sent:
        late = LATE if number > 500 and number % 31 == 0 else self.random.uniform(0, LAG * 0.8)
        return Sent("clicks", key, {"k": key, "n": number, "t": instant(now - late)})

    def last(self, now: float) -> Iterator[Sent]:
        yield Sent("clicks", "", {"k": LAST, "n": 0, "t": instant(now + 60)})

    def expected(self, sent: Sequence[Sent]) -> Outputs:
        panes: dict[tuple[str, int], list[int]] = defaultdict(list)
        for value in self._in_time(sent):
            panes[value["k"], int(seconds(value["t"]) // self.length)].append(value["n"])
        found: Outputs = defaultdict(list)
        for (key, _), numbers in sorted(panes.items()):
            row = {"k": key, "all": len(numbers), "s": sum(numbers), "least": min(numbers)}
            found["panes", key].append(row)
        return dict(found)

    def letters(self, sent: Sequence[Sent]) -> Iterator[bytes]:
        kept = {value["n"] for value in self._in_time(sent)}
        return (one.data for one in sent if one.value["n"] and one.value["n"] not in kept)  # type: ignore[index]

    @staticmethod
    def _in_time(sent: Sequence[Sent]) -> Iterator[Tuple]:
        values = [one.value for one in sent if isinstance(one.value, dict) and one.value["n"]]
        return (value for value in values if not (value["n"] > 500 and value["n"] % 31 == 0))


class Sessions(Flow):
    """Sessions of event time."""

    def __init__(self, seeded: random.Random) -> None:
        super().__init__(seeded)
        self.gap = seeded.choice([0.5, 1.0, 2.0])
        event_time = {"attribute": "t", "lag": LAG}
        self.streams = {
            "visits": {"schema": {"k": "string", "n": "int64", "t": "timestamp"}, "event_time": event_time},
            "sessions": {"marks": "none"},
        }
        self.operators = [{
            "name": "sessions", "aggregate": "visits",
            "window": f"session, inactivityGap({self.gap})", "partition_by": ["k"],
            "output": {"sessions": {"k": "k", "all": "Count()", "s": "Sum(n)"}},
        }]  # fmt: skip

    def of(self, key: str, number: int, now: float) -> Sent:
        return Sent("visits", key, {"k": key, "n": number, "t": instant(now - self.random.uniform(0, LAG * 0.8))})

    def last(self, now: float) -> Iterator[Sent]:
        yield Sent("visits", "", {"k": LAST, "n": 0, "t": instant(now + 60)})

    def expected(self, sent: Sequence[Sent]) -> Outputs:
        found: Outputs = defaultdict(list)
        visits = [one.value for one in sent if one.value["n"]]  # type: ignore[index]
        for key in KEYS:
            own = sorted((nanoseconds(value["t"]), value["n"]) for value in visits if value["k"] == key)  # type: ignore[index,call-overload]
            session: list[tuple[int, int]] = []
            for visit in [*own, (None, 0)]:
                if session and (visit[0] is None or visit[0] - session[-1][0] > self.gap * 1e9):
                    numbers = [number for _, number in session]
                    found["sessions", key].append({"k": key, "all": len(numbers), "s": sum(numbers)})
                    session = []
                session = [*session, visit]
        return dict(found)


class Copies(Flow):
    """A dedup: records that a producer sends twice."""

    def __init__(self, seeded: random.Random) -> None:
        super().__init__(seeded)
        self.streams = {"events": {"schema": {"k": "string", "n": "int64"}}, "unique": {"marks": "none"}}
        self.operators = [{
            "name": "unique", "dedup": "events", "by": ["k", "n"], "within": "time(1000d)",
            "output": ["unique"],
        }]  # fmt: skip

    def record(self, now: float) -> Sent:
        if self.number and self.random.random() < 0.3:
            return self.of(KEYS[self.number % len(KEYS)], self.number, now)
        self.number += 1
        return self.of(KEYS[self.number % len(KEYS)], self.number, now)

    def of(self, key: str, number: int, now: float) -> Sent:
        return Sent("events", key, {"k": key, "n": number})

    def expected(self, sent: Sequence[Sent]) -> Outputs:
        unique = {key: list(dict.fromkeys(numbers)) for key, numbers in numbers_by_key(sent).items()}
        return {("unique", key): [{"k": key, "n": n} for n in numbers] for key, numbers in unique.items()}


class TwoStages(Flow):
    """Totals through an exchange topic, and the last of them beside each other."""

    def __init__(self, seeded: random.Random) -> None:
        super().__init__(seeded)
        self.first, self.second = seeded.randint(2, 4), seeded.randint(2, 4)
        self.streams = {
            "sales": {"schema": {"k": "string", "n": "int64"}},
            "subtotals": {"exchange": True, "partitions": 2},
            "ladder": {"marks": "none"},
        }
        self.operators = [
            {
                "name": "subtotals", "aggregate": "sales",
                "window": f"tumbling, count({self.first}), partitioned", "partition_by": ["k"],
                "output": {"subtotals": {"k": "k", "s": "Sum(n)"}},
            },
            {
                "name": "ladder", "aggregate": "subtotals",
                "window": f"sliding, count({self.second}), count(1), partitioned", "partition_by": ["k"],
                "aggregate_incomplete_windows": True,
                "output": {"ladder": {"k": "k", "all": "Collect(s)"}},
            },
        ]  # fmt: skip

    def of(self, key: str, number: int, now: float) -> Sent:
        return Sent("sales", key, {"k": key, "n": number})

    def expected(self, sent: Sequence[Sent]) -> Outputs:
        found: Outputs = {}
        for key, numbers in numbers_by_key(sent).items():
            whole = range(0, len(numbers) - self.first + 1, self.first)
            sums = [sum(numbers[start : start + self.first]) for start in whole]
            ends = range(1, len(sums) + 1)
            found["ladder", key] = [{"k": key, "all": sums[max(0, end - self.second) : end]} for end in ends]
        return found


class Feedback(Flow):
    """Tuples that return to the pipeline until their number is 0."""

    ordered = False

    def __init__(self, seeded: random.Random) -> None:
        super().__init__(seeded)
        self.rounds = seeded.randint(1, 4)
        self.streams = {
            "starts": {"schema": {"k": "string", "n": "int64", "left": "int64"}},
            "returning": {"exchange": True, "marks": None, "schema": {"k": "string", "n": "int64", "left": "int64"}},
            "rounds": {"marks": "none"},
        }
        self.operators = [
            {
                "name": "rounds", "map": ["starts", "returning"],
                "output": {"rounds": {"k": "k", "n": "n", "left": "left"}},
            },
            {
                "name": "returning", "map": ["starts", "returning"], "where": "left > 0",
                "output": {"returning": {"k": "k", "n": "n", "left": "left - 1"}},
            },
        ]  # fmt: skip

    def of(self, key: str, number: int, now: float) -> Sent:
        return Sent("starts", key, {"k": key, "n": number, "left": self.rounds})

    def expected(self, sent: Sequence[Sent]) -> Outputs:
        found: Outputs = {}
        for key, numbers in numbers_by_key(sent).items():
            lefts = range(self.rounds, -1, -1)
            found["rounds", key] = [{"k": key, "n": n, "left": left} for n in numbers for left in lefts]
        return found


class TableJoin(Flow):
    """A table on the right side of a join; its rows are there before the service starts."""

    numbered = True

    def __init__(self, seeded: random.Random) -> None:
        super().__init__(seeded)
        self.names = {key: f"name {seeded.randint(0, 9)} of {key}" for key in KEYS[::2]}
        self.streams = {
            "bookings": {"schema": {"k": "string", "n": "int64"}},
            "customers": {
                "schema": {"k": "string", "name": "string"}, "key": {"attributes": ["k"], "format": "text"},
                "table": True,
            },
            "named": {"marks": "none"},
        }  # fmt: skip
        self.operators = [{
            "name": "named", "join": {"left": "bookings", "right": "customers"},
            "equality_left": ["k"], "equality_right": ["k"], "algorithm": "leftOuter",
            "default_right": {"name": "unknown"},
            "output": {"named": {"k": "left.k", "n": "n", "name": "name"}},
        }]  # fmt: skip

    def before(self) -> Iterator[Sent]:
        return (Sent("customers", key, {"k": key, "name": name}) for key, name in self.names.items())

    def of(self, key: str, number: int, now: float) -> Sent:
        return Sent("bookings", key, {"k": key, "n": number})

    def expected(self, sent: Sequence[Sent]) -> Outputs:
        bookings = numbers_by_key([one for one in sent if one.stream == "bookings"])
        return {
            ("named", key): [{"k": key, "n": n, "name": self.names.get(key, "unknown")} for n in numbers]
            for key, numbers in bookings.items()
        }


class EventJoin(Flow):
    """A join over event time of two topics, which are read at different rates."""

    ordered = False

    def __init__(self, seeded: random.Random) -> None:
        super().__init__(seeded)
        self.before_s, self.after_s = seeded.choice([(1, 1), (2, 0), (0, 3)])
        schema = {"k": "string", "n": "int64", "t": "timestamp"}
        event_time = {"attribute": "t", "lag": LAG}
        self.streams = {
            "lefts": {"schema": schema, "event_time": event_time},
            "rights": {"schema": schema, "event_time": event_time},
            "pairs": {"marks": "none"},
        }
        self.operators = [{
            "name": "pairs", "join": {"left": "lefts", "right": "rights"},
            "window": f"interval, before({self.before_s}), after({self.after_s})",
            "equality_left": ["k"], "equality_right": ["k"],
            "output": {"pairs": {"k": "left.k", "l": "left.n", "r": "right.n"}},
        }]  # fmt: skip

    def of(self, key: str, number: int, now: float) -> Sent:
        stream = "lefts" if number % 3 else "rights"
        return Sent(stream, key, {"k": key, "n": number, "t": instant(now - self.random.uniform(0, LAG * 0.8))})

    def last(self, now: float) -> Iterator[Sent]:
        for stream in ("lefts", "rights"):
            yield Sent(stream, "", {"k": LAST, "n": 0, "t": instant(now + 60)})

    def expected(self, sent: Sequence[Sent]) -> Outputs:
        sides: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
        for one in sent:
            value = dict(one.value)  # type: ignore[arg-type]
            if value["n"]:
                sides[one.stream, value["k"]].append((nanoseconds(value["t"]), value["n"]))
        found: Outputs = defaultdict(list)
        for key in KEYS:
            for at, left in sides["lefts", key]:
                for other, right in sides["rights", key]:
                    if at - self.before_s * 10**9 <= other <= at + self.after_s * 10**9:
                        found["pairs", key].append({"k": key, "l": left, "r": right})
        return dict(found)


class Ratios(Flow):
    """A map with two outputs; a division by zero is a dead letter."""

    numbered = True

    def __init__(self, seeded: random.Random) -> None:
        super().__init__(seeded)
        self.divisor = seeded.randint(3, 11)
        self.streams = {
            "amounts": {"schema": {"k": "string", "n": "int64"}},
            "rests": {"marks": "none"}, "large": {"marks": "none"},
        }  # fmt: skip
        self.operators = [
            {
                "name": "rests", "map": "amounts",
                "output": {"rests": {"k": "k", "n": "n", "x": f"1000000 % (n % {self.divisor})"}},
            },
            {"name": "large", "map": "amounts", "where": "n % 10 == 9", "output": {"large": {"k": "k", "n": "n"}}},
        ]  # fmt: skip

    def of(self, key: str, number: int, now: float) -> Sent:
        return Sent("amounts", key, {"k": key, "n": number})

    def expected(self, sent: Sequence[Sent]) -> Outputs:
        found: Outputs = {}
        for key, numbers in numbers_by_key(sent).items():
            rests = [n for n in numbers if n % self.divisor]
            found["rests", key] = [{"k": key, "n": n, "x": 1000000 % (n % self.divisor)} for n in rests]
            found["large", key] = [{"k": key, "n": n} for n in numbers if n % 10 == 9]
        return found

    def letters(self, sent: Sequence[Sent]) -> Iterator[bytes]:
        return (one.data for one in sent if one.value["n"] % self.divisor == 0)  # type: ignore[index]


class Ranks(Flow):
    """Sorted windows, each of which ends with its mark: a firing is whole."""

    numbered = True

    def __init__(self, seeded: random.Random) -> None:
        super().__init__(seeded)
        self.size, self.marks = seeded.randint(2, 6), seeded.choice(["header", "record"])
        self.streams = {"scores": {"schema": {"k": "string", "n": "int64"}}, "ranks": {"marks": self.marks}}
        self.operators = [{
            "name": "ranks", "sort": "scores", "order_by": {"n": "desc"},
            "window": f"tumbling, count({self.size}), partitioned", "partition_by": ["k"], "output": ["ranks"],
        }]  # fmt: skip

    def of(self, key: str, number: int, now: float) -> Sent:
        return Sent("scores", key, {"k": key, "n": number})

    def expected(self, sent: Sequence[Sent]) -> Outputs:
        found: Outputs = defaultdict(list)
        for key, numbers in numbers_by_key(sent).items():
            for start in range(0, len(numbers) - self.size + 1, self.size):
                ranked = [{"k": key, "n": n} for n in reversed(numbers[start : start + self.size])]
                found["ranks", key] += [*ranked, {"k": key, MARK: "window"}]
        return dict(found)


KINDS: tuple[type[Flow], ...] = (
    CountTumbling, CountSliding, DeltaTumbling, Panes, Sessions, Copies, TwoStages, Feedback, TableJoin, EventJoin,
    Ratios, Ranks,
)  # fmt: skip


def random_flows(seeded: random.Random, count: int = 5) -> list[Flow]:
    """Different flows, each with sizes of its own."""
    return [kind(random.Random(seeded.getrandbits(32))) for kind in seeded.sample(KINDS, count)]


def numbers_by_key(sent: Sequence[Sent]) -> Mapping[str, list[int]]:
    """The numbers `n` of the tuples of each key, in the order in which they were sent."""
    found: dict[str, list[int]] = defaultdict(list)
    for one in sent:
        if isinstance(one.value, dict):
            found[one.value["k"]].append(one.value["n"])
    return found


def instant(time: float) -> str:
    """In microseconds, as text of ISO 8601."""
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="microseconds")


def nanoseconds(text: str) -> int:
    since = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000


def seconds(text: str) -> float:
    return nanoseconds(text) / 1e9
