"""What the clauses of tumbling and sliding windows are made of: policies of tuples, and of whole partitions."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.model.expressions import Expression


@dataclass(frozen=True, slots=True)
class Count:
    """`count(n)`: n tuples. count(0) ignores all tuples (tumbling, T3), stores none (eviction, S9) or never fires
    (S10).
    """

    size: int


@dataclass(frozen=True, slots=True)
class Aligned:
    """The wall-clock times of a zone at which a timer ticks.

    at        one of them, nanoseconds from midnight on; the others are whole periods away, on each day
    weekday   the day that a period of a week begins on, 0 is Monday; None: the period divides a day
    """

    at: int
    zone: str
    weekday: int | None = None
    #: the period in months of the calendar, 1, 3 or 12: the ticks are on the first day of a period (Y1); None: the
    #: period has a fixed length
    months: int | None = None


@dataclass(frozen=True, slots=True)
class Time:
    """`time(seconds)` on the operator's clock; a timer's ticks may be aligned to the wall clock."""

    nanoseconds: int
    aligned: Aligned | None = None


@dataclass(frozen=True, slots=True)
class Delta:
    """`delta(attribute, size)`: strictly more than `size` above the reference (T10 to T15, S8, S11).

    `size` is in units of the attribute: an int for int64, a float for float64, nanoseconds for a timestamp. Or it is an
    expression over the newest tuple, with the type of the attribute, for a timestamp float64 seconds.
    """

    attribute: str
    size: int | float | Expression


@dataclass(frozen=True, slots=True)
class Punct:
    """`punct()`: a window mark flushes the window (T18 to T20)."""


@dataclass(frozen=True, slots=True)
class PartitionAge:
    """`partitionAge(seconds)`: a partition into which no tuple was inserted for longer leaves; whole seconds (V6 to
    V9).
    """

    seconds: int


@dataclass(frozen=True, slots=True)
class PartitionCount:
    """`partitionCount(n)`: if there are more than n partitions, those least recently inserted into leave (V10)."""

    most: int


@dataclass(frozen=True, slots=True)
class TupleCount:
    """`tupleCount(n)`: if all partitions have more than n tuples together, whole partitions leave (V12 to V15)."""

    most: int


PartitionEviction = PartitionAge | PartitionCount | TupleCount

#: the periods of the calendar, by their words in a clause: months, and days at most
CALENDAR = {"month": (1, 31), "quarter": (3, 92), "year": (12, 366)}


@dataclass(frozen=True, slots=True)
class Early:
    """`early: count(n) or time(seconds)`: when an open window emits an early result (F1, F2). `count` or `time` may be
    None.

    count   the number of tuples since the last result of the window
    time    nanoseconds of the operator clock since the first of these tuples
    """

    count: int | None = None
    time: int | None = None


#: when tuples leave a window, or when it fires
Policy = Count | Time | Delta | Punct
