"""Peak memory and processor time of a program and of all processes that it starts, read from /proc."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from sluice.ops.exposition import share
from sluice.processes import descendants

TICKS = os.sysconf("SC_CLK_TCK")
#: seconds between two readings; a process that lives shorter is not counted
EVERY = 1.0


class Usage:
    """Reads the figures of a process tree from the start until `stop`.

    peak   largest sum of the memory of all processes, bytes; a page that several share is counted once (PSS)
    cpu    processor seconds of all processes, user and system
    """

    def __init__(self, pid: int) -> None:
        self.peak = 0
        self._seconds: dict[int, float] = {}
        self._pid = pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def cpu(self) -> float:
        return sum(self._seconds.values())

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self._read()
            if self._over.wait(EVERY):
                self._read()
                return

    def _read(self) -> None:
        together = 0
        for pid in tree(self._pid):
            with suppress(OSError):  # the process has ended
                together += memory(pid)
                self._seconds[pid] = cpu_seconds(pid)
        self.peak = max(self.peak, together)


def tree(root: int) -> list[int]:
    """The process and all that it has started and that still run."""
    return [root, *descendants(root)]


def memory(pid: int) -> int:
    """Bytes of memory of a process. Raises OSError if it has ended."""
    return share(Path("/proc", str(pid)))


def cpu_seconds(pid: int, *, ended_children: bool = False) -> float:
    """Processor seconds of a process, user and system; with `ended_children` also those of children that have ended.

    Raises OSError if the process has ended.
    """
    # The name of the program, in parentheses, may have blanks; utime, stime and those of children begin at field 14 of
    # proc(5).
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11 : 15 if ended_children else 13])) / TICKS
