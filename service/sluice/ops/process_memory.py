"""The memory of the service's processes: its own, Java, and Spark's Python processes with the state servers."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from sluice.processes import descendants

KILOBYTE = 1024
#: the files with the limit of the container, in bytes, of the two versions of Linux's control groups
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


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


def memory_limit(limits: Iterable[Path] = LIMITS) -> int:
    """The bytes that the processes of this container may use; without a limit, the memory of the machine."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    found = [machine]
    for file in limits:
        with suppress(OSError, ValueError):  # there is no such file, or it says "max"
            found.append(int(file.read_text()))
    return min(found)


def share(process: Path) -> int:
    """The proportional share of memory of a process, in bytes. `process` is its folder in /proc."""
    for line in (process / "smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * KILOBYTE
    return 0
