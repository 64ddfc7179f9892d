"""Tumbling windows: `tumbling, count(10)` (reference section 3), and `tumbling, count(10) or time(5)`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from sluice.model.functions import row
from sluice.model.types import STRING
from sluice.model.unparse import partition_eviction, policy, seconds
from sluice.model.windows.policy_words import beyond, every
from sluice.model.windows.window_kind import IS_EARLY, WindowFunction, WindowKind
from sluice.model.windows.window_policies import Count, Delta, PartitionEviction, Punct, Time


@dataclass(frozen=True, slots=True)
class Tumbling(WindowKind):
    """A window that is flushed by one condition, or by the first of several of different kinds that holds."""

    word = "tumbling"
    example = "tumbling, punct()"
    counts_own_partition = True
    functions: ClassVar[tuple[WindowFunction, ...]] = (
        WindowFunction(
            row(
                "flushReason",
                "what flushed a tumbling window: count, time, delta, punct, or partition of an evicted partition; "
                "early of an early result",
                "-> string",
            ),
            "reason",
            STRING,
        ),
        IS_EARLY,
    )
    early = True

    eviction: Count | Time | Delta | Punct
    partitioned: bool = False
    partition_eviction: PartitionEviction | None = None
    #: further conditions, each of another kind than the others
    others: tuple[Count | Time | Delta | Punct, ...] = ()

    def clause(self) -> str:
        leaving = [partition_eviction(self.partition_eviction)] if self.partition_eviction else []
        conditions = " or ".join(map(policy, self.policies))
        return ", ".join([self.word, conditions, *["partitioned"] * self.partitioned, *leaving])

    @property
    def policies(self) -> tuple[Count | Time | Delta | Punct, ...]:
        return (self.eviction, *self.others)

    @property
    def timer(self) -> Time | None:
        return next((one for one in self.policies if isinstance(one, Time)), None)

    def with_timer(self, timer: Time) -> Tumbling:
        first, *others = (timer if isinstance(one, Time) else one for one in self.policies)
        return replace(self, eviction=first, others=tuple(others))

    def needs_one_bucket(self, *, described: frozenset[str], behind_window: bool) -> str:
        """All partitions decide which of them leaves (V8, V10, V12), and a mark of an operator is for all keys."""
        del described
        if self.partition_eviction is not None:
            return "the evicted partition depends on all partitions (V8, V10, V12)"
        if behind_window and any(isinstance(one, Punct) for one in self.policies):
            return "each mark of the upstream operator closes the tuples of all keys (T18)"
        return ""

    @property
    def only_stores(self) -> bool:
        return self.policies == (Punct(),) and self.partition_eviction is None

    def falls_due(self, *, evictions: bool) -> bool:
        del evictions
        return self.timer is not None

    def fires(self, lag: int | None, *, incomplete: bool) -> tuple[str, str]:
        del lag, incomplete
        fires, waits = zip(*map(_words, self.policies), strict=True)
        first = ", whichever comes first" if self.others else ""
        return " or ".join(fires) + first, " or ".join(waits) + first

    @property
    def tuples_when_full(self) -> int | None:
        return next((one.size - 1 for one in self.policies if isinstance(one, Count)), None)


def _words(one: Count | Time | Delta | Punct) -> tuple[str, str]:
    """When a condition flushes, and how long a tuple waits for it."""
    match one:
        case Count(size):
            return f"with each {size:,} tuples", f"for up to {max(0, size - 1):,} more tuples"
        case Time() as timer:
            return every(timer), f"up to {seconds(timer.nanoseconds)} s"
        case Delta() as delta:
            return f"with the first tuple beyond {beyond(delta)}", "until such a tuple arrives"
        case Punct():
            return "with each window mark", "until the next mark"
