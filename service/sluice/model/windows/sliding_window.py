"""Sliding windows: `sliding, time(300.0), count(1)` (reference section 4)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sluice.model.windows.policies.count_policy import Count
from sluice.model.windows.policies.partition_policies import PartitionEviction
from sluice.model.windows.policies.policy import Policy, Resizing, Timer
from sluice.model.windows.table_window import TableWindow
from sluice.model.windows.window_kind import Roles, WindowKind


@dataclass(frozen=True, slots=True)
class Sliding(WindowKind):
    word = "sliding"
    example = "sliding, time(300.0), count(1), partitioned"
    sliding = True

    eviction: Policy
    trigger: Policy = Count(1)  # noqa: RUF009 - an immutable value; W1
    partitioned: bool = False
    partition_eviction: PartitionEviction | None = None

    def clause(self) -> str:
        leaving = [self.partition_eviction.clause()] if self.partition_eviction else []
        policies = [policy.clause() for policy in self.policies]
        return ", ".join([self.word, *policies, *["partitioned"] * self.partitioned, *leaving])

    @property
    def roles(self) -> Roles:
        return Roles((), self.eviction, self.trigger, self.partitioned, self.partition_eviction)

    def over_table(self, key: tuple[str, ...]) -> TableWindow | None:
        """The window over a table: the rows that came last, if the window holds a number of tuples; else None."""
        if self.partition_eviction is not None or not self.eviction.tuples:
            return None
        return TableWindow.of_rows(self.trigger, self.eviction.tuples, key, partitioned=self.partitioned)

    def with_timer(self, timer: Timer) -> Sliding:
        return replace(self, trigger=timer)

    @property
    def fired_by_last(self) -> bool:
        return self.trigger.tuples is not None and not self.eviction.keeps_nothing

    def resized(self, later: object, *, one_by_one: bool) -> Resizing:
        if not isinstance(later, Sliding) or replace(self, eviction=later.eviction) != later:
            return Resizing.NONE
        return self.eviction.resized(later.eviction, one_by_one=one_by_one)

    def fires(self, lag: int | None, *, incomplete: bool) -> tuple[str, str]:
        del lag
        fires, waits = self.trigger.triggers()
        full = self.eviction.fills_at_once or incomplete
        return fires, waits + ("" if full else "; no output before the window was full for the first time")

    @property
    def tuples_when_full(self) -> int | None:
        return self.eviction.tuples
