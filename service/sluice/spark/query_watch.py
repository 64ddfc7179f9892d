"""Watches running queries until one of them ends or a stop is requested, and then stops all of them in bounded time.

The progress reports of a query are read from Spark's own objects, and of each report only the needed part. PySpark's
`lastProgress` and `recentProgress` make a Python object of every report and of all its parts, 20 ms for the ten that
are kept here. A service reads reports four times a second, so that was a twelfth of its processor time.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from sluice.kafka.kafka_errors import TopicPartitionsAddedError
from sluice.model.errors import SluiceError
from sluice.ops.batch_progress import StartLog
from sluice.ops.pipelines import Health
from sluice.spark import idle_clock, quiet_wait
from sluice.spark.failures import AGAIN, QueryError, explained, explaining, stopped, unexpected
from sluice.spark.spark_internals import kept_reports, newest_report

#: maximum seconds from a stop request or the failure of a query to the end of the process, whatever hangs
GRACE = 10.0
#: the seconds of these that the running batches may take to finish, and then the seconds for the queries to stop
FINISH, STOP = 6.0, 2.0
#: seconds between two looks at the queries; without news from them each time is twice as long, up to the second one
INTERVAL, LONGEST_INTERVAL = 0.25, 2.0

#: Spark's status messages of a query that has found no work, the last ones while it waits for a record
IDLE = (
    "Waiting for data to arrive", "Waiting for next trigger",
    *(f"Getting offsets from {source}" for source in (idle_clock.NAME, quiet_wait.NAME)),
)  # fmt: skip

#: called with the failure of a query, or with None after a request to stop. What follows may hang, so this bounds it
Ending = Callable[[SluiceError | None], None]
#: kinds of errors
Kinds = tuple[type[SluiceError], ...]


#: A progress report of Spark: one per batch, and others while no batch runs. The latter have the number of the batch
#: that will run next, so only the timestamp, the time of the trigger, identifies a report.
Progress = Mapping[str, Any]


@dataclass(slots=True)
class WatchedQuery:
    """A query, and the listener `seen` that is called with the new progress reports, oldest first."""

    query: StreamingQuery
    seen: Callable[[Sequence[Progress]], None]
    #: timestamp of the newest report that was passed on
    reported: str = ""
    #: monotonic time at which the running batch was first observed; None while no batch runs
    since: float | None = None

    @property
    def began(self) -> bool:
        return bool(self.reported) or self.query.status["message"] in IDLE

    def report(self) -> bool:
        """Passes the new reports to the listener. Returns whether there are any."""
        newest = newest_timestamp(self.query)
        if newest == self.reported:
            return False
        reports = reports_after(self.query, self.reported)
        self.since = None
        self.reported = reports[-1]["timestamp"] if reports else newest  # a report may have come after `newest`
        self.seen(reports)
        return True

    def age(self, now: float) -> float:
        """Seconds since the running batch was first observed; 0 if no batch runs."""
        status = self.query.status
        if not status["isTriggerActive"] or status["message"] in IDLE:
            self.since = None
            return 0.0
        if self.since is None:
            self.since = now
        return now - self.since


class StopRequest:
    """A request to stop queries in order, and the seconds that the running batches may take to finish."""

    def __init__(self, requested: threading.Event | None = None) -> None:
        """`requested` is an event that another part of the service sets."""
        self._requested = requested or threading.Event()
        self.finish = FINISH

    def set(self, finish: float = FINISH) -> None:
        """Requests the stop. A later request may shorten the time for the batch, and may not lengthen it."""
        self.finish = min(finish, self.finish) if self.is_set() else finish
        self._requested.set()

    def is_set(self) -> bool:
        return self._requested.is_set()

    def wait(self, seconds: float) -> bool:
        """Waits until the stop is requested, or until the seconds have passed. Returns whether it is requested."""
        return self._requested.wait(seconds)


def watch(
    queries: Sequence[WatchedQuery], stop: StopRequest, health: Health, ending: Ending = lambda _: None,
    stop_s: float = STOP, *, look: Callable[[], object] = lambda: None, wake: Callable[[], object] = lambda: None,
    restarts: Kinds = (TopicPartitionsAddedError,),
) -> None:  # fmt: skip
    """Returns after `stop` was set and the queries have ended. If a query fails, stops the others and raises its error.
    An error of a listener, of `look`, or of the connection to Spark, is raised after all queries are stopped.

    Queries that do not stop within `stop_s` seconds are left as they are. `ending` is called before they are stopped,
    unless they start again afterwards, which they do after errors of the kinds `restarts`. `look` is called again and
    again, and `wake` before queries are stopped: it ends their waits between batches.
    """
    try:
        with explaining():
            _watch_until_end(queries, stop, health, look)
    except Exception as error:
        # Without this the queries would go on, and nothing would watch or stop them.
        if not isinstance(error, restarts):
            ending(error if isinstance(error, SluiceError) else unexpected(error))
        wake()
        _stop(queries, stop_s)
        raise
    failure = _failure(queries, stop, restarts) or _end_without_error(queries, stop)
    if not isinstance(failure, restarts):
        ending(failure)
    since = time.monotonic()
    wake()
    for watched in queries:
        if stop.is_set() and watched.query.isActive:
            _finish_batch(watched.query, lambda: time.monotonic() < since + stop.finish)
    stopped_in_time = _stop(queries, stop_s)
    failure = failure or _failure(queries, stop, restarts)
    try:
        for watched in stopped_in_time:
            watched.report()
    finally:
        if failure:
            raise failure


def _watch_until_end(
    queries: Sequence[WatchedQuery], stop: StopRequest, health: Health, look: Callable[[], object]
) -> None:
    """Passes reports on until a query ends or `stop` is set."""
    slow, interval = StartLog(), INTERVAL
    while all(watched.query.isActive for watched in queries) and not stop.wait(interval):
        news = [watched.report() for watched in queries]
        interval = INTERVAL if any(news) else min(2 * interval, LONGEST_INTERVAL)
        look()
        oldest = max(watched.age(time.monotonic()) for watched in queries)
        began = all(watched.began for watched in queries)
        health.report(began=began, batch=oldest)
        slow.report(began=began)


def _failure(queries: Sequence[WatchedQuery], stop: StopRequest, restarts: Kinds) -> SluiceError | None:
    """The error of the first query that has ended with one; None if no query has.

    After a request to stop, an error of the kinds `restarts` is none: the next start finds what the topics are then.
    """
    ended = (watched.query.exception() for watched in queries if not watched.query.isActive)
    errors = (explained(str(error)) for error in ended if error)
    return next((e for e in errors if not (stop.is_set() and isinstance(e, restarts))), None)


def _end_without_error(queries: Sequence[WatchedQuery], stop: StopRequest) -> SluiceError | None:
    """An error if a query has ended that was not stopped: its thread in Spark failed before it could say why."""
    if stop.is_set() or all(watched.query.isActive for watched in queries):
        return None
    return QueryError(f"a query has ended without an error of Spark; what Java has printed may say why; {AGAIN}")


def _stop(queries: Sequence[WatchedQuery], seconds: float) -> list[WatchedQuery]:
    """Stops all queries in parallel. Waits at most so many seconds: Spark waits for a hanging batch without limit.

    Returns the queries that have stopped by then.
    """
    threads = [
        threading.Thread(target=stopped, args=(watched.query.stop,), name="sluice-stop", daemon=True)
        for watched in queries
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [watched for watched, thread in zip(queries, threads, strict=True) if not thread.is_alive()]


def _finish_batch(query: StreamingQuery, may_wait: Callable[[], bool]) -> None:
    """Waits for the end of the running batch while `may_wait`. Stopping in the middle of a batch is safe, too."""
    before = newest_timestamp(query)
    while query.isActive and query.status["isTriggerActive"] and may_wait():
        if newest_timestamp(query) != before:
            return
        time.sleep(0.02)


def newest_timestamp(query: StreamingQuery) -> str:
    """The timestamp of the newest report; "" if there is none yet."""
    report = newest_report(query)
    return str(report.timestamp()) if report is not None else ""


def newest_batch(query: StreamingQuery) -> int | None:
    """The number of the batch in the newest report; None if there is none yet."""
    report = newest_report(query)
    return int(report.batchId()) if report is not None else None


def reports_after(query: StreamingQuery, timestamp: str) -> list[Progress]:
    """The reports that are newer than the one with this timestamp, oldest first; all that Spark keeps if it is gone."""
    reports: list[Progress] = []
    for report in reversed(kept_reports(query)):
        progress = json.loads(report.json())
        if progress["timestamp"] == timestamp:
            break
        reports.append(progress)
    return reports[::-1]
