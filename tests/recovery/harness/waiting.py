"""Waiting for something that a test can observe, with a bound."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

#: seconds that anything may take; a start alone takes ten on a quiet machine
PATIENCE = float(os.environ.get("SLUICE_TEST_PATIENCE", "240"))
INTERVAL = 0.05


def wait_until(
    happened: Callable[[], Any],
    what: str,
    seconds: float = PATIENCE,
    *,
    log: Callable[[], str] = str,
    interval: float = INTERVAL,
) -> Any:
    """The first true value of `happened`, which is called every `interval` seconds."""
    deadline = time.monotonic() + seconds
    while not (value := happened()):
        assert time.monotonic() < deadline, f"within {seconds:g} s: {what}\n{log()}"
        time.sleep(interval)
    return value


def last_seconds(duration: float) -> None:
    """Returns after `duration`, for tests of an outage of a certain length."""
    time.sleep(duration)
