"""The window kind `timeInterval`: panes over event time (reference section 5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import gcd
from typing import ClassVar

from sluice.model.functions import row
from sluice.model.types import INT64, STRING
from sluice.model.unparse import number, seconds
from sluice.model.windows.policies.time_policy import CALENDAR, Aligned
from sluice.model.windows.window_kind import IS_EARLY, SizedKind, SizePart, WindowFunction, with_watermarks
from sluice.time_units import SECOND

#: maximum number of panes that contain a tuple, or begin within a second, without a warning
MANY_PANES = 10_000
DAY = 86_400 * SECOND
#: nominal lengths of the periods that panes of the calendar may have
NAMES = {DAY: "day", 7 * DAY: "week"} | {days * DAY: word for word, (_, days) in CALENDAR.items()}
#: by how much a period of the calendar may be longer than its nominal length
LONGER = 26 * 3_600 * SECOND
#: the size with which a clause says a period of the calendar
MONTHS = "months"


@dataclass(frozen=True, slots=True)
class TimeInterval(SizedKind):
    """`timeInterval`: panes [offset + k * period, offset + k * period + duration) of event time (E11).

    All in nanoseconds, whole numbers of the event time's ticks; `offset` is below `period` (E10). With `calendar` the
    panes are days, weeks or months of a zone (Y2), and `duration` is the nominal length of one.
    """

    word = "timeInterval"
    example = "timeInterval, intervalDuration(60.0), discardAge(300.0), partitioned"
    parts: ClassVar[Mapping[str, SizePart]] = {
        "intervalDuration": SizePart("W26", needed=True, zero=False),
        "creationPeriod": SizePart("W26", zero=False),
        "discardAge": SizePart("W26"),
        "intervalOffset": SizePart("W26"),
    }
    no_partition_eviction = "no partition eviction in a timeInterval window (rule W17)"
    needs_event_time = True
    in_arrival_order = False
    functions = (
        WindowFunction(row("intervalStart", "start of the window, which is inside", "-> event time"), "start"),
        WindowFunction(
            row(
                "intervalEnd",
                "its end: of a timeInterval the first time behind it, of a slidingTime the last inside",
                "-> event time",
            ),
            "end",
        ),
        WindowFunction(
            row("intervalLast", "its last time inside, one unit of resolution before intervalEnd()", "-> event time"),
            "last",
        ),
        WindowFunction(
            row(
                "paneIndex",
                "how often the pane fired before; equal for all partitions that one watermark fires (E29)",
                "-> int64",
            ),
            "index",
            INT64,
        ),
        WindowFunction(
            row(
                "paneTiming",
                "paneOnComplete at the first firing of the pane, then paneLate (E29); paneEarly of an early result",
                "-> string",
            ),
            "timing",
            STRING,
        ),
        IS_EARLY,
    )
    early = True

    duration: int
    period: int
    discard_age: int = 0
    offset: int = 0
    partitioned: bool = False
    calendar: Aligned | None = None

    @classmethod
    def of(
        cls, sizes: Mapping[str, int], options: Mapping[str, str], *, partitioned: bool, event_time: bool
    ) -> TimeInterval:
        """The creation period is the duration by default, discard age and offset are 0 (W2)."""
        del options, event_time
        if MONTHS in sizes:
            days = dict(CALENDAR.values())[sizes[MONTHS]]
            calendar = Aligned(0, "UTC", months=sizes[MONTHS])
            return cls(days * DAY, days * DAY, partitioned=partitioned, calendar=calendar)
        duration = sizes["intervalDuration"]
        period = sizes.get("creationPeriod", duration)
        offset = sizes.get("intervalOffset", 0) % period  # E10
        return cls(duration, period, sizes.get("discardAge", 0), offset, partitioned)

    def clause(self) -> str:
        return ", ".join(self._clause_parts())

    def _clause_parts(self) -> Iterator[str]:
        yield self.word
        yield f"intervalDuration({self._length()})"
        if self.period != self.duration:
            yield f"creationPeriod({number(self.period)})"
        if self.discard_age:
            yield f"discardAge({number(self.discard_age)})"
        if self.offset:
            yield f"intervalOffset({number(self.offset)})"
        if self.partitioned:
            yield "partitioned"

    def _length(self) -> str:
        """The duration as the clause has it."""
        months = self.calendar.months if self.calendar else None
        words = {months: word for word, (months, _) in CALENDAR.items()}
        return words[months] if months else str(number(self.duration))

    @property
    def sizes(self) -> tuple[int, ...]:
        """With `calendar`, a duration that is longer than any of its periods, by the shifts of a zone's clocks."""
        if self.calendar is not None:
            return self.duration + LONGER, self.duration + LONGER, 0, 0
        return self.duration, self.period, self.discard_age, self.offset

    @property
    def accepts(self) -> int:
        return self.discard_age

    @property
    def holds(self) -> int:
        """A tuple of the first pane that is not closed is so old."""
        return self.sizes[0] + self.discard_age

    @property
    def time_in_words(self) -> str:
        """Panes that overlap share slices (engine/windows/event_time/panes.py)."""
        width = gcd(self.period, self.duration)
        return "pane" if width == self.duration else f"slice of {seconds(width)} s of its panes"

    def no_early(self) -> str:
        return "its panes overlap: creationPeriod is less than intervalDuration" * (self.period < self.duration)

    def cautions(self) -> Iterator[str]:
        """Warns of many panes, because each pane costs memory and time."""
        if self.duration // self.period > MANY_PANES:
            yield f"each tuple is in {self.duration // self.period:,} panes, each of which gives a result"
        if SECOND // self.period > MANY_PANES:
            yield f"{SECOND // self.period:,} panes begin in each second of event time"

    def needs_one_bucket(self, *, described: frozenset[str], behind_window: bool) -> str:
        """The firings of a pane are counted over all partitions (E29). Without discardAge a pane fires once (E26)."""
        del behind_window
        counted = self.discard_age > 0 and not described.isdisjoint({"index", "timing"})
        return (
            "paneIndex and paneTiming count the firings of a pane for all partitions together (E29)" if counted else ""
        )

    @property
    def fires_at_watermarks(self) -> bool:
        return True

    def fires(self, lag: int | None, *, incomplete: bool) -> tuple[str, str]:
        del incomplete
        if self.calendar is not None:
            fires = f"as the watermark reaches the end of a {NAMES[self.duration]} in {self.calendar.zone}"
            return fires, with_watermarks(f"up to one {NAMES[self.duration]}", lag)
        late = f", and again for late tuples until {seconds(self.discard_age)} s later" if self.discard_age else ""
        fires = f"as the watermark reaches the end of a pane{late}; panes start every {seconds(self.period)} s"
        return fires, with_watermarks(f"up to {seconds(self.duration)} s, the length of its pane", lag)
