"""The progress of batches: the steps of a batch, whose durations are measured, and the log lines about batches."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any


class Step(StrEnum):
    """A step, by the value of the label `step` of its metric."""

    #: the records are received, decoded, and divided among the buckets
    READ = "read"
    #: the state servers compute the windows, and encode their outputs
    COMPUTE = "compute"
    #: both of them, in a job of Spark
    JOB = "job"
    #: the outputs are merged, and handed over to the Kafka client, which sends them
    PRODUCE = "produce"
    #: the brokers have everything, and end the transaction
    COMMIT = "commit"


#: called with a step that has succeeded, its duration in seconds, and the processor seconds of the thread that did it
Observe = Callable[[Step, float, float], None]


def ignored(step: Step, seconds: float, cpu_seconds: float) -> None:
    """Drops the times of a step: for code that nobody measures."""


class StepTimer:
    """Measures steps that follow each other in one thread."""

    def __init__(self, observe: Observe) -> None:
        """The first step begins now."""
        self._observe, self._began, self._used = observe, time.perf_counter(), time.thread_time()

    def ended(self, step: Step) -> None:
        """Calls `observe`. The next step begins now."""
        began, used = self._began, self._used
        self._began, self._used = time.perf_counter(), time.thread_time()
        self._observe(step, self._began - began, self._used - used)


LOGGER = logging.getLogger("sluice")
Fields = dict[str, Any]

#: seconds between two lines about batches
INTERVAL_S = 60.0
#: seconds of a start after which it is logged as slow, and then between two such lines
SLOW = 30.0
#: a backlog that takes longer than this many seconds at the present rate is logged as catching up
BACKLOG = 10.0


class StartLog:
    """Logs a start that takes long. The loop that watches the queries calls `report`."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._since = self._said = now()

    def report(self, *, began: bool) -> None:
        """`began`: whether each query has finished a batch or has found that there are no records yet."""
        now = self._now()
        if not began and now - self._said >= SLOW:
            self._said = now
            message = "still starting: Spark's processes start, and a new version compiles its kernels once"
            LOGGER.info(message, extra={"seconds": round(now - self._since)})


class ProgressLog:
    """Logs the first batch of a query, and one line per minute in which batches ended."""

    def __init__(
        self, query: str, now: Callable[[], float] = time.monotonic, about: Callable[[], Fields] = dict
    ) -> None:
        """`about` gives further fields for the line of a minute; with `held_back` among them the line is a warning."""
        self._query, self._now, self._about = query, now, about
        self._batches, self._records = 0, 0
        self._since: float | None = None
        self._behind_before = 0
        self._catching_up = False

    def batch_ended(self, batch: int, records: int, seconds: float, behind: int) -> None:
        """Counts a batch that has ended, and logs it once a minute; `behind` records are available and unread."""
        now = self._now()
        if self._since is None:
            self._log("first batch", batch=batch, records=records, seconds=round(seconds, 1), behind=behind)
            self._start_interval(now, behind)
            return  # its records came before the interval whose rate is logged
        self._batches += 1
        self._records += records
        passed = now - self._since
        if passed >= INTERVAL_S:
            self._minute(batch, passed, behind)
            self._start_interval(now, behind)
        elif self._catching_up and not behind:
            self._catching_up = False
            self._log("caught up", batch=batch)

    def _start_interval(self, now: float, behind: int) -> None:
        self._since, self._behind_before = now, behind
        self._batches = self._records = 0

    def _minute(self, batch: int, passed: float, behind: int) -> None:
        rate = self._records / passed
        fields: Fields = {
            "batch": batch,
            "batches": self._batches,
            "records": self._records,
            "per_second": round(rate),
            "behind": behind,
        }
        fields |= self._about()
        self._catching_up = behind > BACKLOG * rate
        if not self._catching_up:
            self._log("running", **fields)
            return
        gained = (self._behind_before - behind) / passed
        to_go = f"{behind / gained:.0f} s" if gained > 0 else "the backlog grows"
        self._log("catching up", **fields, time_to_go=to_go)

    def _log(self, message: str, **fields: object) -> None:
        level = logging.WARNING if "held_back" in fields else logging.INFO
        LOGGER.log(level, message, extra={"pipeline": self._query, **fields})


class DeadLetterLog:
    """Logs the first dead letter of each stream and reason."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, str]] = set()

    def batch_written(self, firsts: Mapping[str, Mapping[str, Sequence[object]]]) -> None:
        """`firsts` has by stream and word of the reason: topic, topic partition, offset and reason of a dead letter."""
        for stream, by_word in firsts.items():
            for word, (topic, partition, offset, reason) in by_word.items():
                if (stream, word) in self._seen:
                    continue
                self._seen.add((stream, word))
                origin = {"topic": topic, "topic_partition": partition, "offset": offset, "reason": reason}
                LOGGER.warning("first dead letter with this reason", extra={"stream": stream, **origin})
