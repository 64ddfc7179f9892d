"""Health of the service: whether it is alive (`/healthz`), and whether it processes records (`/readyz`)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

#: seconds without a report on the queries after which Spark counts as hung
REPORT_TIMEOUT_S = 60.0
#: seconds after which a running batch counts as hung; the first batch may compile kernels for minutes
BATCH_TIMEOUT_S = 300.0
#: name of an environment variable whose number of seconds replaces BATCH_TIMEOUT_S
BATCH_VARIABLE = "SLUICE_BATCH_SECONDS"


class Health:
    """The health of the service.

    The loop that watches the queries reports to it (`report`); the HTTP server reads it (`healthy`, `ready`).
    """

    def __init__(self, now: Callable[[], float] = time.monotonic, bound: float | None = None) -> None:
        """`bound` is the number of seconds after which a running batch counts as hung."""
        self._now = now
        self._bound = float(os.environ.get(BATCH_VARIABLE, BATCH_TIMEOUT_S)) if bound is None else bound
        self._reported: float | None = None
        self._began = False
        self._batch = 0.0

    def report(self, *, began: bool, batch: float = 0.0) -> None:
        """Reports that all queries are running.

        began   whether each query has finished a batch, or has found that there are no records yet
        batch   seconds for which the oldest running batch has been running; 0 if none runs
        """
        self._reported = self._now()
        self._began = self._began or began
        self._batch = batch

    def running(self) -> tuple[float, float]:
        """Seconds for which the oldest running batch runs (0 if none runs), and the seconds after which it is hung."""
        if not self._batch or self._reported is None:
            return 0.0, self._bound
        return self._batch + self._now() - self._reported, self._bound

    def healthy(self) -> str | None:
        """What is wrong, as a text; None if nothing is. Before the first report nothing is wrong: a start may take any
        time.
        """
        if self._reported is None:
            return None
        silent = self._now() - self._reported
        if silent >= REPORT_TIMEOUT_S:
            return f"Spark has not answered for {silent:.0f} seconds"
        batch, bound = self.running()
        if batch > bound:
            return f"a batch has been running for {batch:.0f} seconds, more than {bound:.0f}"
        return None

    def ready(self) -> str | None:
        return self.healthy() or (None if self._began else "starting")
