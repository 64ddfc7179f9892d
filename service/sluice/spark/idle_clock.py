"""The idle clock: a small Spark streaming source that advances the operator clock while no records arrive.

Its offset is a time T with a guarantee: every record that was appended before T is in this batch or in an earlier one.
To give this guarantee, it notes the current time and then the end offsets of the topic partitions. It releases the
noted time as soon as all records up to these offsets have been read, which the offset log of the checkpoint shows. T
itself is in that log, so a repeated batch gets the same T.

The idle clock does not advance while no timer is due. Each batch writes to the ledger when the clock alone causes the
next output.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from sluice.batch.query_plan import Plan
from sluice.checkpoint.offset_log import IDLE_CLOCK_KEY, NO_IDLE_CLOCK, last_planned, offsets_read
from sluice.engine.stream.items import MAX_TIME
from sluice.kafka.batch_report import Entry
from sluice.kafka.ledger_follower import Follower
from sluice.kafka.range_reader import Offsets, ends
from sluice.kafka.requests import clients
from sluice.time_units import SECOND

#: name under which Spark finds the source
IDLE_CLOCK_SOURCE = "sluice-idle-clock"
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


# ---- Spark -----------------------------------------------------------------------------------------------------------


class NextDueTime:
    """The time at which the clock alone causes the next output, as the last batch wrote to the ledger."""

    def __init__(self, plan: Plan) -> None:
        self._query, self._store = plan.query, plan.store
        self._last: Entry | None = None
        Follower(plan.pipeline.settings.kafka, plan.pipeline.name, self._batch_written)

    def _batch_written(self, entry: Entry) -> None:
        self._last = entry

    def __call__(self) -> int:
        """That time; MAX_TIME if there is none; NO_IDLE_CLOCK while the ledger entry of the last batch is not known."""
        last = self._last
        if last is None or (last.query_id, last.batch) != (self._query, last_planned(self._store)):
            return NO_IDLE_CLOCK
        return MAX_TIME if last.report.due is None else last.report.due


class IdleClockReader(DataSourceStreamReader):
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._clock: IdleClock | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {IDLE_CLOCK_KEY: NO_IDLE_CLOCK}

    def latestOffset(self, start: dict[str, int], limit: object) -> dict[str, int]:  # noqa: N802
        self._clock = self._clock or _idle_clock(self._plan)
        return {IDLE_CLOCK_KEY: self._clock.released(start[IDLE_CLOCK_KEY])}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """None: the time of a batch is in its offsets, and the buckets get it from there."""
        return []

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        """Is not called, because there are no partitions."""
        return iter(())


def _idle_clock(plan: Plan) -> IdleClock:
    settings = plan.pipeline.settings
    requests = clients(settings.kafka, "admin")
    places = [
        (str(stream.topic), number) for stream in plan.inputs for number in range(plan.topic_partitions[stream.name])
    ]
    # Half an interval less than the full step, because Spark does not start batches exactly one interval apart.
    step = max(SECOND, settings.trigger_interval) - settings.trigger_interval // 2
    # With merging, rows that wait for other topic partitions are in no report, so the idle clock must always advance.
    due = (lambda: NO_IDLE_CLOCK) if plan.merging else NextDueTime(plan)
    return IdleClock(step, time.time_ns, lambda: ends(requests, places), lambda: offsets_read(plan.store), due)


def idle_clock_source(plan: Plan, columns: StructType) -> type[DataSource]:
    """The data source of the idle clock to register for this plan. `columns` are those of the records beside it."""

    class IdleClockSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return IDLE_CLOCK_SOURCE

        def schema(self) -> StructType:
            return columns

        def streamReader(self, schema: StructType) -> IdleClockReader:  # noqa: N802
            return IdleClockReader(plan)

    return IdleClockSource
