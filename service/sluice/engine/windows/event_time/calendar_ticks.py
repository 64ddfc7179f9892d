"""Panes of the calendar: converts event times to ticks in which all days, weeks or months of a zone are equally long.

The kernel of panes has one length for all panes. So period k of the calendar, counted from the one that has the
first day of 1970, begins at tick k * `length`, which is longer than any period. A time is as many ticks behind that as
it is behind the beginning of its period:

    event time     |--January--|--February-|---March---|
    ticks          |--January--....|--February-....|---March---....      .... : ticks that no time has

So the order of times stays, and a pane of `length` ticks is a period.

Panes that are shorter than a day, and the steps of panes that grow, divide a period of the calendar into slots of
`length` ticks each. A period has as many slots as it may have parts at most; its parts take the last ones of them, so
that the end of the last part is the beginning of the next period. The slots before begin with the period:

    a day of 23 hours, in panes of an hour      |00:00|00:00|00:00|01:00|03:00| ... |23:00|

Distances over several slots are no lengths of time. So `late_before` and `closings` compute what a discardAge means.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pyarrow as pa

from sluice.engine.windows.event_time.event_ticks import Ticks
from sluice.engine.windows.timers import DAY, WallClock
from sluice.model.spec import EventTime, Window
from sluice.model.types import Type

EPOCH = date(1970, 1, 1)
#: the local dates around the UTC date of a time, one of which has the beginning of a period that is not after the time
AROUND = range(-2, 3)
#: how far a time may be from 1970, in nanoseconds: 1,870 years
MAX_DISTANCE = 59 * 10**18
#: the number of dates and periods whose numbers and beginnings are cached
CACHED = 1 << 16


def ticks_of(event_time: EventTime, type_: Type, window: Window) -> Ticks:
    """How the window counts event time."""
    return CalendarTicks(event_time, type_, window) if window.calendar else Ticks(event_time, type_, window)


class CalendarTicks(Ticks):
    """How panes with `align`, or of a period of the calendar, count event time (Y2, Y3, CU5)."""

    def __init__(self, event_time: EventTime, type_: Type, window: Window) -> None:
        super().__init__(event_time, type_, window)
        panes, aligned = window.panes, window.calendar
        assert panes is not None  # noqa: S101 - ticks_of chooses the class
        assert aligned is not None  # noqa: S101 - the same
        self._tick, self._months = event_time.tick, aligned.months
        self._weekday, self._weekly = aligned.weekday or 0, aligned.weekday is not None
        self._pane, self._length, self._age, _ = self.sizes(window)
        self._clock = WallClock(aligned, max(panes.duration, DAY))
        plain = replace(aligned, months=None, weekday=None)
        #: what divides a period into panes, and these into steps; each with the greatest number of its parts
        self._parts = [
            (WallClock(plain, size), count)
            for size, count in ((panes.duration, panes.panes_of_a_day), (panes.period, panes.slots))
            if count > 1
        ]
        self._slots = panes.panes_of_a_day * panes.slots
        #: a day of 23 hours has 50 hours of ticks, and dates begin in the year 1
        shrunk = self.most * 5 // 11
        if self._parts:
            shrunk = self.most * max(panes.duration, DAY) // (event_time.tick * self._slots * self._length) * 9 // 10
        self._farthest = min(shrunk, MAX_DISTANCE // event_time.tick)
        self._number, self._starts = lru_cache(CACHED)(self._number_of), lru_cache(CACHED)(self._starts_of)

    def of(self, tuples: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray | None]:
        times, bad = super().of(tuples)
        outside = (times > self._farthest) | (times < -self._farthest)
        if bad is not None:
            outside |= bad
        return self._ticks(np.where(outside, 0, times)), outside if outside.any() else None

    def of_watermarks(self, watermarks: np.ndarray) -> np.ndarray:
        """A watermark that is later than all times is behind every period."""
        times = super().of_watermarks(watermarks)
        late = times > self._farthest
        return np.where(late, self.latest, self._ticks(np.where(late, 0, np.maximum(times, -self._farthest))))

    @property
    def farthest(self) -> int:
        return self._farthest * self._tick

    def to_units(self, ticks: np.ndarray) -> np.ndarray:
        slot, behind = np.divmod(ticks, self._length)
        slots, place = np.unique(slot, return_inverse=True)
        starts = np.array([self._starts(n // self._slots)[n % self._slots] for n in slots.tolist()], np.int64)
        times: np.ndarray = starts[place.reshape(-1)] + behind if len(ticks) else ticks
        return times

    def late_before(self, watermarks: np.ndarray) -> np.ndarray:
        unmoved = self.are_last(watermarks) | (watermarks < -self.most)
        times = self.to_units(np.where(unmoved, 0, watermarks)) - self._age
        return np.where(unmoved, watermarks, self._ticks(np.maximum(times, -self._farthest)))

    def aged(self, times: np.ndarray) -> np.ndarray:
        return self._ticks(np.minimum(self.to_units(times) + self._age, self._farthest))

    def closings(self, times: np.ndarray) -> np.ndarray:
        """For ticks of tuples: the ticks of the watermark at which the last pane of each closes (E28)."""
        return self.behind_panes(times, self._age)

    def behind_panes(self, times: np.ndarray, by: int) -> np.ndarray:
        """For ticks of tuples: the ticks of the time that is `by` units of real time behind the end of the last pane of
        each.
        """
        ends = self.to_units((times // self._pane + 1) * self._pane)
        return self._ticks(np.minimum(ends + by, self._farthest))

    def seconds(self, ticks: int) -> str:
        """The time that has these ticks, as a text of seconds."""
        return super().seconds(int(self.to_units(np.array([ticks]))[0]))

    def distance(self, time: int, ticks: int) -> str:
        """In real seconds; empty if `time + ticks` is that of a watermark later than all times."""
        if time + ticks > self.most:
            return ""
        first, last = self.to_units(np.array([time, time + ticks])).tolist()
        return f"{super().seconds(last - first)} s "

    def _ticks(self, times: np.ndarray) -> np.ndarray:
        """The ticks of times in units of the attribute."""
        if not len(times):
            return times
        days = np.unique(times // (DAY // self._tick)).tolist()
        numbers = sorted({self._number(day + around) for day in days for around in AROUND})
        starts = np.concatenate([self._starts(number) for number in numbers])
        place = np.searchsorted(starts, times, "right") - 1
        first = np.array(numbers)[place // self._slots] * self._slots + place % self._slots
        return first * self._length + np.minimum(times - starts[place], self._length - 1)  # type: ignore[no-any-return]

    def _number_of(self, day: int) -> int:
        """The number of the period that has this local date, in days since 1970."""
        if self._months is not None:
            date = EPOCH + timedelta(days=day)
            return ((date.year - EPOCH.year) * 12 + date.month - 1) // self._months
        return (day + EPOCH.weekday() - self._weekday) // 7 if self._weekly else day

    def _starts_of(self, number: int) -> np.ndarray:
        """The beginning of each slot of a period, in units of the attribute."""
        starts = np.array([self._start_of(number)])
        if self._parts:
            bounds = [int(starts[0]), self._start_of(number + 1)]
            for clock, count in self._parts:
                starts = np.concatenate([_last_slots(clock, *pair, count) for pair in pairwise([*starts, bounds[1]])])
        return starts // self._tick

    def _start_of(self, number: int) -> int:
        """The beginning of a period, in nanoseconds since 1970."""
        if self._months is not None:
            month = number * self._months
            first = date(EPOCH.year + month // 12, month % 12 + 1, 1)
        else:
            day = number * 7 - EPOCH.weekday() + self._weekday if self._weekly else number
            first = EPOCH + timedelta(days=day)
        return self._clock.on(first)


def _last_slots(clock: WallClock, start: int, end: int, count: int) -> np.ndarray:
    """The beginnings of `count` slots from `start` to `end`: those of the clock's ticks are the last ones, and the
    slots before begin at `start`. A slot that begins at `end` is empty.
    """
    ticks = clock.through(start, end - 1) if start < end else np.zeros(0, np.int64)
    ticks = ticks[ticks < end][:count]
    return np.concatenate([np.full(count - len(ticks), start), ticks])
