"""The policy `time(seconds)`: a length of time on the operator clock, or a period of the calendar."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import ClassVar

from sluice.model.errors import Fault
from sluice.model.unparse import number, seconds
from sluice.model.windows.policies.policy import (
    MAX_SECONDS,
    Aligned,
    Held,
    Input,
    Part,
    Policy,
    Replayed,
    Resizing,
    Role,
    Timer,
)
from sluice.time_units import SECOND

#: the periods of the calendar, by their words in a clause: months, and days at most
CALENDAR = {"month": (1, 31), "quarter": (3, 92), "year": (12, 366)}
#: the longest wait for an early result, in seconds: 3,650 days (F2)
MAX_WAIT = Decimal(3_650 * 86_400)


@dataclass(frozen=True, slots=True)
class Time(Timer):
    """`time(seconds)` on the operator's clock; a timer's ticks may be aligned to the wall clock."""

    word: ClassVar[str] = "time"
    form: ClassVar[str] = "time(seconds)"
    by_clock: ClassVar[bool] = True
    fills_at_once: ClassVar[bool] = True

    nanoseconds: int
    aligned: Aligned | None = None

    @classmethod
    def read(cls, part: Part, input_: Input | None) -> Time | Fault:
        """Exact whole nanoseconds (C6), or a period of the calendar (Y1)."""
        del input_
        match part.arguments:
            case (text,) if text in CALENDAR:
                months, days = CALENDAR[text]
                return cls(days * 86_400 * SECOND, Aligned(0, "UTC", months=months))
        return _timed(fixed(part, MAX_SECONDS, "292 years", CALENDAR))

    @classmethod
    def read_early(cls, part: Part) -> Time | Fault:
        """The wait of an early result (F2)."""
        match part.arguments:
            case (text,) if text in CALENDAR:
                return part.fault("time(seconds), as the length of a calendar period varies")
        return _timed(fixed(part, MAX_WAIT, "3,650 days", ()))

    def clause(self) -> str:
        return f"time({self.calendar or number(self.nanoseconds)})"

    @property
    def calendar(self) -> str | None:
        """The word of a period of the calendar, such as `month`; None if the period has a fixed length."""
        months = self.aligned.months if self.aligned else None
        return next((word for word, (count, _) in CALENDAR.items() if count == months), None)

    def aligned_to(self, times: Aligned) -> Time:
        return replace(self, aligned=times)

    def instead(self, role: Role) -> str:
        fixed = self.aligned is None or role != "evict"
        return "" if fixed else "time(seconds) as eviction, as the length of a calendar period varies"

    @property
    def timer(self) -> Time:
        return self

    @property
    def apart(self) -> bool:
        return True

    def resized(self, later: Policy, *, one_by_one: bool) -> Resizing:
        del one_by_one
        match later:
            case Time(nanoseconds):
                return Resizing.LARGER if self.nanoseconds < nanoseconds else Resizing.SMALLER
        return Resizing.NONE

    def flushes(self) -> tuple[str, str]:
        return self._every(), f"up to {seconds(self.nanoseconds)} s"

    def _every(self) -> str:
        length = seconds(self.nanoseconds)
        if self.aligned is None:
            return f"every {length} s of the clock"
        hours, rest = divmod(self.aligned.at // SECOND, 3600)
        at = f"{hours:02}:{rest // 60:02}:{rest % 60:02}"
        if self.calendar:
            return f"on the first day of each {self.calendar} by the wall clock of {self.aligned.zone}, at {at}"
        return f"every {length} s by the wall clock of {self.aligned.zone}, as at {at}"

    def next_flush(self, held: Held) -> str:
        return held.due

    def not_met(self, replay: Replayed) -> str:
        period = seconds(self.nanoseconds)
        return f"the clock moved by {seconds(replay.moved)} s, and no timer of {period} s was due"


def _timed(length: int | Fault) -> Time | Fault:
    return length if isinstance(length, Fault) else Time(length)


def fixed(
    part: Part, most: Decimal, limit: str, calendar: Container[str], form: str = "time(seconds)"
) -> int | Fault:  # fmt: skip
    """The nanoseconds of a length of at most `most` seconds, in words `limit`. `calendar`: the words that a hint may
    have. `form`: how messages spell the policy.
    """
    match part.arguments:
        case (text,) if (length := part.seconds(text)) is not None and 0 < length <= most:
            exact = length * SECOND
            return int(exact) if exact == int(exact) else part.fault(f"{form} in whole nanoseconds")
    expected = f"{form} with a number above 0, at most {limit}, such as {part.durations}"
    return part.fault(expected, part.spelled_here(calendar))
