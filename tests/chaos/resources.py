"""Memory, file descriptors, threads, and files of a service over a campaign, and whether they grow."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.recovery.harness.process_table import processes
from tests.recovery.harness.sluice_process import SluiceProcess

PAGE = os.sysconf("SC_PAGE_SIZE")


class Sample(NamedTuple):
    """Of all processes of the service together; `at` in seconds."""

    at: float
    memory_mb: float
    descriptors: int
    threads: int
    files: int


class Resources:
    def __init__(self, service: Callable[[], SluiceProcess], folder: Path) -> None:
        """`service` gives the instance that is the service now."""
        self._service, self._folder = service, folder
        self._samples: list[Sample] = []

    def look(self) -> None:
        service = self._service()
        if not service.running:
            return
        memory = descriptors = threads = 0
        for process in processes(service.pid):
            with suppress(OSError, ValueError, IndexError):
                proc = Path(f"/proc/{process.pid}")
                memory += int((proc / "statm").read_text().split()[1]) * PAGE
                threads += len(list((proc / "task").iterdir()))
                descriptors += len(list((proc / "fd").iterdir()))
        files = sum(len(names) for _, _, names in os.walk(self._folder))
        self._samples.append(Sample(time.monotonic(), memory / 1e6, descriptors, threads, files))

    @property
    def most_mb(self) -> float:
        """The most memory that all processes had together; pages that several share are counted for each."""
        return max((sample.memory_mb for sample in self._samples), default=0.0)

    def slopes(self) -> list[str]:
        """For each quantity its median in the first and the last third, and its growth an hour."""
        if len(self._samples) < 9:
            return ["Too few samples of memory, descriptors, threads and files."]
        third = len(self._samples) // 3
        rows = np.array(self._samples)
        lines = ["| quantity | first third | last third | growth an hour |", "| --- | --- | --- | --- |"]
        for number, name in enumerate(Sample._fields[1:], 1):
            first, last = np.median(rows[:third, number]), np.median(rows[-third:, number])
            slope = np.polyfit(rows[:, 0], rows[:, number], 1)[0] * 3600
            lines.append(f"| {name.replace('_', ' ')} | {first:,.0f} | {last:,.0f} | {slope:+,.0f} |")
        return lines
