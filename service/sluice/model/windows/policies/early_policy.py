"""The policies of `early`: when an open window emits an early result."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.model.windows.policies.count_policy import Count
from sluice.model.windows.policies.time_policy import Time


@dataclass(frozen=True, slots=True)
class Early:
    """`early: count(n) or time(seconds)`: when an open window emits an early result (F1, F2). `count` or `time` may be
    None.

    count   the number of tuples since the last result of the window
    time    nanoseconds of the operator clock since the first of these tuples
    """

    count: int | None = None
    time: int | None = None

    def clause(self) -> str:
        """The policies as text."""
        count = [Count(self.count).clause()] if self.count else []
        return " or ".join([*count, *([Time(self.time).clause()] if self.time else [])])
