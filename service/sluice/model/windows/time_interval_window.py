"""The window kind `timeInterval`: panes over event time (reference section 5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import gcd
from typing import ClassVar

from sluice.model.expressions import AggregateCall, Expression
from sluice.model.functions import row
from sluice.model.lateness.output_cases import FROM_ANCHOR, Case, Reading, View
from sluice.model.lateness.time_bounds import Span, TimeScope
from sluice.model.types import BOOLEAN, INT64, STRING
from sluice.model.unparse import number, seconds
from sluice.model.windows.policies.policy import Aligned
from sluice.model.windows.policies.time_policy import CALENDAR
from sluice.model.windows.window_kind import IS_EARLY, SizedKind, SizePart, WindowFunction, with_watermarks
from sluice.time_units import SECOND

#: maximum number of panes that contain a tuple, or begin within a second, without a warning
MANY_PANES = 10_000
DAY = 86_400 * SECOND
#: nominal lengths of the periods that panes of the calendar may have
NAMES = {DAY: "day", 7 * DAY: "week"} | {days * DAY: word for word, (_, days) in CALENDAR.items()}
HOUR = 3_600 * SECOND
#: by how much a period of the calendar may be longer than its nominal length
LONGER = 26 * HOUR
#: by how much the clocks of a zone are set back at most
BACK = 3 * HOUR
#: the size with which a clause says a period of the calendar
MONTHS = "months"


@dataclass(frozen=True, slots=True)
class TimeInterval(SizedKind):
    """`timeInterval`: panes [offset + k * period, offset + k * period + duration) of event time (E11).

    All in nanoseconds, whole numbers of the event time's ticks; `offset` is below `period` (E10). With `calendar` the
    panes are hours, days, weeks or months of a zone (Y2, Y3), and `duration` is the nominal length of one.
    """

    word = "timeInterval"
    example = "timeInterval, intervalDuration(60.0), discardAge(300.0), partitioned"
    parts: ClassVar[Mapping[str, SizePart]] = {
        "intervalDuration": SizePart("W26", needed=True, zero=False, periods=True),
        "creationPeriod": SizePart("W26", zero=False),
        "discardAge": SizePart("W26"),
        "intervalOffset": SizePart("W26", signed=True),
    }
    no_partition_eviction = "no partition eviction in a timeInterval window (rule W17)"
    needs_event_time = True
    in_arrival_order = False
    functions: ClassVar[tuple[WindowFunction, ...]] = (
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
        WindowFunction(
            row("isEmpty", "whether the pane has no tuple, as with `empty_panes` (EP1)", "-> boolean"), "empty", BOOLEAN
        ),
        IS_EARLY,
    )
    early = True
    paned = True
    latest = "intervalLast"
    #: whether the panes of one `duration` begin together, each one `period` longer than the one before
    cumulating: ClassVar[bool] = False

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
        """Discard age and offset are 0 by default (W2). An offset counts modulo the distance of starts (E10)."""
        del options, event_time
        calendar = None
        if MONTHS in sizes:
            calendar = Aligned(0, "UTC", months=sizes[MONTHS])
            sizes = {next(iter(cls.parts)): dict(CALENDAR.values())[sizes[MONTHS]] * DAY} | dict(sizes)
        duration, period = cls.lengths(sizes)
        offset = sizes.get("intervalOffset", 0) % cls.apart(duration, period)
        return cls(duration, period, sizes.get("discardAge", 0), offset, partitioned, calendar)

    @classmethod
    def lengths(cls, sizes: Mapping[str, int]) -> tuple[int, int]:
        """The length of panes and the distance of their starts, which is the length by default (W2)."""
        return sizes["intervalDuration"], sizes.get("creationPeriod", sizes["intervalDuration"])

    @classmethod
    def apart(cls, duration: int, period: int) -> int:
        """The distance of the starts of panes that have this duration and this period."""
        return duration if cls.cumulating else period

    @property
    def panes(self) -> TimeInterval:
        return self

    def clause(self) -> str:
        return ", ".join(self._clause_parts())

    def _clause_parts(self) -> Iterator[str]:
        yield self.word
        yield from self._length_parts()
        if self.discard_age:
            yield f"discardAge({number(self.discard_age)})"
        if self.offset:
            yield f"intervalOffset({number(self.offset)})"
        if self.partitioned:
            yield "partitioned"

    def _length_parts(self) -> Iterator[str]:
        yield f"intervalDuration({self.length})"
        if self.period != self.duration:
            yield f"creationPeriod({number(self.period)})"

    @property
    def length(self) -> str:
        """The duration as the clause has it."""
        months = self.calendar.months if self.calendar else None
        words = {months: word for word, (months, _) in CALENDAR.items()}
        return words[months] if months else str(number(self.duration))

    @property
    def shortest(self) -> int:
        """The length of the shortest pane, in nanoseconds; nominal with `calendar`."""
        return self.duration

    # ---- event times of results ----

    def cases(self, reading: Reading) -> Iterator[Case]:
        """The anchor is the end of the pane, which is at least one unit after the watermark before. In one pane for all
        tuples of a stream without lag, the tuple that has made this watermark is the newest one, unless the pane begins
        later.
        """
        tick, longest, own_whole = reading.tick, self.longest, reading.own_whole
        start = Span(-longest, -tick if self.calendar else -self.shortest)
        ends = {"intervalStart": start, "intervalEnd": Span(0, 0), "intervalLast": Span(-tick, -tick)}
        scope = TimeScope(reading.times(Span(-longest, -tick)), ends, tick)
        views = [View(self.discard_age - tick, scope, self.discard_age)]
        if own_whole is not None and not (own_whole.lag or own_whole.advances or self.discard_age):
            views.append(View(0, TimeScope(reading.times(Span(tick - longest), FROM_ANCHOR, FROM_ANCHOR), {}, tick)))
        yield Case(tuple(views))

    @property
    def emitted(self) -> str:
        return "when the pane fires" + " again for late tuples" * (self.discard_age > 0)

    def late_instead(self, attribute: str, stream: str, time: Expression | None) -> str:
        if not self.discard_age:
            return ""
        is_last = isinstance(time, AggregateCall) and time.function == "intervalLast"
        last = "" if is_last else f"`{attribute}: intervalLast()`, and "
        return f"write {last}`discardAge({number(self.discard_age)})` in what reads {stream}"

    # ---- the calendar ----

    def no_alignment(self) -> str:
        if self.period != self.duration and not self.cumulating:
            return "creationPeriod"
        return "intervalOffset" if self.offset else ""

    def on_calendar(self, aligned: Aligned) -> TimeInterval:
        return replace(self, calendar=aligned)

    @property
    def slot(self) -> int:
        """With `calendar`: the ticks of a pane, or of a step, which is not longer. Both occurrences of an hour that the
        clocks repeat count if the period is at most an hour, so that none is longer (engine/windows/timers.py).
        """
        if self.period >= DAY:
            return self.period + LONGER
        return self.period if self.period <= HOUR else 2 * self.period

    @property
    def slots(self) -> int:
        """With `calendar`: the greatest number of steps of a pane; 1 if panes do not grow."""
        return _most_parts(self.duration, self.period) if self.cumulating else 1

    @property
    def panes_of_a_day(self) -> int:
        """With `calendar`: the greatest number of panes that begin on a day; 1 if a pane is not shorter."""
        return 1 if self.duration >= DAY else _most_parts(DAY, self.duration)

    @property
    def sizes(self) -> tuple[int, ...]:
        """With `calendar` sizes that no period exceeds, by the shifts of a zone's clocks."""
        if self.calendar is not None:
            return self.slots * self.slot, self.slot, self.discard_age, 0
        return self.duration, self.period, self.discard_age, self.offset

    @property
    def accepts(self) -> int:
        return self.discard_age

    @property
    def holds(self) -> int:
        """A tuple of the first pane that is not closed is so old."""
        return self.longest + self.discard_age

    @property
    def longest(self) -> int:
        """The length of the longest pane, in nanoseconds."""
        return self.duration + LONGER if self.calendar else self.duration

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
        late = f", and again for late tuples until {seconds(self.discard_age)} s later" if self.discard_age else ""
        if self.calendar is not None:
            name = self.period_in_words
            fires = f"as the watermark reaches the end of a {name} in {self.calendar.zone}{late}"
            return fires, with_watermarks(f"up to one {name}", lag)
        fires = f"as the watermark reaches the end of a pane{late}; panes start every {seconds(self.period)} s"
        return fires, with_watermarks(f"up to {seconds(self.duration)} s, the length of its pane", lag)

    @property
    def period_in_words(self) -> str:
        """A pane of the calendar: `day`, `month`, `pane of 8 hours`."""
        return NAMES.get(self.duration) or f"pane of {seconds(self.duration)} s"


def _most_parts(whole: int, part: int) -> int:
    """How many parts of this length a period of the calendar can have. Parts of more than an hour begin at the first
    occurrence of a local time only.
    """
    return whole // part if part > HOUR else (whole + BACK) // part
