"""Event times as a window counts them, in messages."""

from __future__ import annotations

import pytest

from sluice.engine.windows.event_time.event_ticks import Ticks
from sluice.model.spec import EventTime
from sluice.model.types import INT64
from sluice.model.windows.session_window import Session


@pytest.mark.parametrize(
    ("tick", "ticks", "text"),
    [
        (10**6, 1767261600300, "1767261600.3"),  # the nearest float64 is 1767261600.299999952
        (1, 9_200_000_000_123_456_789, "9200000000.123456789"),
        (10**9, 300, "300"),
        (10**6, -1500, "-1.5"),
    ],
)
def test_seconds_in_a_message_are_exact(tick: int, ticks: int, text: str):
    assert Ticks(EventTime("t", tick), INT64, Session(gap=10**9)).seconds(ticks) == text
