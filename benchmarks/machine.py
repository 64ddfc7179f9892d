"""What machine a figure comes from."""

from __future__ import annotations

import platform
from pathlib import Path

from sluice.processes import processors


def machine() -> str:
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    total = int(Path("/proc/meminfo").read_text().split()[1]) // 1_000_000
    software = f"Python {platform.python_version()}, {platform.system()}"
    return f"{processors()} cores of {model}, {total} GB of memory, {software}"
