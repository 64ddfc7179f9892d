"""What machine a figure comes from."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from sluice.processes import processors


def busy() -> str:
    """How busy the machine was, by whatever ran on it."""
    return f"load of the machine in the last 15 minutes {os.getloadavg()[2]:.1f}"


def machine() -> str:
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    total = int(Path("/proc/meminfo").read_text().split()[1]) // 1_000_000
    software = f"Python {platform.python_version()}, {platform.system()}"
    return f"{processors()} cores of {model}, {total} GB of memory, {software}"
