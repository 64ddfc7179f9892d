"""Tumbling windows: `tumbling, count(10)` (reference section 3), and `tumbling, count(10) or time(5)`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from sluice.model.functions import row
from sluice.model.types import STRING
from sluice.model.windows.policies.partition_policies import PartitionEviction
from sluice.model.windows.policies.policy import Policy, Timer
from sluice.model.windows.policies.policy_table import POLICIES
from sluice.model.windows.window_kind import IS_EARLY, Roles, WindowFunction, WindowKind


@dataclass(frozen=True, slots=True)
class Tumbling(WindowKind):
    """A window that is flushed by one condition, or by the first of several of different kinds that holds."""

    word = "tumbling"
    example = "tumbling, punct()"
    tumbling = True
    counts_own_partition = True
    functions: ClassVar[tuple[WindowFunction, ...]] = (
        WindowFunction(
            row(
                "flushReason",
                f"what flushed a tumbling window: {', '.join(POLICIES)}, or partition of an evicted partition; "
                "early of an early result",
                "-> string",
            ),
            "reason",
            STRING,
        ),
        IS_EARLY,
    )
    early = True

    eviction: Policy
    partitioned: bool = False
    partition_eviction: PartitionEviction | None = None
    #: further conditions, each of another kind than the others
    others: tuple[Policy, ...] = ()

    def clause(self) -> str:
        leaving = [self.partition_eviction.clause()] if self.partition_eviction else []
        conditions = " or ".join(policy.clause() for policy in self.policies)
        return ", ".join([self.word, conditions, *["partitioned"] * self.partitioned, *leaving])

    @property
    def roles(self) -> Roles:
        return Roles((self.eviction, *self.others), None, None, self.partitioned, self.partition_eviction)

    def with_timer(self, timer: Timer) -> Tumbling:
        first, *others = (timer if policy.timer else policy for policy in self.policies)
        return replace(self, eviction=first, others=tuple(others))

    @property
    def holds_one_tuple(self) -> bool:
        return any(policy.tuples == 1 for policy in self.policies)

    @property
    def fired_by_last(self) -> bool:
        return all(policy.tuples is not None for policy in self.policies)

    @property
    def only_stores(self) -> bool:
        return all(policy.by_marks for policy in self.policies) and self.partition_eviction is None

    def fires(self, lag: int | None, *, incomplete: bool) -> tuple[str, str]:
        del lag, incomplete
        fires, waits = zip(*(policy.flushes() for policy in self.policies), strict=True)
        first = ", whichever comes first" if self.others else ""
        return " or ".join(fires) + first, " or ".join(waits) + first

    @property
    def tuples_when_full(self) -> int | None:
        return next((policy.tuples - 1 for policy in self.policies if policy.tuples is not None), None)
