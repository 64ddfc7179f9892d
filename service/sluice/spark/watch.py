"""Watches running queries until one of them ends or a stop is requested, and then stops all of them in bounded time."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from sluice.model.errors import SluiceError
from sluice.model.secrets import masked
from sluice.ops.health import Health
from sluice.ops.progress_log import StartLog
from sluice.processes import LastResort
from sluice.spark.failures import explained

#: maximum seconds from a stop request or the failure of a query to the end of the process, whatever hangs
GRACE = 10.0
#: the seconds of these that the running batches may take to finish, and then the seconds for the queries to stop
FINISH, STOP = 6.0, 2.0
INTERVAL = 0.25

#: Spark's status messages of a query that has found no work
IDLE = ("Waiting for data to arrive", "Waiting for next trigger")

#: a progress report of Spark: one per batch, and others while no batch runs
Progress = Mapping[str, Any]


@dataclass(slots=True)
class WatchedQuery:
    """A query, and the listener `seen` that is called with the progress report of each batch."""

    query: StreamingQuery
    seen: Callable[[Progress], None]
    #: number of the newest batch whose report was passed on
    last: int = -1
    #: timestamp of the newest report of any kind
    reported: str = ""
    #: monotonic time at which the running batch was first observed; None while no batch runs
    since: float | None = None

    @property
    def began(self) -> bool:
        return self.last >= 0 or self.query.status["message"] in IDLE

    def report(self) -> None:
        """Passes the new reports to the listener.

        It first reads only the newest report, because reading all reports that Spark has stored is slow.
        """
        newest = self.query.lastProgress
        if newest is None:
            return
        if newest["timestamp"] != self.reported:
            self.reported, self.since = newest["timestamp"], None
        if newest["batchId"] <= self.last:
            return
        for progress in self.query.recentProgress:
            if progress["batchId"] > self.last:
                self.last = progress["batchId"]
                self.seen(json.loads(progress.json))

    def age(self, now: float) -> float:
        """Seconds since the running batch was first observed; 0 if no batch runs."""
        status = self.query.status
        if not status["isTriggerActive"] or status["message"] in IDLE:
            self.since = None
            return 0.0
        if self.since is None:
            self.since = now
        return now - self.since


def watch(
    queries: Sequence[WatchedQuery], stop_requested: threading.Event, life: Health, resort: LastResort,
    stop: float = STOP,
) -> None:  # fmt: skip
    """Returns after `stop_requested` was set and the queries have ended. If a query fails, stops the others and raises
    its error.

    Queries that do not stop within `stop` seconds are left as they are. `resort` ends the process if the steps after
    the loop take too long, so a hanging query cannot keep it alive.
    """
    slow = StartLog()
    while all(one.query.isActive for one in queries) and not stop_requested.wait(INTERVAL):
        for one in queries:
            one.report()
        oldest = max(one.age(time.monotonic()) for one in queries)
        began = all(one.began for one in queries)
        life.looked(began=began, batch=oldest)
        slow.looked(began=began)
    failure = _failure(queries)
    resort.arm(failure.exit_code if failure else 0, masked(str(failure or "")))
    deadline = time.monotonic() + FINISH
    for one in queries:
        if stop_requested.is_set() and one.query.isActive:
            _finish_batch(one.query, deadline)
    _stop(queries, stop)
    failure = failure or _failure(queries)
    if failure:
        raise failure


def _failure(queries: Sequence[WatchedQuery]) -> SluiceError | None:
    """The error of the first query that has ended with one; None if no query has."""
    ended = (one.query.exception() for one in queries if not one.query.isActive)
    return next((explained(str(error)) for error in ended if error), None)


def _stop(queries: Sequence[WatchedQuery], seconds: float) -> None:
    """Stops all queries in parallel. Waits at most so many seconds: Spark waits for a hanging batch without limit."""
    threads = [threading.Thread(target=one.query.stop, name="sluice-stop", daemon=True) for one in queries]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for one, thread in zip(queries, threads, strict=True):
        thread.join(max(0.0, deadline - time.monotonic()))
        if not thread.is_alive():
            one.report()


def _finish_batch(query: StreamingQuery, deadline: float) -> None:
    """Waits until the running batch has ended, or until `deadline`. Stopping in the middle of a batch is safe, too."""
    before = query.lastProgress
    batch = before["batchId"] if before else -1
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        now = query.lastProgress
        if now and now["batchId"] > batch:
            return
        time.sleep(0.02)
