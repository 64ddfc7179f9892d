"""When the timer of a window is due: periodically, or by a clock on a wall, as every day at 23:59 in Berlin.

A clock on a wall follows daylight saving. Each local date has the times of day `at`, `at` + `every` and so on, as
instants. Where clocks are set forward, all the times that they skip are the instant at which they are. Where clocks are
set back, times come twice: both count if what is repeated is at least as long as `every`, so that a timer for each
quarter of an hour goes on through that hour; else the first one does, so that there is one tick a day.

The rules of a zone are those of the time zone database of the machine; nothing else is asked of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np

from sluice.model.spec import Aligned, Time, Window
from sluice.time_units import SECOND

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - without zone, as the local times that are measured from it
ONE_DAY = timedelta(days=1)
DAY = 86_400 * SECOND
#: local dates that are kept at hand
DATES = 16


def timer(window: Window) -> Periodic | WallClock | None:
    """That of a tumbling time window, or of a time trigger."""
    match window.timer:
        case Time(period, None):
            return Periodic(period)
        case Time(period, Aligned() as aligned):
            return WallClock(aligned, period)
    return None


class Periodic:
    """Ticks that count from the clock's origin (C1)."""

    def __init__(self, period: int) -> None:
        self._period = period

    def after(self, origin: int) -> int:
        """The first tick."""
        return origin + self._period


class WallClock:
    """The ticks of an aligned timer of `every` nanoseconds, as nanoseconds since 1970."""

    def __init__(self, of: Aligned, every: int) -> None:
        self._zone, self._weekday, self._every = ZoneInfo(of.zone), of.weekday, every
        self._times = (of.at + np.arange(max(1, DAY // every)) * every) % DAY
        self._of = lru_cache(DATES)(self._on)

    def after(self, time: int) -> int:
        """The first tick behind this time."""
        return int(next(ticks[ticks > time][0] for ticks in self._from(time) if len(ticks) and ticks[-1] > time))

    def through(self, tick: int, end: int) -> np.ndarray:
        """The ticks from this one on, up to the first behind `end`."""
        if tick > end:
            return np.array([tick])
        found = []
        for ticks in self._from(tick):
            found.append(ticks)
            if len(ticks) and ticks[-1] > end:
                break
        whole = np.concatenate(found)
        return whole[np.searchsorted(whole, tick) : np.searchsorted(whole, end, "right") + 1]

    def _from(self, time: int) -> Iterator[np.ndarray]:
        """All ticks in order, each once, from some before this time on."""
        day = datetime.fromtimestamp(time // SECOND, self._zone).date() - ONE_DAY
        waiting = self._of(day)
        while True:
            day += ONE_DAY
            both = np.union1d(waiting, self._of(day))
            count = np.searchsorted(both, waiting[-1], "right") if len(waiting) else 0
            yield both[:count]
            waiting = both[count:]

    def _on(self, day: date) -> np.ndarray:
        """The ticks of a local date, in order."""
        if self._weekday not in (None, day.weekday()):
            return np.zeros(0, np.int64)
        local = (day - EPOCH.date()).days * DAY + self._times
        offset = self._offset(int(local[0]) - DAY)
        if offset == self._offset(int(local[0]) + 2 * DAY):
            return np.sort(local - offset)
        return np.unique([tick for one in local.tolist() for tick in self._shown(one)])

    def _shown(self, local: int) -> list[int]:
        """When the clock on the wall shows this time, in nanoseconds since its own 1970."""
        first, second = local - self._offset(local), local - self._offset(local, again=1)
        if first > second:  # it never does
            return [self._set_forward(second, first)]
        return [first, second] if second - first >= self._every else [first]

    def _offset(self, local: int, again: int = 0) -> int:
        """How far the zone is ahead of UTC when the wall shows this for the first time, or again."""
        shown = (EPOCH + timedelta(seconds=local // SECOND)).replace(tzinfo=self._zone, fold=again)
        return _nanoseconds(shown.utcoffset())

    def _set_forward(self, before: int, after: int) -> int:
        """When between these instants the clocks are, to the second."""
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
