"""Does the work of each batch in one of two lanes, and writes its outputs in one Kafka transaction (foreachBatch).

The work of a batch begins as soon as Spark has planned it, while Spark prepares its call of `foreachBatch`:

    Spark      log of offsets N --> plan and analysis of N --> foreachBatch(N) ... returns --> log of commits N
                      |                                                        :
    service           +--> records, rows, state servers, transaction of N .....:

The entry in the log of offsets decides what a batch reads, and Spark repeats the batch until it is in the log of
commits. So the work that begins at the entry is the work that the call would do, also if the service is killed in
between, or if Spark fails or is stopped before the call. In the last two cases Spark has ended the query before the
work has ended: `EarlyWork.end` waits for it.
"""

from __future__ import annotations

import logging
import re
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Self

from inotify_simple import INotify, flags
from pyspark.sql import DataFrame, SparkSession

from sluice.batch.commit import Deliver, commit, settings_of
from sluice.batch.packed_rows import Packed
from sluice.batch.query_plan import Plan
from sluice.checkpoint.offset_log import PLANNED, force_plan
from sluice.kafka.batch_writer import close_writers
from sluice.kafka.kafka_errors import PartsClosedError
from sluice.kafka.requests import clients
from sluice.model.errors import SluiceError
from sluice.ops.batch_progress import Observe, Step, StepTimer, ignored
from sluice.spark.failures import result_within, shown_to_spark
from sluice.spark.lanes.direct_lane import DirectLane
from sluice.spark.lanes.missing_records import lost_offsets
from sluice.spark.lanes.spark_lane import SparkLane
from sluice.spark.lanes.topic_check import TopicCheck
from sluice.spark.spark_internals import thread_connection

LOGGER = logging.getLogger("sluice")
#: The name of the checksums of an entry. Hadoop renames them into place after the entry itself. Before that, the entry
#: cannot be compared with them, and they cannot be forced to the disk (`force_plan`).
CHECKSUMS = re.compile(r"\.(?P<batch>\d+)\.crc", re.ASCII)
#: the longest work of a batch, in seconds. The bounds of its own waits are shorter: a minute for each request to Kafka,
#: three times half an hour for a state server or a reader
MAX_WORK_S = 3 * 3600.0


class HungBatchError(SluiceError):
    """The work of a batch does not end. The next start repeats it."""

    exit_code = 6

    @classmethod
    def after_a_stop(cls) -> Self:
        """The error for a batch that still runs MAX_WORK_S after the stop of its query."""
        return cls(
            f"the last batch has not ended for {MAX_WORK_S:.0f} seconds since its query was stopped: it hangs, and the "
            "query cannot start again beside it; the next start of the service repeats it, unless it is written"
        )


