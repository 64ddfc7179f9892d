"""Begins the work of a batch as soon as Spark has planned it, while Spark prepares its call of `foreachBatch`.

    Spark      log of offsets N --> plan and analysis of N --> foreachBatch(N) ... returns --> log of commits N
                      |                                                        :
    service           +--> records, rows, state servers, transaction of N .....:

The entry in the log of offsets decides what a batch reads, and Spark repeats the batch until it is in the log of
commits. So the work that begins at the entry is the work that the call would do, also if the service is killed in
between.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path

from inotify_simple import INotify, flags

LOGGER = logging.getLogger("sluice")
#: maximum seconds for which `close` waits for work in progress
CLOSING_S = 5.0


class EarlyWork:
    """Calls `work` once for each batch: in a thread of its own, when the entry of the batch appears in `log`, or in
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
        self._thread: threading.Thread | None = None
        log.mkdir(parents=True, exist_ok=True)
        try:
            self._events = INotify()
            self._watch = self._events.add_watch(log, flags.MOVED_TO)  # Spark renames the finished file of an entry
        except OSError as error:
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

    def close(self) -> None:
        """Ends the thread, after work in progress. Spark plans no batch any more."""
        if self._thread is not None:
            with suppress(OSError, ValueError):  # the folder was removed, so the thread has ended already
                self._events.rm_watch(self._watch)
            self._thread.join(CLOSING_S)

    def _follow(self) -> None:
        with self._events:
            while True:
                for event in self._events.read():
                    if event.mask & flags.IGNORED:  # the last event: nothing is watched any more
                        return
                    if event.name.isdigit():  # not a file of checksums
                        self._begin(int(event.name))

    def _begin(self, batch: int) -> None:
        """Does the work of the batch, unless it has begun already."""
        with self._lock:
            if batch <= self._batch:
                return
            result = Future[bool]()
            self._batch, self._result = batch, result
        try:
            result.set_result(self._work(batch))
        except BaseException as error:  # noqa: BLE001 - `result` raises it in the thread that Spark calls
            result.set_exception(error)
