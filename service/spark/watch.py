"""Looks after running queries until they end or are told to."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from service.kafka import errors
from service.ops.life import Life
from service.pipeline.errors import SluiceError
from service.spark.checkpoint import CheckpointError

#: seconds that the batches in hand may take when the service is told to end
GRACE = 10.0
INTERVAL = 0.25

#: Spark's words for a query that has found nothing to do
IDLE = ("Waiting for data to arrive", "Waiting for next trigger")

GO_ON = "to go on with what is there, start with on_data_loss: continue"

#: one of Spark's progress reports
Progress = Mapping[str, Any]


class QueryError(SluiceError):
    """A batch failed. Nothing of it is visible, and a new start does it again."""

    exit_code = 6


@dataclass(slots=True)
class Watched:
    """A query, and who gets each of its progress reports."""

    query: StreamingQuery
    seen: Callable[[Progress], None]
    #: the newest batch of which there was a report
    last: int = -1

    @property
    def began(self) -> bool:
        return self.last >= 0 or self.query.status["message"] in IDLE

    def report(self) -> None:
        """Hands on the reports that are new. To read all that Spark still has takes it a while."""
        newest = self.query.lastProgress
        if newest is None or newest["batchId"] <= self.last:
            return
        for progress in self.query.recentProgress:
            if progress["batchId"] > self.last:
                self.last = progress["batchId"]
                self.seen(json.loads(progress.json))


def watch(queries: Sequence[Watched], told: threading.Event, life: Life) -> None:
    """Returns when the queries have ended as told; raises what made one of them fail, after ending the others."""
    while all(one.query.isActive for one in queries) and not told.wait(INTERVAL):
        for one in queries:
            one.report()
        life.looked(began=all(one.began for one in queries))
    deadline = time.monotonic() + GRACE
    for one in queries:
        if told.is_set() and one.query.isActive:
            _finish_batch(one.query, deadline)
        one.query.stop()
        one.report()
    for failure in filter(None, (one.query.exception() for one in queries)):
        raise explained(str(failure))


def _finish_batch(query: StreamingQuery, deadline: float) -> None:
    """Waits for the end of the batch in hand, for as long as that is sensible. To abandon it would be safe, too."""
    before = query.lastProgress
    batch = before["batchId"] if before else -1
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        now = query.lastProgress
        if now and now["batchId"] > batch:
            return
        time.sleep(0.02)


def explained(failure: str) -> SluiceError:
    """One of our own errors that was raised in another process, found in Spark's account of it; else all of that."""
    unreadable = re.search(r"service\.spark\.checkpoint\.CheckpointError: (.*)", failure)
    if unreadable:
        return CheckpointError(unreadable[1])
    found = re.search(r"service\.kafka\.errors\.(\w+): (.*)", failure)
    if found:
        kind = getattr(errors, found[1], QueryError)
        return kind(found[2])
    lost = re.search(r"Some data may have been lost.*?Reason: (.*?)(SQLSTATE|===|$)", failure, re.DOTALL)
    if lost:
        what = " ".join(lost[1].split())
        return errors.DataLossError(f"records that were not read yet are gone ({what}); {GO_ON}")
    if "UnknownTopicOrPartitionException" in failure:
        topics = re.search(r"Subscribe\[(.*?)\]", failure)
        return errors.TopicError(f"a topic that is read is gone; those are {topics[1] if topics else 'unknown'}")
    return QueryError(f"a batch failed, and nothing of it is visible; Spark says: {failure}")
