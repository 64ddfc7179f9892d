"""Work on a copy of this process, which stays as it is now while the process goes on."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable

#: how far the copy stands back behind whoever wants to compute
NICE = 10


class Background:
    """At most one such copy. `fork` copies no memory but what either side changes meanwhile."""

    def __init__(self) -> None:
        self._pid = 0

    def start(self, work: Callable[[], None]) -> None:
        """`work` runs in the copy and must need no open file of this process, and no thread."""
        self._pid = os.fork()
        if not self._pid:
            _run(work)

    @property
    def busy(self) -> bool:
        return bool(self._pid)

    def wait(self) -> None:
        """Until the work is over."""
        if self._pid:
            os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)

    def ended(self) -> bool | None:
        """Whether the work succeeded; None while it goes on, or where nothing was started. Said once."""
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


def _run(work: Callable[[], None]) -> None:
    """Never returns, so nothing of what the process was about to do is done twice."""
    code = 1
    try:
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # else nobody who waits for this process to close them would hear
        os.nice(NICE)
        work()
        code = 0
    except BaseException:  # noqa: BLE001 - told, and in the exit code
        traceback.print_exc()
    finally:
        os._exit(code)
