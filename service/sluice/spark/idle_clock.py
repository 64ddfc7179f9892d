"""The idle clock: it advances the operator clock while no records arrive.

Its time T has a guarantee: every record that was appended before T is in this batch or in an earlier one. To give this
guarantee, it notes the current time and then the end offsets of the topic partitions. It releases the noted time as
soon as all records up to these offsets have been read, which the offset log of the checkpoint shows. T itself is in
that log, as the offset of a source of Spark (idle_clock_source.py), so a repeated batch gets the same T.

The idle clock does not advance while no timer is due. Each batch reports when the clock alone causes the next output.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from sluice.batch.commit import Deliver
from sluice.batch.envelope import Packed
from sluice.batch.query_plan import Plan
from sluice.checkpoint.offset_log import NO_IDLE_CLOCK
from sluice.engine.stream.items import MAX_TIME
from sluice.kafka.batch_report import Report
from sluice.kafka.range_reader import Offsets
from sluice.ops.batch_progress import Observe

#: maximum number of waiting notes. Only a service that is far behind has more, and then losing the oldest is harmless.
NOTES = 1000


class Note(NamedTuple):
    """A time, and the end offsets of the topic partitions at this time or a little later."""

    time: int
    ends: Offsets


class IdleClock:
    """Decides which time may be released. It is independent of Spark and Kafka, which it reads through functions."""

    def __init__(
        self,
        step: int,
        now: Callable[[], int],
        ends: Callable[[], Offsets],
        read: Callable[[], Offsets],
        due: Callable[[], int],
    ) -> None:
        self._step, self._now, self._ends, self._read, self._due = step, now, ends, read, due
        self._notes: deque[Note] = deque(maxlen=NOTES)
        self._noted = 0

    def released(self, last: int) -> int:
        """The newest time that may be released, or `last`, the time released before, if there is no newer one."""
        now = self._now()
        if now - max(self._noted, last) >= self._step and self._due() <= now:
            self._noted = now
            self._notes.append(Note(now, self._ends()))
        if not self._notes:
            return last
        read = self._read()
        while self._notes and _reached(self._notes[0].ends, read):
            last = max(last, self._notes.popleft().time)
        return last


def _reached(ends: Offsets, read: Offsets) -> bool:
    return all(read.get(partition, 0) >= end for partition, end in ends.items())


class NextDueTime:
    """The time at which the clock alone causes the next output, by the report of the last batch."""

    def __init__(self) -> None:
        self._time = NO_IDLE_CLOCK

    def __call__(self) -> int:
        """That time; MAX_TIME if there is none; NO_IDLE_CLOCK, which is long past, while it is not known."""
        return self._time

    def of_batches(self, deliver: Deliver) -> Deliver:
        """`deliver`, with the reports that it returns noted."""

        def noted(plan: Plan, batch: int, rows: list[Packed], observe: Observe) -> Report | None:
            report = deliver(plan, batch, rows, observe)
            self.batch_written(report)
            return report

        return noted

    def batch_written(self, report: Report | None) -> None:
        """`report` is that of the batch; None if it is not known here, because an earlier run wrote the batch."""
        if report is None:
            self._time = NO_IDLE_CLOCK
        else:
            self._time = MAX_TIME if report.due is None else report.due
