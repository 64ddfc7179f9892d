"""Windows over tables: `table, count(1), partitioned`, or a sliding window by count whose input is a table (rules EN10
to EN18).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from sluice.model.windows.policies.count_policy import Count
from sluice.model.windows.policies.policy import Policy, Timer
from sluice.model.windows.window_kind import Roles, WindowKind


@dataclass(frozen=True, slots=True)
class TableWindow(WindowKind):
    """A window of the rows that a table has: all of them, or the newest ones.

    trigger       count(n): after each n-th change of the window; time(t): every t seconds
    newest        how many rows it holds at most, those whose keys came last; None: all of them
    key           the attributes of the table's key
    """

    word = "table"
    example = "table, time(5.0), partitioned"
    operators: ClassVar[frozenset[str]] = frozenset()
    in_arrival_order = False
    traced = False
    partition_in_words = "row of the table"

    trigger: Policy = Count(1)  # noqa: RUF009 - an immutable value
    partitioned: bool = False
    newest: int | None = None
    key: tuple[str, ...] = ()

    @classmethod
    def of_rows(
        cls, trigger: Policy, newest: int | None, key: tuple[str, ...], *, partitioned: bool
    ) -> TableWindow | None:
        """None if a value or a mark triggers the window, which has no meaning over a table."""
        return None if trigger.attributes or trigger.by_marks else cls(trigger, partitioned, newest, key)

    @property
    def table_key(self) -> tuple[str, ...]:
        return self.key

    def over_table(self, key: tuple[str, ...]) -> TableWindow | None:
        return TableWindow.of_rows(self.trigger, self.newest, key, partitioned=self.partitioned)

    def clause(self) -> str:
        head = [self.word] if self.newest is None else ["sliding", Count(self.newest).clause()]
        return ", ".join([*head, self.trigger.clause(), *["partitioned"] * self.partitioned])

    @property
    def roles(self) -> Roles:
        return Roles((), None, self.trigger, self.partitioned)

    @property
    def fired_by(self) -> tuple[Policy, ...]:
        return (self.trigger,)

    def with_timer(self, timer: Timer) -> TableWindow:
        return replace(self, trigger=timer)

    def fires(self, lag: int | None, *, incomplete: bool) -> tuple[str, str]:
        del lag
        fires, waits = self.trigger.triggers()
        full = self.newest is None or incomplete
        rows = fires.replace("tuple", "change of a row")
        return rows, waits + ("" if full else "; no output before the window was full for the first time")

    @property
    def tuples_when_full(self) -> int | None:
        return self.newest