class BatchLanes:
    """The function that Spark calls with each batch of a query."""

    def __init__(
        self, plan: Plan, spark: SparkLane, direct: DirectLane | None, topics: TopicCheck, deliver: Deliver = commit,
        *, observe: Observe = ignored, pause: Callable[[int], object] = lambda _: None,
    ) -> None:  # fmt: skip
        """`direct` is tried first; None: all batches are jobs of Spark. `deliver` is called with the outputs of each
        batch that `topics` lets pass. `observe` is called with the durations of the steps. `pause` is
        called at the end of each batch with the number of offsets that it took, as far as the direct lane has counted
        them, and returns when the next one may start.
        """
        self._pause, self._last = pause, time.monotonic()
        self._wake: list[Callable[[], object]] = []
        self._after: list[Callable[[], object]] = []
        self._topics = topics
        self._plan, self._spark, self._direct, self._deliver = plan, spark, direct, deliver
        self._observe = observe
        log = Path(plan.checkpoint, PLANNED)
        self._early = None if direct is None else EarlyWork(partial(self._written_directly, direct), log)
        self._context = copy_context()  # so that log lines of a batch name the pipeline
        #: the connection through which the JVM calls this process for the query
        self._jvm: socket.socket | None = None
        self._also_open = ExitStack()
        self._requests = clients(plan.pipeline.settings.kafka, "admin")
        self.also_close(self._requests.close)

    def __call__(self, records: DataFrame, batch: int) -> None:
        """`records` has the records of the batch. Spark reads them only if its lane does the batch."""
        with shown_to_spark():
            self.called(records.sparkSession)
            self._context.run(self._write, records, batch)
            for call in self._after:
                self._context.run(call)
        self._pause(0 if self._direct is None else self._direct.offsets)
        self._last = time.monotonic()

    def last(self) -> float:
        """When the last batch ended, or when these lanes were made; seconds of the monotonic clock."""
        return self._last

    def rest(self) -> None:
        """Lets the reader of the direct lane request nothing until the next batch. No batch is in progress."""
        if self._direct is not None:
            self._direct.rest()

    def called(self, spark: SparkSession) -> None:
        """Notes the connection of this thread to the JVM, which has called, so that `close` closes it.

        The JVM opens one for each thread that calls Python, and a query has a thread of its own. If it is not closed,
        it keeps a thread of this process.
        """
        if self._jvm is None:
            self._jvm = thread_connection(spark)

    def also_close(self, close: Callable[[], object]) -> None:
        """Lets `close` of these lanes call this function, too."""
        self._also_open.callback(close)

    def also_wake(self, wake: Callable[[], object]) -> None:
        """Lets `wake` of these lanes call this function, too."""
        self._wake.append(wake)

    def also_after_batch(self, call: Callable[[], object]) -> None:
        """Calls this function after each batch, in the thread of the query."""
        self._after.append(call)

    def wake(self) -> None:
        """Ends the waits of the query between batches, which is going to be stopped."""
        for wake in self._wake:
            wake()

    def _write(self, records: DataFrame, batch: int) -> None:
        if self._early is None or not self._early.result(batch):
            timer = StepTimer(self._observe)
            self._force_plan(batch)
            outputs = [*lost_offsets(self._plan, batch, self._requests), *self._spark.outputs(records, batch)]
            timer.ended(Step.JOB)
            self._topics.begin()
            self._topics.require()
            self._closed(batch, outputs)

    def _written_directly(self, direct: DirectLane, batch: int) -> bool:
        """Writes the batch without a job of Spark, if it can. Returns whether it has."""
        self._force_plan(batch)
        outputs = direct.outputs(batch)
        if outputs is None:
            return False
        self._topics.require()
        self._closed(batch, outputs)
        return True

    def _closed(self, batch: int, outputs: list[Packed]) -> None:
        """Writes what the buckets have not written, and the ledger. Raises PartsClosedError if the query was started
        for this batch alone.
        """
        self._deliver(self._plan, batch, outputs, self._observe)
        if batch == self._plan.finishing:
            raise PartsClosedError(f"all parts of batch {batch} are written")

    def _force_plan(self, batch: int) -> None:
        """Forces the plan to the disk before buckets write parts of the batch, if the disk must have it."""
        if self._plan.parted and self._plan.forced:
            force_plan(Path(self._plan.checkpoint), batch)

    def look(self) -> None:
        """Looks after the input topics while no batch does. Raises as `TopicCheck.look` does."""
        self._topics.look()

    def end(self, seconds: float) -> bool:
        """Lets no batch begin early any more, and waits at most so many seconds for one that has begun early.

        Spark does not wait for such a batch if the query ends before the call. Returns whether none is in progress.
        """
        return self._early is None or self._early.end(seconds)

    def close(self) -> None:
        """Closes the Kafka clients and the connection that this process has for the query, which has ended.

        Waits for a batch that has begun early, which uses the clients; raises HungBatchError after MAX_WORK_S.
        """
        if not self.end(MAX_WORK_S):
            raise HungBatchError.after_a_stop()
        if self._direct is not None:
            self._direct.close()
        self._topics.close()
        close_writers(settings_of(self._plan))
        self._also_open.close()
        if self._jvm is not None:
            with suppress(OSError):
                self._jvm.shutdown(socket.SHUT_RDWR)


