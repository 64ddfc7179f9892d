"""Tumbling windows: `tumbling, count(10)` (reference section 3)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sluice.model.unparse import partition_eviction, policy, seconds
from sluice.model.windows.policy_words import beyond, every
from sluice.model.windows.window_kind import WindowKind
from sluice.model.windows.window_policies import Count, Delta, PartitionEviction, Policy, Punct, Time


@dataclass(frozen=True, slots=True)
class Tumbling(WindowKind):
    word = "tumbling"
    example = "tumbling, punct()"
    counts_own_partition = True

    eviction: Count | Time | Delta | Punct
    partitioned: bool = False
    partition_eviction: PartitionEviction | None = None

    def clause(self) -> str:
        leaving = [partition_eviction(self.partition_eviction)] if self.partition_eviction else []
        return ", ".join([self.word, policy(self.eviction), *["partitioned"] * self.partitioned, *leaving])

    @property
    def policies(self) -> tuple[Policy, ...]:
        return (self.eviction,)

    @property
    def timer(self) -> Time | None:
        return self.eviction if isinstance(self.eviction, Time) else None

    def with_timer(self, timer: Time) -> Tumbling:
        return replace(self, eviction=timer)

    def needs_one_bucket(self, *, sort: bool, behind_window: bool) -> str:
        """All partitions decide which of them leaves (V8, V10, V12), and a mark of an operator is for all keys."""
        del sort
        if self.partition_eviction is not None:
            return "the evicted partition depends on all partitions (V8, V10, V12)"
        if behind_window and isinstance(self.eviction, Punct):
            return "each mark of the upstream operator closes the tuples of all keys (T18)"
        return ""

    @property
    def only_stores(self) -> bool:
        return isinstance(self.eviction, Punct) and self.partition_eviction is None

    def fires(self, lag: int | None, *, incomplete: bool) -> tuple[str, str]:
        del lag, incomplete
        match self.eviction:
            case Count(size):
                return f"with each {size:,} tuples", f"for up to {max(0, size - 1):,} more tuples"
            case Time() as timer:
                return every(timer), f"up to {seconds(timer.nanoseconds)} s"
            case Delta() as delta:
                return f"with the first tuple beyond {beyond(delta)}", "until such a tuple arrives"
            case Punct():
                return "with each window mark", "until the next mark"

    @property
    def tuples_when_full(self) -> int | None:
        return self.eviction.size - 1 if isinstance(self.eviction, Count) else None
