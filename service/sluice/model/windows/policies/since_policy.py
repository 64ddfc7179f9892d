"""The policy `time(seconds) since first`: a length of time since the first tuple of a tumbling window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sluice.model.errors import Fault
from sluice.model.unparse import number, seconds
from sluice.model.windows.policies.policy import Held, Input, Part, Policy, Replayed, Role
from sluice.model.windows.policies.time_policy import MAX_WAIT, fixed


@dataclass(frozen=True, slots=True)
class SinceFirst(Policy):
    """`time(seconds) since first`: flushes a partition that long after its first tuple, by the operator clock (H5)."""

    word: ClassVar[str] = "sinceFirst"
    form: ClassVar[str] = "time(seconds) since first"
    by_clock: ClassVar[bool] = True

    nanoseconds: int

    @classmethod
    def read(cls, part: Part, input_: Input | None) -> SinceFirst | Fault:
        """Exact whole nanoseconds, above 0, at most 3,650 days."""
        del input_
        length = fixed(part, MAX_WAIT, "3,650 days", (), cls.form)
        return length if isinstance(length, Fault) else cls(length)

    def instead(self, role: Role) -> str:
        return "" if role == "flush" else "time(seconds) without since first, as the window is sliding (rule H5)"

    def clause(self) -> str:
        return f"time({number(self.nanoseconds)}) since first"

    def flushes(self) -> tuple[str, str]:
        length = seconds(self.nanoseconds)
        return f"{length} s of the clock after its first tuple", f"up to {length} s"

    def next_flush(self, held: Held) -> str:
        return held.due

    def not_met(self, replay: Replayed) -> str:
        length = seconds(self.nanoseconds)
        return f"the clock moved by {seconds(replay.moved)} s, and no window was open for {length} s"
