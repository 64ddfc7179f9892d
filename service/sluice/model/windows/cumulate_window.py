"""The window kind `cumulate`: panes over event time that begin together and grow by a step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from sluice.model.unparse import number, seconds
from sluice.model.windows.time_interval_window import DAY, TimeInterval
from sluice.model.windows.window_kind import SizePart, with_watermarks


@dataclass(frozen=True, slots=True)
class Cumulate(TimeInterval):
    """`cumulate`: panes [start, start + k * period) for each k from 1 on, up to start + duration, where the starts are
    offset + n * duration (CU1).

    `duration` is the greatest length, `period` the step by which panes grow.
    """

    word = "cumulate"
    example = "cumulate, maximumDuration(1d), step(1h), partitioned"
    parts: ClassVar[Mapping[str, SizePart]] = {
        "maximumDuration": SizePart("CU1", needed=True, zero=False, periods=True),
        "step": SizePart("CU1", needed=True, zero=False),
        "discardAge": SizePart("CU4"),
        "intervalOffset": SizePart("CU1", signed=True),
    }
    no_partition_eviction = "no partition eviction in a cumulate window (rule CU4)"
    functions = TimeInterval.functions[:-1]
    #: each of its panes but the longest is an early result by itself
    early = False
    cumulating = True
    no_empty_panes_of_calendar = "no empty_panes with cumulating panes of the calendar (rule EP8)"

    @classmethod
    def lengths(cls, sizes: Mapping[str, int]) -> tuple[int, int]:
        return sizes["maximumDuration"], sizes["step"]

    def _length_parts(self) -> Iterator[str]:
        yield f"maximumDuration({self.length})"
        yield f"step({number(self.period)})"

    def problems(self) -> Iterator[str]:
        """A problem if the step does not divide the greatest length (CU1) or, with a calendar, a day (CU5)."""
        if self.calendar is None and self.duration % self.period:
            yield "a step that divides maximumDuration (rule CU1)"
        elif self.calendar is not None and DAY % self.period:
            yield "a step that divides a day, as panes are periods of the calendar (rule CU5)"

    @property
    def shortest(self) -> int:
        return self.period

    def fires(self, lag: int | None, *, incomplete: bool) -> tuple[str, str]:
        del incomplete
        late = f", and again for late tuples until {seconds(self.discard_age)} s later" if self.discard_age else ""
        fires = f"at each step of {seconds(self.period)} s, as the watermark reaches the end of a pane{late}"
        return f"{fires}; panes begin anew {self._begins}", with_watermarks(f"up to {seconds(self.period)} s", lag)

    @property
    def _begins(self) -> str:
        if self.calendar is not None:
            return f"with each {self.period_in_words} in {self.calendar.zone}"
        return f"every {seconds(self.duration)} s"
