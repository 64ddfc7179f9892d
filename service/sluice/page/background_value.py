"""A value that a thread reads on request. The page waits a short time for it, and else shows the value before."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")
LOGGER = logging.getLogger("sluice.page")


class Aged(NamedTuple, Generic[T]):
    """A value, its age in seconds, and whether the reading of a newer one has not ended in time."""

    value: T | None
    age: float
    pending: bool


class Refreshed(Generic[T]):
    """The value that `read` returns. It is read only when `get` is called, and at most once at a time."""

    def __init__(
        self, read: Callable[[], T], *, fresh_s: float, wait_s: float, now: Callable[[], float] = time.monotonic
    ) -> None:
        """A value younger than `fresh_s` seconds is not read again. `get` waits at most `wait_s` for a new one."""
        self._read, self._fresh_s, self._patience_s, self._now = read, fresh_s, wait_s, now
        self._lock = threading.Lock()
        self._value: T | None = None
        self._at: float | None = None
        self._reading: threading.Thread | None = None

    def get(self) -> Aged[T]:
        """The newest value that is there in time."""
        with self._lock:
            fresh = self._at is not None and self._now() - self._at < self._fresh_s
            if not fresh and (self._reading is None or not self._reading.is_alive()):
                self._reading = threading.Thread(target=self._run, name="sluice-page-reader", daemon=True)
                self._reading.start()
            reading = self._reading
        if not fresh and reading is not None:
            reading.join(self._patience_s)
        with self._lock:
            age = 0.0 if self._at is None else self._now() - self._at
            return Aged(self._value, age, not fresh and reading is not None and reading.is_alive())

    def _run(self) -> None:
        try:
            value = self._read()
        except Exception:  # whatever fails: the page shows the value before, and the service goes on
            LOGGER.debug("the page could not read", exc_info=True)
            return
        with self._lock:
            self._value, self._at = value, self._now()
