"""Converts event times to ticks: the whole numbers in which the kernels count.

A timestamp is counted in nanoseconds, an int64 in the unit that its stream declares. A float64 of seconds stands for
the shortest decimal that names it, rounded to the nearest nanosecond. A slidingTime window counts whole milliseconds.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa

from sluice.engine.stream.event_times import units
from sluice.engine.stream.items import TUPLE, Items
from sluice.engine.stream.watermark_text import to_text
from sluice.engine.windows.event_time.event_records import NEVER
from sluice.model.spec import EventTime
from sluice.model.types import Type
from sluice.model.unparse import seconds

LARGEST = 2**63 - 1
#: the number of sizes of a window of panes: duration, period, discardAge, offset
PANE_SIZES = 4


class Sized(Protocol):
    """A window or another operator with sizes in nanoseconds. `tick`: see WindowKind."""

    @property
    def tick(self) -> int | None: ...

    @property
    def sizes(self) -> tuple[int, ...]: ...


class Ticks:
    """The ticks in which a window counts event time. A slidingTime window counts whole milliseconds (KIP W4)."""

    def __init__(self, event_time: EventTime, type_: Type, window: Sized) -> None:
        self.attribute = event_time.attribute
        self.type = type_
        tick = window.tick or event_time.tick
        #: the nanoseconds of a tick
        self.nanoseconds = tick
        self._units = tick // event_time.tick
        sizes = self.sizes(window)
        #: in ticks; 0 of windows that are no panes
        self._discard_age = sizes[2] if len(sizes) == PANE_SIZES else 0
        #: a pane is complete by a watermark, which is in nanoseconds; stream time is that of the tuples
        largest = LARGEST if window.tick else LARGEST // tick
        #: times between -most and most leave room for all sums with sizes (E14)
        self.most = largest - 4 * (sum(sizes) + 1)
        #: a watermark from here on is behind every window
        self.latest = largest - 2 * (sum(sizes) + 1)

    def sizes(self, window: Sized) -> tuple[int, ...]:
        """The sizes of the window, in ticks."""
        return tuple(size // self.nanoseconds for size in window.sizes)

    def of(self, tuples: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray | None]:
        """The ticks of each tuple, and which of them are out of range or no times (None: none is)."""
        ticks, bad = units(tuples.column(self.attribute), self.type)
        if self._units > 1:
            ticks = ticks // self._units
        outside = (ticks > self.most) | (ticks < -self.most)
        if bad is not None:
            outside |= bad
        return ticks, outside if outside.any() else None

    def times(self, items: Items) -> tuple[np.ndarray, np.ndarray | None]:
        """Like `of`, for the tuples of these items."""
        return self.of(items.tuples)

    def of_watermarks(self, watermarks: np.ndarray) -> np.ndarray:
        """The ticks of watermarks in nanoseconds. The maximum watermark is behind every window (E9)."""
        return np.clip(watermarks // self.nanoseconds, -self.most, self.latest) if len(watermarks) else watermarks

    @property
    def farthest(self) -> int:
        """How far from 1970 a time may be to be counted, in nanoseconds."""
        return self.most * self.nanoseconds

    def refusal(self, counter: str) -> str:
        """The reason of a tuple that `of` refuses (E14). `counter`: a window or a period."""
        ends = f"{to_text(-self.farthest)} and {to_text(self.farthest)}"
        return f"{self.attribute} is no event time that a {counter} can count, between {ends} (E14)"

    def late_before(self, watermarks: np.ndarray) -> np.ndarray:
        """For the ticks of watermarks: the ticks before which a tuple of a pane is late (E18)."""
        return watermarks - self._discard_age

    def aged(self, times: np.ndarray) -> np.ndarray:
        """For ticks of tuples: the ticks of the time that is the discardAge later."""
        return times + self._discard_age

    def are_last(self, ticks: np.ndarray) -> np.ndarray:
        """A mask of the watermarks, in ticks, after which no accepted time can follow, with the window's sizes."""
        return ticks >= self.latest

    def to_units(self, ticks: np.ndarray) -> np.ndarray:
        """Ticks in units of the attribute (nanoseconds for float64)."""
        return ticks * self._units

    def seconds(self, ticks: int) -> str:
        """Ticks as a text of seconds, for messages."""
        return seconds(ticks * self.nanoseconds)

    def distance(self, time: int, ticks: int) -> str:
        """How far the tick `time` is before the tick `time + ticks`, as the beginning of a text: `5 s `."""
        del time  # here all ticks are as long
        return f"{self.seconds(ticks)} s "


class ClockTicks(Ticks):
    """Times of the operator clock in nanoseconds, for windows without event time. Each tuple has one."""

    def __init__(self) -> None:
        self.attribute, self.nanoseconds, self._units = "the clock", 1, 1

    def times(self, items: Items) -> tuple[np.ndarray, np.ndarray | None]:
        return items.at[items.kind == TUPLE], None

    def of_watermarks(self, watermarks: np.ndarray) -> np.ndarray:
        """The watermarks themselves: without event time they have no effect."""
        return watermarks


class ValueTicks(ClockTicks):
    """The values of an attribute as whole numbers: an int64 as it is, a timestamp in nanoseconds, and a float64 in
    billionths. A value that is null, NaN or out of range is none.
    """

    def __init__(self, attribute: str, type_: Type) -> None:
        super().__init__()
        self.attribute, self.type = attribute, type_

    def times(self, items: Items) -> tuple[np.ndarray, np.ndarray | None]:
        return units(items.tuples.column(self.attribute), self.type)

    def refusal(self, counter: str) -> str:
        return f"{self.attribute} has no value that a {counter} can count"


assert NEVER < -LARGEST  # noqa: S101 - no time is NEVER
