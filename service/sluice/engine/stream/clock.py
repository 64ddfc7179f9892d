"""The operator clock during one batch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """The interval of operator-clock time that a batch covers, in nanoseconds.

    start   the time from which periodic timers count if they do not count yet (C2)
    end     the operator clock at the end of the batch

    A timer that is due at time d fires before events at d or later, and within this batch if d <= `end`.
    """

    start: int
    end: int
