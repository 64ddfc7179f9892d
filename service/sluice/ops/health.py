"""Whether the service lives, and whether it does its work: what `/healthz` and `/readyz` say."""

from __future__ import annotations

import time
from collections.abc import Callable

#: seconds without a look at the query after which something must be stuck
PATIENCE = 60.0


class Life:
    """Told by the loop that looks after the query, asked by the HTTP server."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._looked: float | None = None
        self._began = False

    def looked(self, *, began: bool) -> None:
        """The query runs; `began`: it has asked Kafka for records, and all that it needs was there."""
        self._looked = self._now()
        self._began = self._began or began

    def healthy(self) -> str | None:
        """What is wrong, if anything. To start may take its time: who waits for that knows how long."""
        if self._looked is None or self._now() - self._looked < PATIENCE:
            return None
        return f"Spark has not answered for {self._now() - self._looked:.0f} seconds"

    def ready(self) -> str | None:
        return self.healthy() or (None if self._began else "starting")
