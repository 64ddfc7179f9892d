"""The window kind `slidingTime`: Kafka Streams' sliding windows over event time (KIP-450)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from sluice.model.lateness.output_cases import Case, Reading, View
from sluice.model.lateness.time_bounds import Bound, Span, TimeScope
from sluice.model.unparse import number, seconds
from sluice.model.windows.policies.policy import WITHIN_BATCH
from sluice.model.windows.time_interval_window import TimeInterval
from sluice.model.windows.window_kind import SizedKind, SizePart
from sluice.time_units import MILLISECOND


@dataclass(frozen=True, slots=True)
class SlidingTime(SizedKind):
    """`slidingTime`: KIP-450's windows [start, start + difference] of event time, both ends inside (KIP W1).

    Nanoseconds, whole milliseconds. It is partitioned by `partition_by` alone.
    """

    word = "slidingTime"
    example = "slidingTime, timeDifference(10.0), grace(2.0)"
    parts: ClassVar[Mapping[str, SizePart]] = {
        "timeDifference": SizePart("KIP T11", needed=True, zero=False),
        "grace": SizePart("KIP T11"),
    }
    says_partitioned = False
    no_partition_eviction = "no partition eviction in a slidingTime window"
    options: ClassVar[Mapping[str, str]] = {"emit": "final", "window_set": "distinct"}
    needs_event_time = True
    operators = frozenset({"custom"})
    tick = MILLISECOND  # whatever the attribute (KIP W4)
    in_arrival_order = False
    timed_by_topic_partition = True
    late_if = "if no open window holds it"
    functions = TimeInterval.functions[:2]
    latest = "intervalEnd"
    latest_can_be_moved = True

    difference: int
    grace: int = 0
    #: the set of windows: "distinct" (KIP W3), "perTimestampForward" or "perTimestampBackward" (KIP P2)
    window_set: str = "distinct"
    #: "final": a window is emitted when it closes; "updates": at each change
    emit: str = "final"

    @classmethod
    def of(
        cls, sizes: Mapping[str, int], options: Mapping[str, str], *, partitioned: bool, event_time: bool
    ) -> SlidingTime:
        """The grace is 0 by default (KIP T10)."""
        del partitioned, event_time
        return cls(sizes["timeDifference"], sizes.get("grace", 0), **options)

    def clause(self) -> str:
        grace = [f"grace({number(self.grace)})"] if self.grace else []
        return ", ".join([self.word, f"timeDifference({number(self.difference)})", *grace])

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.difference, self.grace

    @property
    def accepts(self) -> int:
        return self.grace

    @property
    def holds(self) -> int:
        return self.difference + self.grace

    def cases(self, reading: Reading) -> Iterator[Case]:
        """The anchor is the end of the window. A window closes by stream time, which is ahead of the watermark by the
        lag if the watermark is made from the same tuples. An update comes with a tuple at or before the end.
        """
        behind: Bound = math.inf
        if self.emit == "updates":
            behind = 0
        elif reading.own is not None:
            behind = self.grace - (0 if reading.own.advances else reading.own.lag)
        start = Span(-self.difference, -self.difference)
        ends = {"intervalStart": start, "intervalEnd": Span(0, 0)}
        scope = TimeScope(reading.times(Span(-self.difference, 0)), ends, reading.tick)
        stale = "its watermark does not follow the tuples of the window" if math.isinf(behind) else ""
        yield Case((View(behind, scope),), stale)

    def fires(self, lag: int | None, *, incomplete: bool) -> tuple[str, str]:
        del lag, incomplete
        if self.emit == "updates":
            return "with each tuple, for each window that it changes", WITHIN_BATCH
        return (
            f"as the stream time passes the end of a window by {seconds(self.grace)} s",
            f"up to {seconds(self.difference)} s, the length of a window, and the grace of {seconds(self.grace)} s",
        )
