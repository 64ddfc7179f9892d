"""Policies in words, for `sluice explain`."""

from __future__ import annotations

from sluice.model.unparse import calendar_word, expression, seconds
from sluice.model.windows.window_policies import Delta, Time
from sluice.time_units import SECOND


def every(timer: Time) -> str:
    """When a periodic timer fires."""
    length = seconds(timer.nanoseconds)
    if timer.aligned is None:
        return f"every {length} s of the clock"
    hours, rest = divmod(timer.aligned.at // SECOND, 3600)
    at = f"{hours:02}:{rest // 60:02}:{rest % 60:02}"
    if word := calendar_word(timer):
        return f"on the first day of each {word} by the wall clock of {timer.aligned.zone}, at {at}"
    return f"every {length} s by the wall clock of {timer.aligned.zone}, as at {at}"


def beyond(delta: Delta) -> str:
    """The value that a tuple must exceed."""
    size = delta.size
    return f"{delta.attribute} + {size if isinstance(size, int | float) else expression(size)}"
