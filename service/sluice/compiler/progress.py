"""Reports the compilation of kernels, because it takes long and happens once per installation."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from numba.core.event import Event, Listener, register, unregister

#: seconds of compilation before the first line, and between two lines
FIRST, BETWEEN = 1.0, 10.0


class Reporter(Listener):
    """Logs a line when compilation has taken FIRST seconds, another line each BETWEEN seconds, and one at the end.

    numba reports each function that it compiles, and none that it loads from the cache.
    """

    def __init__(self, log: Callable[[str], object], now: Callable[[], float] = time.monotonic) -> None:
        self._log, self._now = log, now
        self._count = 0
        self._started = self._next = 0.0
        self._lines = 0

    def on_start(self, event: Event) -> None:
        if not self._started:
            self._started = self._now()
            self._next = self._started + FIRST
        self._line_if_due()

    def on_end(self, event: Event) -> None:
        self._count += 1
        self._line_if_due()

    def _line_if_due(self) -> None:
        now = self._now()
        if now < self._next:
            return
        if self._lines == 0:
            self._log("compiling kernels for this machine, once per installation; it takes up to a minute")
        else:
            self._log(f"{self._count} functions compiled in {now - self._started:.0f} s")
        self._lines += 1
        self._next = now + BETWEEN

    def finish(self) -> None:
        if self._lines:
            self._log(f"compiled {self._count} functions in {self._now() - self._started:.0f} s")


def to_stderr(text: str) -> None:
    sys.stderr.write(f"sluice: {text}\n")


@contextmanager
def reported(log: Callable[[str], object] = to_stderr) -> Iterator[None]:
    """Reports what is compiled inside the context: `log` is called with each line."""
    reporter = Reporter(log)
    register("numba:compile", reporter)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        unregister("numba:compile", reporter)  # type: ignore[no-untyped-call]
        reporter.finish()
