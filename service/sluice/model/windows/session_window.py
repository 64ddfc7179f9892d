"""The window kind `session`: periods of activity of a key, separated by gaps (docs/reference/session.md)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from sluice.model.expressions import AggregateCall, Call, Expression, walk
from sluice.model.functions import row
from sluice.model.lateness.output_cases import FROM_ANCHOR, Case, Reading, View
from sluice.model.lateness.time_bounds import Span, TimeScope
from sluice.model.unparse import expression, number, seconds
from sluice.model.windows.policies.policy import WITHIN_BATCH
from sluice.model.windows.window_kind import IS_EARLY, SizedKind, SizePart, WindowFunction, with_watermarks
from sluice.time_units import SECOND

#: the maximum gap, in nanoseconds: 3,650 days (G4)
MAX_GAP = 3_650 * 86_400 * SECOND


@dataclass(frozen=True, slots=True)
class Session(SizedKind):
    """`session`: two tuples of a key are in one session if the later one comes at most the gap of the earlier one after
    it (G1), directly or by others between them (G2). Partitioned by `partition_by` alone.

    gap       nanoseconds, or an expression of the tuple: float64 seconds (G4)
    longest   the maximum nanoseconds between the first and the last tuple of a session; None: no limit (G9)
    grace     nanoseconds of event time that a session stays open after its gap (G5)
    emit      "final": a session is emitted when it is over (G5); "updates": at each tuple that changes it (G10)
    clock     whether times are times of the operator clock, because the input has no event time (G11)
    """

    word = "session"
    example = "session, inactivityGap(30.0), maximumDuration(3600.0), grace(5.0)"
    parts: ClassVar[Mapping[str, SizePart]] = {
        "inactivityGap": SizePart("G4", needed=True, zero=False, expression=True),
        "maximumDuration": SizePart("G9", zero=False),
        "grace": SizePart("G5"),
    }
    says_partitioned = False
    no_partition_eviction = "no partition eviction in a session window"
    options: ClassVar[Mapping[str, str]] = {"emit": "final"}
    operators = frozenset()
    in_arrival_order = False
    counts_own_partition = True
    traced = False
    late_if = "if no open session holds it"
    functions = (
        WindowFunction(row("sessionStart", "time of the first tuple of the session", "-> event time"), "start"),
        WindowFunction(row("sessionEnd", "time of the last tuple of the session", "-> event time"), "end"),
        IS_EARLY,
    )
    early = True
    latest = "sessionEnd"
    latest_can_be_moved = True
    partition_in_words = "window partition with one session"

    gap: int | Expression
    longest: int | None = None
    grace: int = 0
    emit: str = "final"
    clock: bool = False

    @classmethod
    def of(
        cls, sizes: Mapping[str, Any], options: Mapping[str, str], *, partitioned: bool, event_time: bool
    ) -> Session:
        del partitioned
        longest = sizes.get("maximumDuration")
        return cls(sizes["inactivityGap"], longest, sizes.get("grace", 0), **options, clock=not event_time)

    def clause(self) -> str:
        return ", ".join(self._clause_parts())

    def _clause_parts(self) -> Iterator[str]:
        yield self.word
        yield f"inactivityGap({number(self.gap) if isinstance(self.gap, int) else expression(self.gap)})"
        if self.longest is not None:
            yield f"maximumDuration({number(self.longest)})"
        if self.grace:
            yield f"grace({number(self.grace)})"

    @property
    def sizes(self) -> tuple[int, ...]:
        """Gap, maximum duration and grace. The gap is MAX_GAP if it is an expression of the tuple."""
        return (self.gap if isinstance(self.gap, int) else MAX_GAP), self.longest or 0, self.grace

    @property
    def accepts(self) -> int | None:
        """With gaps that are expressions, the tuples of the shortest gaps."""
        return None if self.clock else self.grace + (self.gap if isinstance(self.gap, int) else 0)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return () if isinstance(self.gap, int) else (self.gap,)

    def problems(self) -> Iterator[str]:
        if isinstance(self.gap, int) and self.gap > MAX_GAP:
            yield "an inactivityGap of at most 3,650 days (rule G4)"
        if self.clock and self.grace:
            yield "no grace, as the input has no event_time: over the clock no tuple is late (rule G11)"

    def no_early(self) -> str:
        return "emit: updates gives a result with each tuple" * (self.emit == "updates")

    @property
    def fires_at_watermarks(self) -> bool:
        return not self.clock and self.emit == "final"

    @property
    def by_clock(self) -> bool:
        return self.clock

    def falls_due(self, *, evictions: bool) -> bool:
        del evictions
        return self.clock and self.emit == "final"

    def cases(self, reading: Reading) -> Iterator[Case]:
        """The anchor is the last time of the session, or with `maximumDuration` also the watermark less grace and
        maximum duration, after which a session that is open at this watermark begins (G9).
        """
        if self.clock:
            return
        gap, _, grace = self.sizes
        inside, last = Span(-math.inf if self.longest is None else -self.longest, 0), Span(0, 0)
        ends = {"sessionStart": inside, "sessionEnd": last}
        scope = TimeScope(reading.times(inside, inside, last), ends, reading.tick)
        if self.emit == "updates" and not reading.early:
            yield Case((View(0, scope),))
            return
        in_order = isinstance(self.gap, int) and self.longest is None and not reading.early
        views = [View(gap + grace, scope, 0 if in_order else math.inf)]
        if self.longest is not None:
            ends = {"sessionStart": FROM_ANCHOR, "sessionEnd": FROM_ANCHOR}
            views.append(View(grace + self.longest, TimeScope(reading.times(FROM_ANCHOR), ends, reading.tick)))
        yield Case(tuple(views))

    @property
    def emitted(self) -> str:
        return "when the session is over"

    def late_instead(self, attribute: str, stream: str, time: Expression | None) -> str:
        if isinstance(self.gap, int):
            return ""
        functions = (
            [part.function for part in walk(time) if isinstance(part, AggregateCall)] if time is not None else []
        )
        if isinstance(time, Call) and "sessionEnd" in functions:
            return f"write `event_time: {{attribute: {attribute}, lag: ...}}` for {stream}, with the longest gap"
        return f"write `{attribute}: sessionEnd()` plus the longest gap and the grace"

    def fires(self, lag: int | None, *, incomplete: bool) -> tuple[str, str]:
        del incomplete
        if self.emit == "updates":
            return "with each tuple, for the session that it changes", WITHIN_BATCH
        gap = f"{seconds(self.gap)} s" if isinstance(self.gap, int) else f"{expression(self.gap)} s"
        limit = "" if self.longest is None else f", or its first tuple by {seconds(self.longest)} s"
        if self.clock:
            return f"as the clock passes the last tuple of a session by {gap}{limit}", f"its session and {gap} of quiet"
        grace = f" and {seconds(self.grace)} s of grace" if self.grace else ""
        fires = f"as the watermark passes the last tuple of a session by {gap}{grace}{limit}"
        return fires, with_watermarks(f"its session, {gap} of quiet{grace}", lag)
