"""Computes when the timer of a window is due: periodically, or by the local time of a zone, as every day at 23:59 in
Berlin.

A timer by local time follows daylight saving time. Each local date has the times of day `at`, `at` + `every` and so on,
each converted to an instant. If clocks are set forward, all times that are skipped are the instant of the change. If
clocks are set back, some times occur twice. Both occurrences count if `every` is at most an hour, however far the
clocks are set back: so a timer for each quarter of an hour continues through the repeated hour, and no period is longer
than the others. Otherwise only the first occurrence counts, so a daily timer has one tick a day.

The rules of a zone come from the time zone database of the machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np

from sluice.model.spec import Aligned, Window
from sluice.time_units import MAX_TIME, SECOND, UNSET, later

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - without zone, as the local times that are measured from it
ONE_DAY = timedelta(days=1)
HOUR, DAY = 3_600 * SECOND, 86_400 * SECOND
#: number of local dates whose ticks are cached
DATES = 16


def timer(window: Window) -> Periodic | WallClock | None:
    """The timer of a window: of a tumbling time window, or of a time trigger. None if the window has none."""
    if (timer := window.timer) is None:
        return None
    return WallClock(timer.aligned, timer.nanoseconds) if timer.aligned else Periodic(timer.nanoseconds)


class Periodic:
    """A timer whose ticks are one period apart, counted from the clock's origin (C1)."""

    def __init__(self, period: int) -> None:
        self._period = period

    def after(self, origin: int) -> int:
        """The first tick; MAX_TIME if it is beyond the range of times, so that it is never due."""
        return later(origin, self._period)


class WallClock:
    """An aligned timer, whose ticks are local times of day, `every` nanoseconds apart. Ticks are nanoseconds since
    1970.
    """

    def __init__(self, aligned: Aligned, every: int) -> None:
        self._zone, self._weekday, self._every, self._months = (
            ZoneInfo(aligned.zone),
            aligned.weekday,
            every,
            aligned.months,
        )
        self._times = (aligned.at + np.arange(max(1, DAY // every)) * every) % DAY
        self._of = lru_cache(DATES)(self._on)

    def after(self, time: int) -> int:
        """The first tick after this time."""
        return int(next(ticks[ticks > time][0] for ticks in self._from(time) if len(ticks) and ticks[-1] > time))

    def on(self, day: date) -> int:
        """The first tick of a local date, on which a period begins."""
        return int(self._of(day)[0])

    def through(self, tick: int, end: int) -> np.ndarray:
        """The ticks from this one on, up to and including the first tick after `end`."""
        if tick > end:
            return np.array([tick])
        periods = []
        for ticks in self._from(tick):
            periods.append(ticks)
            if len(ticks) and ticks[-1] > end:
                break
        all_ticks = np.concatenate(periods)
        return all_ticks[np.searchsorted(all_ticks, tick) : np.searchsorted(all_ticks, end, "right") + 1]

    def _from(self, time: int) -> Iterator[np.ndarray]:
        """All ticks in ascending order, each once, one local date at a time. They begin before `time`."""
        day = datetime.fromtimestamp(time // SECOND, self._zone).date() - ONE_DAY
        waiting = self._of(day)
        while True:
            day += ONE_DAY
            ticks = np.union1d(waiting, self._of(day))
            count = np.searchsorted(ticks, waiting[-1], "right") if len(waiting) else 0
            yield ticks[:count]
            waiting = ticks[count:]

    def _on(self, day: date) -> np.ndarray:
        """The ticks of a local date, in order. A period of the calendar has one on its first day (Y1)."""
        first = self._months is None or (day.day == 1 and (day.month - 1) % self._months == 0)
        if not first or self._weekday not in (None, day.weekday()):
            return np.zeros(0, np.int64)
        start = (day - EPOCH.date()).days * DAY
        if abs(start) > MAX_TIME - 4 * DAY:
            return self._at_an_end(start)
        local = start + self._times
        offset = self._offset(int(local[0]) - DAY)
        if offset == self._offset(int(local[0]) + 2 * DAY):
            return np.sort(local - offset)
        return np.unique([tick for time in local.tolist() for tick in self._shown(time)])

    def _at_an_end(self, start: int) -> np.ndarray:
        """The ticks of the local date that begins at `start`, near an end of the range of times. A tick beyond the end
        is MAX_TIME, which is never due, or UNSET + 1, which is over.
        """
        ticks = (tick for time in self._times.tolist() for tick in self._shown(start + time))
        return np.unique([min(max(tick, UNSET + 1), MAX_TIME) for tick in ticks])

    def _shown(self, local: int) -> list[int]:
        """The instants at which a local time occurs. `local` is in nanoseconds since 1970 of the local calendar."""
        first, second = local - self._offset(local), local - self._offset(local, again=1)
        if first > second:  # the local time is skipped
            return [self._set_forward(second, first)]
        return [first, second] if self._every <= HOUR else [first]

    def _offset(self, local: int, again: int = 0) -> int:
        """The zone's offset from UTC, in nanoseconds, at the first occurrence of a local time, or at the second if
        `again` is 1.
        """
        shown = (EPOCH + timedelta(seconds=local // SECOND)).replace(tzinfo=self._zone, fold=again)
        return _nanoseconds(shown.utcoffset())

    def _set_forward(self, before: int, after: int) -> int:
        """The instant between these two at which clocks are set forward, to the second."""
        low, high = before // SECOND, after // SECOND
        ahead = datetime.fromtimestamp(high, self._zone).utcoffset()
        while high - low > 1:
            middle = (low + high) // 2
            if datetime.fromtimestamp(middle, self._zone).utcoffset() == ahead:
                high = middle
            else:
                low = middle
        return high * SECOND


def _nanoseconds(offset: timedelta | None) -> int:
    return 0 if offset is None else (offset.days * 86_400 + offset.seconds) * SECOND
