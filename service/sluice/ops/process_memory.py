"""The memory of the service's processes: its own, Java, and Spark's Python processes with the state servers."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from sluice.processes import descendants

KILOBYTE = 1024


def memory_of_processes() -> dict[str, int]:
    """Bytes by kind of process: "service", "java" and "python". Empty on systems other than Linux.

    A page that several processes share counts in each of them by its share (Pss): the Python processes are forks of one
    process.
    """
    found: dict[str, int] = {}
    for number in [os.getpid(), *descendants(os.getpid())]:
        with suppress(OSError, ValueError):  # the process may end while its files are read
            process = Path("/proc", str(number))
            name = (process / "comm").read_text().strip()
            kind = "service" if number == os.getpid() else "java" if name == "java" else "python"
            found[kind] = found.get(kind, 0) + share(process)
    return found


def share(process: Path) -> int:
    """The proportional share of memory of a process, in bytes. `process` is its folder in /proc."""
    for line in (process / "smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * KILOBYTE
    return 0
