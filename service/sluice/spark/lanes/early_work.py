"""Begins the work of a batch as soon as Spark has planned it, while Spark prepares its call of `foreachBatch`.

    Spark      log of offsets N --> plan and analysis of N --> foreachBatch(N) ... returns --> log of commits N
                      |                                                        :
    service           +--> records, rows, state servers, transaction of N .....:

The entry in the log of offsets decides what a batch reads, and Spark repeats the batch until it is in the log of
commits. So the work that begins at the entry is the work that the call would do, also if the service is killed in
between, or if Spark fails or is stopped before the call. In the last two cases Spark has ended the query before the
work has ended: `end` waits for it.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path

from inotify_simple import INotify, flags

LOGGER = logging.getLogger("sluice")
#: The name of the checksums of an entry. Hadoop renames them into place after the entry itself. Before that, the entry
#: cannot be compared with them, and they cannot be forced to the disk (`force_plan`).
CHECKSUMS = re.compile(r"\.(?P<batch>\d+)\.crc", re.ASCII)


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
        """What `work` returns for this batch; waits until it is done. Raises what `work` raises.

        Each batch has a larger number than the one before, or the same number.
        """
        self._begin(batch)
        return self._result.result()

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
