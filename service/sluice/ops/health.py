"""Whether the service lives, and whether it does its work: the answers of `/healthz` and `/readyz`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

#: seconds without a look at the queries after which Spark counts as hung
PATIENCE = 60.0
#: seconds after which a batch in hand counts as hung; a first batch may compile kernels for minutes
BATCH = 300.0
#: environment variable that sets another number in place of BATCH
BATCH_VARIABLE = "SLUICE_BATCH_SECONDS"


class Health:
    """The loop that looks after the queries reports to it; the HTTP server reads it."""

    def __init__(self, now: Callable[[], float] = time.monotonic, bound: float | None = None) -> None:
        """`bound` is the number of seconds after which a batch in hand counts as hung."""
        self._now = now
        self._bound = float(os.environ.get(BATCH_VARIABLE, BATCH)) if bound is None else bound
        self._looked: float | None = None
        self._began = False
        self._batch = 0.0

    def looked(self, *, began: bool, batch: float = 0.0) -> None:
        """The queries run.

        began   each has asked Kafka for records, and all that it needs was there
        batch   seconds for which the oldest batch in hand has been running
        """
        self._looked = self._now()
        self._began = self._began or began
        self._batch = batch

    def healthy(self) -> str | None:
        """What is wrong, if anything. Before the first look the service starts, which may take any time."""
        if self._looked is None:
            return None
        silent = self._now() - self._looked
        if silent >= PATIENCE:
            return f"Spark has not answered for {silent:.0f} seconds"
        if self._batch and self._batch + silent > self._bound:
            return f"a batch has been running for {self._batch + silent:.0f} seconds, more than {self._bound:.0f}"
        return None

    def ready(self) -> str | None:
        return self.healthy() or (None if self._began else "starting")