class OpenLanes:
    """The lanes of the queries of a run, from the start of each query until `close`."""

    def __init__(self) -> None:
        self._open: list[BatchLanes] = []

    def add(self, lanes: BatchLanes) -> None:
        self._open.append(lanes)

    def look(self) -> None:
        """Looks after the input topics of all queries, as `BatchLanes.look` does."""
        for lanes in self._open:
            lanes.look()

    def wake(self) -> None:
        """Ends the waits of all queries between batches, as `BatchLanes.wake` does."""
        for lanes in self._open:
            lanes.wake()

    def end(self, seconds: float) -> bool:
        """Lets no batch begin early any more, and waits at most so many seconds for batches that have begun early.

        Returns whether none is in progress.
        """
        deadline = time.monotonic() + seconds
        ended = [lanes.end(max(0.0, deadline - time.monotonic())) for lanes in self._open]
        return all(ended)

    def close(self) -> None:
        """Closes the lanes, as `BatchLanes.close` does. Their queries have ended."""
        with ExitStack() as stack:
            while self._open:
                stack.callback(self._open.pop().close)


class EarlyWork:
    """Calls `work` once for each batch: in a thread of its own, when the entry of the batch in `log` is complete, or in
    `result`, whichever is first.

    `log` is the folder of Spark's log of offsets; it is created if it is missing. Where a folder cannot be watched
    (inotify is a part of Linux), all work is done in `result`.
    """

    def __init__(self, work: Callable[[int], bool], log: Path) -> None:
        """`work` is called with the number of a batch."""
        self._work = work
        self._lock = threading.Lock()
        #: the newest batch whose work has begun, and the result of its work
        self._batch, self._result = -1, Future[bool]()
        #: whether only `result` may begin work from now on
        self._ended = False
        self._thread: threading.Thread | None = None
        log.mkdir(parents=True, exist_ok=True)
        try:
            self._events, self._watch = _watched(log)
        except (OSError, AttributeError) as error:  # the C library of another system has no such function
            LOGGER.info("each batch begins when Spark calls, because %s cannot be watched: %s", log, error)
            return
        context = copy_context()  # so that log lines name the pipeline
        self._thread = threading.Thread(target=context.run, args=(self._follow,), name="sluice-early-work", daemon=True)
        self._thread.start()

    def result(self, batch: int) -> bool:
        """What `work` returns for this batch; waits until it is done. Raises what `work` raises; HungBatchError after
        MAX_WORK_S.

        Each batch has a larger number than the one before, or the same number.
        """
        self._begin(batch)
        overdue = HungBatchError(
            f"batch {batch} has not ended for {MAX_WORK_S:.0f} seconds: it hangs, perhaps because a disk or a file "
            "system does not answer; the next start repeats it"
        )
        return result_within(self._result, MAX_WORK_S, overdue)

    def end(self, seconds: float = threading.TIMEOUT_MAX) -> bool:
        """Ends the thread: it begins no work any more. Waits for work in progress, for at most so many seconds.

        Returns whether the thread has ended.
        """
        if self._thread is None:
            return True
        with self._lock:
            self._ended = True
        with suppress(OSError, ValueError):  # the folder was removed, or this is the second call
            self._events.rm_watch(self._watch)
        self._thread.join(min(seconds, threading.TIMEOUT_MAX))
        return not self._thread.is_alive()

    def _follow(self) -> None:
        with self._events:
            while True:
                for event in self._events.read():
                    if event.mask & flags.IGNORED:  # the last event: nothing is watched any more
                        return
                    if complete := CHECKSUMS.fullmatch(event.name):
                        self._begin(int(complete["batch"]), early=True)

    def _begin(self, batch: int, *, early: bool = False) -> None:
        """Does the work of the batch, unless it has begun already or would begin `early` after the end."""
        with self._lock:
            if batch <= self._batch or (early and self._ended):
                return
            result = Future[bool]()
            self._batch, self._result = batch, result
        try:
            result.set_result(self._work(batch))
        except BaseException as error:  # noqa: BLE001 - `result` raises it in the thread that Spark calls
            result.set_exception(error)


def _watched(log: Path) -> tuple[INotify, int]:
    """An inotify queue that gets an event for each file that is renamed into `log`, and the number of its watch."""
    events = INotify()
    try:
        return events, events.add_watch(log, flags.MOVED_TO)
    except BaseException:
        events.close()
        raise
