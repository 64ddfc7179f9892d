"""Peak memory and processor time of a program and of all processes that it starts, read from /proc."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from benchmarks.running import tree

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
        memory = 0
        for pid in tree(self._pid):
            try:
                memory += _pss(pid)
                self._seconds[pid] = _cpu_seconds(pid)
            except (OSError, StopIteration):  # the process has ended
                continue
        self.peak = max(self.peak, memory)


def _pss(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _cpu_seconds(pid: int) -> float:
    # The name of the program, in parentheses, may have blanks; utime and stime are fields 14 and 15 of proc(5).
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
