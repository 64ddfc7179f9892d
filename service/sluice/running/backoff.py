"""When a pipeline that has ended is started again."""

from __future__ import annotations

from dataclasses import dataclass

#: seconds before the second start, and the most seconds before a later one; each failure doubles the time
FIRST_S, MOST_S = 1.0, 60.0
#: seconds without a failure after which a pipeline counts as repaired, so that its next failure is a first one
REPAIRED_S = 60.0


@dataclass(slots=True)
class Backoff:
    """The ends of one pipeline so far. Times are in seconds on a monotonic clock."""

    ends: int = 0
    began: float = 0.0

    def started(self, now: float) -> None:
        self.began = now

    def delay(self, now: float) -> float:
        """The seconds from an end at `now` to the next start."""
        if now - self.began >= REPAIRED_S:
            self.ends = 0
        self.ends += 1
        return min(MOST_S, FIRST_S * 2.0 ** min(self.ends - 1, 16))
