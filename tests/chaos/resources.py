"""Memory, file descriptors, threads, and files of a service over a campaign, and whether they grow.

The memory is that which a leak would show: what Java's heap holds after a collection, what Java has beside it, and what
the Python processes have beside the contents of files, where pages that forked processes share count once.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.recovery.harness.java_memory import java_memory
from tests.recovery.harness.process_table import Process

#: seconds between two samples, and seconds after its start in which a service loads code and fills its buffers
INTERVAL_S, WARM_S = 10.0, 30.0
#: pools of Spark's block managers: each task of one starts a thread until there are 100, and they end when none comes
POOLS = "block-manager-"
#: the share of a process in the pages of memory that it has beside the contents of files
OWN = re.compile(r"^Pss_Anon: +(\d+) kB", re.MULTILINE)


class Sample(NamedTuple):
    """Of all processes of the service together; `at` in seconds, memory in MB."""

    at: float
    java_heap_after_a_collection: float
    java_beside_its_heap: float
    python: float
    descriptors: int
    threads: int
    files: int


#: quantity -> by how much and by which share of the first third the last third may be above it in a flat run
FLAT = {
    "java_heap_after_a_collection": (40.0, 0.25), "java_beside_its_heap": (60.0, 0.25), "python": (100.0, 0.25),
    "descriptors": (60.0, 0.25), "threads": (20.0, 0.25), "files": (40.0, 0.25),
}  # fmt: skip


class Resources:
    def __init__(
        self, listed: Callable[[], Sequence[Process]], folder: Path, now: Callable[[], float] = time.monotonic
    ) -> None:
        """`listed` gives the processes of the service, the first of which is `sluice run`; none if it does not run."""
        self._listed, self._folder, self._now = listed, folder, now
        self._samples: list[Sample] = []
        self._due, self._begun = now(), (0, now())
        #: the most memory that all processes had together, in MB
        self.most_mb = 0.0

    def look(self) -> None:
        """Takes a sample when one is due, of a service that is warm."""
        processes, now = self._listed(), self._now()
        if not processes:
            return
        if processes[0].pid != self._begun[0]:
            self._begun = processes[0].pid, now
        if now >= self._due:
            self._due = now + INTERVAL_S
            own = {process.pid: _own(process.pid) for process in processes}
            self.most_mb = max(self.most_mb, sum(own.values()) / 1e6)
            if now - self._begun[1] >= WARM_S:
                with suppress(OSError):  # a Java that is stopped or has ended
                    self._samples.append(self._sample(now, processes, own))

    def _sample(self, now: float, processes: Sequence[Process], own: dict[int, int]) -> Sample:
        javas = [process.pid for process in processes if process.arguments[0].endswith("java")]
        memory = [java_memory(pid) for pid in javas]
        python = sum(size for pid, size in own.items() if pid not in javas)
        files = sum(len(names) for _, _, names in os.walk(self._folder))
        open_files = sum(_count(process.pid) for process in processes)
        threads = sum(_threads(process.pid) for process in processes)
        live, beside = (sum(sizes) / 1e6 for sizes in zip(*memory, strict=True)) if memory else (0.0, 0.0)
        return Sample(now, live, beside, python / 1e6, open_files, threads, files)

    def add(self, sample: Sample) -> None:
        self._samples.append(sample)

    def grown(self) -> list[str]:
        """The quantities that are not flat over the samples."""
        return [] if len(self._samples) < 9 else [line for line, flat in self._rows() if not flat]

    def slopes(self) -> list[str]:
        """For each quantity its median in the first and the last third, and its growth an hour."""
        if len(self._samples) < 9:
            return ["Too few samples of memory, descriptors, threads and files."]
        head = ["| quantity | first third | last third | growth an hour |", "| --- | --- | --- | --- |"]
        return [*head, *(line for line, _ in self._rows())]

    def _rows(self) -> list[tuple[str, bool]]:
        """A line for each quantity, and whether it is flat."""
        third, rows, lines = len(self._samples) // 3, np.array(self._samples), []
        for number, name in enumerate(Sample._fields[1:], 1):
            first, last = np.median(rows[:third, number]), np.median(rows[-third:, number])
            slope = np.polyfit(rows[:, 0], rows[:, number], 1)[0] * 3600
            unit = ", MB" if number <= 3 else ""
            line = f"| {name.replace('_', ' ')}{unit} | {first:,.0f} | {last:,.0f} | {slope:+,.0f} |"
            lines.append((line, bool(last <= first + max(FLAT[name][0], FLAT[name][1] * first))))
        return lines


def _own(pid: int) -> int:
    """Bytes of memory of a process beside the contents of files; 0 if it has ended."""
    with suppress(OSError):
        if size := OWN.search(Path(f"/proc/{pid}/smaps_rollup").read_text()):
            return int(size[1]) * 1024
    return 0


def _count(pid: int) -> int:
    """Open file descriptors; 0 if the process has ended."""
    with suppress(OSError):
        return len([*Path(f"/proc/{pid}/fd").iterdir()])
    return 0


def _threads(pid: int) -> int:
    """Threads without those of POOLS; 0 if the process has ended."""
    with suppress(OSError):
        return sum(not _name(task).startswith(POOLS) for task in Path(f"/proc/{pid}/task").iterdir())
    return 0


def _name(task: Path) -> str:
    """The first 15 bytes of the name of a thread; empty if it has ended."""
    with suppress(OSError):
        return (task / "comm").read_text()
    return ""
