"""Looks after a running query until it ends or is told to."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from service.kafka import errors
from service.ops.life import Life
from service.pipeline.errors import SluiceError

#: seconds that the batch in hand may take when the service is told to end
GRACE = 10.0
INTERVAL = 0.25

#: Spark's words for a query that has found nothing to do
IDLE = ("Waiting for data to arrive", "Waiting for next trigger")

#: one of Spark's progress reports
Progress = Mapping[str, Any]


class QueryError(SluiceError):
    """A batch failed. Nothing of it is visible, and a new start does it again."""

    exit_code = 6


def watch(query: StreamingQuery, told: threading.Event, seen: Callable[[Progress], None], life: Life) -> None:
    """Returns when the query has ended as told; raises what made it fail. `seen` gets each progress report."""
    last = -1
    while query.isActive and not told.wait(INTERVAL):
        last = _report(query, last, seen)
        life.looked(began=last >= 0 or query.status["message"] in IDLE)
    if query.isActive:
        _finish_batch(query)
    query.stop()
    _report(query, last, seen)
    failure = query.exception()
    if failure is not None:
        raise explained(str(failure))


def _report(query: StreamingQuery, last: int, seen: Callable[[Progress], None]) -> int:
    """Hands on the reports of batches after `last`; the newest number."""
    for progress in query.recentProgress:
        if progress["batchId"] > last:
            last = progress["batchId"]
            seen(json.loads(progress.json))
    return last


def _finish_batch(query: StreamingQuery) -> None:
    """Waits for the end of the batch in hand, for as long as that is sensible. To abandon it would be safe, too."""
    deadline = time.monotonic() + GRACE
    before = query.lastProgress
    batch = before["batchId"] if before else -1
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        now = query.lastProgress
        if now and now["batchId"] > batch:
            return
        time.sleep(0.02)


def explained(failure: str) -> SluiceError:
    """One of our own errors that was raised in another process, found in Spark's account of it; else all of that."""
    found = re.search(r"service\.kafka\.errors\.(\w+): (.*)", failure)
    if found:
        kind = getattr(errors, found[1], QueryError)
        return kind(found[2])
    return QueryError(f"a batch failed, and nothing of it is visible; Spark says: {failure}")
