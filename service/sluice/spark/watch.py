"""Looks after running queries until one ends, or until all are told to end."""

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
from sluice.processes import LastResort
from sluice.spark.failures import explained

#: seconds within which the service has ended after it was told to, or after a query failed, whatever hangs
GRACE = 10.0
#: of these, what the batches in hand may take, and then what the queries may take to stop
FINISH, STOP = 6.0, 2.0
INTERVAL = 0.25

#: Spark's words for a query that has found nothing to do
IDLE = ("Waiting for data to arrive", "Waiting for next trigger")

#: one of Spark's progress reports
Progress = Mapping[str, Any]


@dataclass(slots=True)
class WatchedQuery:
    """A query, and who gets each of its progress reports."""

    query: StreamingQuery
    seen: Callable[[Progress], None]
    #: the newest batch of which there was a report
    last: int = -1
    #: time of the newest report, of any kind
    reported: str = ""
    #: since when the same batch has been in hand, None for none
    since: float | None = None

    @property
    def began(self) -> bool:
        return self.last >= 0 or self.query.status["message"] in IDLE

    def report(self) -> None:
        """Hands on the reports that are new. To read all that Spark still has takes it a while."""
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
        """Seconds for which the batch in hand has been running, as far as it was looked at; 0 for none."""
        status = self.query.status
        if not status["isTriggerActive"] or status["message"] in IDLE:
            self.since = None
            return 0.0
        if self.since is None:
            self.since = now
        return now - self.since


def watch(queries: Sequence[WatchedQuery], told: threading.Event, life: Health, resort: LastResort) -> None:
    """Returns when the queries have ended as told; raises what made one of them fail, after ending the others.

    `resort` bounds all that follows the loop, so a query that hangs does not keep the process of one that failed.
    """
    while all(one.query.isActive for one in queries) and not told.wait(INTERVAL):
        for one in queries:
            one.report()
        oldest = max(one.age(time.monotonic()) for one in queries)
        life.looked(began=all(one.began for one in queries), batch=oldest)
    failure = _failure(queries)
    resort.arm(failure.exit_code if failure else 0, masked(str(failure or "")))
    deadline = time.monotonic() + FINISH
    for one in queries:
        if told.is_set() and one.query.isActive:
            _finish_batch(one.query, deadline)
    _stop(queries)
    failure = failure or _failure(queries)
    if failure:
        raise failure


def _failure(queries: Sequence[WatchedQuery]) -> SluiceError | None:
    """What made a query end, of those that have ended by themselves."""
    ended = (one.query.exception() for one in queries if not one.query.isActive)
    return next((explained(str(error)) for error in ended if error), None)


def _stop(queries: Sequence[WatchedQuery]) -> None:
    """Stops all at once, and waits STOP seconds: Spark waits for a batch that hangs without any bound."""
    threads = [threading.Thread(target=one.query.stop, name="sluice-stop", daemon=True) for one in queries]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + STOP
    for one, thread in zip(queries, threads, strict=True):
        thread.join(max(0.0, deadline - time.monotonic()))
        if not thread.is_alive():
            one.report()


def _finish_batch(query: StreamingQuery, deadline: float) -> None:
    """Waits for the end of the batch in hand, for as long as that is sensible. To abandon it would be safe, too."""
    before = query.lastProgress
    batch = before["batchId"] if before else -1
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        now = query.lastProgress
        if now and now["batchId"] > batch:
            return
        time.sleep(0.02)
