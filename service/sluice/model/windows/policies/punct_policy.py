"""The policy `punct()`: window marks flush the window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sluice.model.errors import Fault
from sluice.model.windows.policies.policy import Held, Input, Part, Policy, Replayed, Role


@dataclass(frozen=True, slots=True)
class Punct(Policy):
    """`punct()`: a window mark flushes the window (T18 to T20).

    SPL accepts it in a sliding window, and fails with it (W21) or replaces it by count(1) (W22, W23).
    """

    word: ClassVar[str] = "punct"
    form: ClassVar[str] = "punct()"
    by_marks: ClassVar[bool] = True

    @classmethod
    def read(cls, part: Part, input_: Input | None) -> Punct | Fault:
        del input_
        return part.fault("punct() without arguments") if part.arguments else cls()

    def instead(self, role: Role) -> str:
        return "" if role == "flush" else "count, time or delta in a sliding window (rules W21 to W23)"

    def clause(self) -> str:
        return "punct()"

    def flushes(self) -> tuple[str, str]:
        return "with each window mark", "until the next mark"

    def next_flush(self, held: Held) -> str:
        del held
        return "with the next window mark"

    def not_met(self, replay: Replayed) -> str:
        return replay.no_mark
