"""How the operator clock stands to a batch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """`start` is where periodic timers count from if they do not count yet (C2); `end` is where the clock stands
    afterwards.

    Nanoseconds. A timer due at d fires before events at d or later, and before the batch is done if d <= `end`.
    """

    start: int
    end: int
