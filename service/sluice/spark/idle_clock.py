"""The idle clock: it advances the operator clock while no records arrive.

Its time T has a guarantee: every record that was appended before T is in this batch or in an earlier one. To give this
guarantee, it notes the current time and then the end offsets of the topic partitions. It releases the noted time as
soon as all records up to these offsets have been read, which the offset log of the checkpoint shows. The idle clock
does not advance while no timer is due. Each batch reports when the clock alone causes the next output.

For Spark it is a second streaming source of a query, a source without records, whose offset is a time. Spark writes the
offsets of all sources of a batch into its offset log, so a repeated batch gets the same T, and plans a batch if one of
them has changed.
"""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession

from sluice.batch.commit import Deliver
from sluice.batch.packed_rows import Packed
from sluice.batch.query_plan import Plan
from sluice.checkpoint.offset_log import IDLE_CLOCK_KEY, NO_IDLE_CLOCK, known, last_planned, offsets_read
from sluice.engine.stream.items import MAX_TIME
from sluice.kafka.batch_report import Report
from sluice.kafka.kafka_errors import UnavailableError
from sluice.kafka.range_reader import Offsets, ends
from sluice.kafka.requests import Requests
from sluice.ops.batch_progress import Observe
from sluice.spark.python_source import PythonSource
from sluice.spark.spark_internals import JavaObject, empty_stream, serialized_offset, stream_of
from sluice.time_units import SECOND

#: the name of the source in Spark's messages
NAME = "idle clock"
#: maximum number of waiting notes. Only a service that is far behind has more, and then losing the oldest is harmless.
NOTES = 1000


LOGGER = logging.getLogger("sluice")


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

    def standstill(self) -> float:
        """Seconds for which no new time can be released unless records come; 0 if one may be released now."""
        return 0.0 if self._notes else (self._due() - self._now()) / SECOND


def _reached(ends: Offsets, read: Offsets) -> bool:
    return all(read.get(partition, 0) >= end for partition, end in ends.items())


class NextDueTime:
    """The time at which the clock alone causes the next output, by the report of the last batch."""

    def __init__(self) -> None:
        self._time = NO_IDLE_CLOCK

    def __call__(self) -> int:
        """The time in nanoseconds; MAX_TIME if nothing is due; NO_IDLE_CLOCK, a time long past, before any report."""
        return self._time

    def of_batches(self, deliver: Deliver) -> Deliver:
        """`deliver`, with the reports that it returns noted."""

        def noted(plan: Plan, batch: int, rows: list[Packed], observe: Observe) -> Report | None:
            report = deliver(plan, batch, rows, observe)
            self.batch_written(report)
            return report

        return noted

    def batch_written(self, report: Report | None) -> None:
        """`report` is the report of the batch; None if it is not known here, because an earlier run wrote the batch."""
        if report is None:
            self._time = NO_IDLE_CLOCK
        else:
            self._time = MAX_TIME if report.due is None else report.due


class IdleClockSource(PythonSource):
    """The idle clock as a source: its offset is a time. The buckets get the time of a batch from its offsets."""

    def __init__(
        self, clock: IdleClock, last: int, empty: JavaObject, offset: Callable[[str], JavaObject],
        called: Callable[[], object], *, wait: Callable[[float], object],
    ) -> None:  # fmt: skip
        """`last` is the time of the last batch. `offset` makes an offset of Spark from JSON text. `wait` is called with
        the seconds for which no new time can be released. The others are those of a PythonSource.
        """
        super().__init__(NAME, empty, called)
        self._clock, self._wait, self._made_offset = clock, wait, offset
        self._time, self._offset = last, self._offset_of(last)

    def next_offset(self) -> JavaObject:
        """The newest time that may be released."""
        released = self._released()
        if released != self._time:
            self._time, self._offset = released, self._offset_of(released)
        else:
            self._wait(self._clock.standstill())
        return self._offset

    def _released(self) -> int:
        """The newest time that may be released. It stands still while Kafka does not answer, which Spark's source of
        records reports.
        """
        try:
            return self._clock.released(self._time)
        except UnavailableError as error:
            LOGGER.info("the idle clock stands still: %s", error)
            return self._time

    def _offset_of(self, moment: int) -> JavaObject:
        return self._made_offset(json.dumps({IDLE_CLOCK_KEY: moment}))


def beside(
    records: DataFrame, clock: IdleClock, last: int, spark: SparkSession, called: Callable[[], object],
    *, wait: Callable[[float], object] = lambda _: None,
) -> DataFrame:  # fmt: skip
    """The records of a query, with the idle clock as the query's next source. `last` is the time of the last batch.

    `called` is called in the thread in which Java calls the source, and `wait` with the seconds for which no new time
    can be released.
    """
    source = IdleClockSource(clock, last, empty_stream(records), serialized_offset(spark), called, wait=wait)
    return records.unionByName(stream_of(source, spark))


def idle_clock(plan: Plan, requests: Requests[AdminClient], due: Callable[[], int]) -> IdleClock:
    """The idle clock of a query. `due` gives the time at which the clock alone causes the next output."""
    settings = plan.pipeline.settings
    # Half an interval less than the full step, because Spark does not start batches exactly one interval apart.
    step = max(SECOND, settings.trigger_interval) - settings.trigger_interval // 2
    # With merging, rows that wait for other topic partitions are in no report, so the idle clock must always advance.
    due = (lambda: NO_IDLE_CLOCK) if plan.merging else due
    return IdleClock(step, time.time_ns, lambda: ends(requests, plan.places), lambda: offsets_read(plan.store), due)


def last_time(plan: Plan) -> int:
    """The time of the idle clock in the last planned batch, NO_IDLE_CLOCK before the first one."""
    planned = known(plan.store, last_planned(plan.store))
    return NO_IDLE_CLOCK if planned is None else planned.idle_clock
