"""Reads the metrics of a service that runs on this machine."""

from __future__ import annotations

import time
from urllib.request import urlopen

from benchmarks.metric_samples import Reading, parsed


def scraped(port: int) -> Reading:
    """The metrics that the service shows on this port now. Raises OSError if it does not answer."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return Reading(time.monotonic(), parsed(answer.read().decode()))
