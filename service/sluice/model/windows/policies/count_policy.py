"""The policy `count(n)`: a number of tuples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from sluice.model.errors import Fault
from sluice.model.windows.policies.policy import (  # fmt: skip
    MAX_COUNT,
    WITHIN_BATCH,
    Held,
    Input,
    Part,
    Policy,
    Replayed,
    Resizing,
    Role,
    amount,
)

#: the effects of a count of 0
OF_ZERO: Mapping[Role, str] = {
    "flush": "count(0) ignores every tuple; nothing ever comes out (rule T3)",
    "evict": "count(0) as eviction keeps no tuple; at most marks without tuples come out (rule S9)",
    "trigger": "count(0) as trigger never fires; nothing ever comes out (rule S10)",
}


@dataclass(frozen=True, slots=True)
class Count(Policy):
    """`count(n)`: n tuples. count(0) ignores all tuples (tumbling, T3), stores none (eviction, S9) or never fires
    (S10).
    """

    word: ClassVar[str] = "count"
    form: ClassVar[str] = "count(n)"

    size: int

    @classmethod
    def read(cls, part: Part, input_: Input | None) -> Count | Fault:
        del input_
        size = part.whole()
        return _wrong(part, 0) if size is None else cls(size)

    @classmethod
    def read_early(cls, part: Part) -> Count | Fault:
        """The number of tuples, which is above 0 (F1)."""
        size = part.whole()
        return cls(size) if size else _wrong(part, 1)

    def clause(self) -> str:
        return f"count({self.size})"

    def caution(self, role: Role) -> str:
        return "" if self.size else OF_ZERO[role]

    @property
    def tuples(self) -> int:
        return self.size

    @property
    def keeps_nothing(self) -> bool:
        return self.size == 0

    def resized(self, later: Policy, *, one_by_one: bool) -> Resizing:
        match later:
            case Count(size) if 0 < self.size < size:
                return Resizing.LARGER
            case Count(size) if 0 < size < self.size and not one_by_one:
                return Resizing.SMALLER
        return Resizing.NONE

    def flushes(self) -> tuple[str, str]:
        return f"with each {self.size:,} tuples", f"for up to {max(0, self.size - 1):,} more tuples"

    def triggers(self) -> tuple[str, str]:
        if self.size == 1:
            return "with each tuple", WITHIN_BATCH
        return f"with every {self.size:,}th tuple", "for the next firing"

    def next_flush(self, held: Held) -> str:
        left = amount(max(1, self.size - held.tuples), "more tuple")
        return f"with {left} ({held.tuples:,} of {self.size:,} are there)"

    def next_trigger(self, held: Held) -> str:
        return f"with {amount(max(1, self.size - held.since_trigger), 'more tuple')}"

    def not_met(self, replay: Replayed) -> str:
        return f"no window got {amount(self.size, 'tuple')}{replay.full}" if self.size else ""


def _wrong(part: Part, least: int) -> Fault:
    return part.fault(f"count(n) with a whole number of tuples from {least} to {MAX_COUNT}")
