"""Runs work in the background, in a forked copy of this process. The copy has the memory of the moment of the fork.

A bucket writes large snapshots this way, while this process handles the next batches.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import NoReturn

from sluice.processes import run_and_end

#: niceness of the copy: other processes get the CPU first
NICE = 10


class Background:
    """At most one forked copy at a time. `fork` copies only the memory pages that either process changes meanwhile."""

    def __init__(self) -> None:
        self._pid = 0

    def start(self, work: Callable[[], None]) -> None:
        """Runs `work` in a new copy. `work` must use neither open files nor threads of this process."""
        self._pid = os.fork()
        if not self._pid:
            _run(work)

    @property
    def busy(self) -> bool:
        return bool(self._pid)

    def wait(self) -> None:
        """Blocks until the work has ended. Does nothing if no work was started."""
        if self._pid:
            os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)

    def ended(self) -> bool | None:
        """Whether the work succeeded; None while it runs or if none was started. Each result is returned only once."""
        if not self._pid:
            return None
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if not pid:
            return None
        self._pid = 0
        return status == 0

    def stop(self) -> None:
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0


def _run(work: Callable[[], None]) -> NoReturn:
    """Runs `work` and exits, so the copy does not continue what the original process was doing."""

    def alone() -> None:
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # a copy that stays open would hide a close by the original
        os.nice(NICE)
        work()

    run_and_end(alone)
