"""Times and durations as texts of the page."""

from __future__ import annotations

import pytest

from sluice.page.times import duration, from_seconds, moment


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0, "0 s"), (0.0123, "0.0123 s"), (1.5, "1.5 s"), (59.0, "59 s"), (60.0, "1 min"), (245.0, "4 min 5 s"),
        (3599.0, "59 min 59 s"), (3599.7, "1 h"), (12_000.0, "3 h 20 min"), (86_399.7, "1 d"), (187_200.0, "2 d 4 h"),
        (-90.0, "-1 min 30 s"),
    ],
)  # fmt: skip
def test_a_duration_has_its_two_largest_units(seconds: float, expected: str):
    assert duration(seconds) == expected


def test_a_time_in_seconds_is_shown_with_its_own_milliseconds():
    start = 1_714_557_600_000
    shown = [moment(from_seconds((start + milliseconds) / 1000)) for milliseconds in range(1, 1000)]
    assert shown == [f"2024-05-01 10:00:00.{milliseconds:03}" for milliseconds in range(1, 1000)]
