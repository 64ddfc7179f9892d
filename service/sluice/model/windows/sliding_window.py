"""Sliding windows: `sliding, time(300.0), count(1)` (reference section 4)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sluice.model.unparse import partition_eviction, policy, seconds
from sluice.model.windows.policy_words import beyond, every
from sluice.model.windows.window_kind import WITHIN_BATCH, WindowKind
from sluice.model.windows.window_policies import Count, Delta, PartitionEviction, Policy, Time


@dataclass(frozen=True, slots=True)
class Sliding(WindowKind):
    word = "sliding"
    example = "sliding, time(300.0), count(1), partitioned"

    eviction: Count | Time | Delta
    trigger: Count | Time | Delta = Count(1)  # noqa: RUF009 - an immutable value; W1
    partitioned: bool = False
    partition_eviction: PartitionEviction | None = None

    def clause(self) -> str:
        leaving = [partition_eviction(self.partition_eviction)] if self.partition_eviction else []
        return ", ".join([self.word, *map(policy, self.policies), *["partitioned"] * self.partitioned, *leaving])

    @property
    def policies(self) -> tuple[Policy, ...]:
        return self.eviction, self.trigger

    @property
    def timer(self) -> Time | None:
        return self.trigger if isinstance(self.trigger, Time) else None

    def with_timer(self, timer: Time) -> Sliding:
        return replace(self, trigger=timer)

    def needs_one_bucket(self, *, described: frozenset[str], behind_window: bool) -> str:
        del described, behind_window
        if self.partition_eviction is not None:
            return "the evicted partition depends on all partitions (V8, V10, V12)"
        return ""

    def fires(self, lag: int | None, *, incomplete: bool) -> tuple[str, str]:
        del lag
        waits = not isinstance(self.eviction, Time) and not incomplete
        return self._fires(), self._waits() + (
            "; no output before the window was full for the first time" if waits else ""
        )

    def _fires(self) -> str:
        match self.trigger:
            case Count(1):
                return "with each tuple"
            case Count(size):
                return f"with every {size:,}th tuple"
            case Time() as timer:
                return every(timer)
            case Delta() as delta:
                return f"with each tuple beyond {beyond(delta)} since the last firing"

    def _waits(self) -> str:
        match self.trigger:
            case Count(1):
                return WITHIN_BATCH
            case Time(nanoseconds):
                return f"up to {seconds(nanoseconds)} s"
        return "for the next firing"

    @property
    def tuples_when_full(self) -> int | None:
        return self.eviction.size if isinstance(self.eviction, Count) else None
