"""The examples of Flink's page of window functions and of Quix' page of windows, with the results given there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sluice.config.load import load_text
from sluice.replayer.player import replay

FILE = """
pipeline: published
streams:
  in: {{topic: in, schema: {schema}, event_time: {time}}}
  out: {{topic: out}}
operators:
  - {{name: window, aggregate: in, window: "{window}", {more}, output: {{out: {{{output}}}}}}}
"""


def rows(text: str, given: list[dict[str, Any]], last: str) -> Iterator[tuple[Any, ...]]:
    """What comes out for these tuples and a watermark behind all of them."""
    events: list[dict[str, Any]] = [{"at": float(n), "tuple": row} for n, row in enumerate(given)]
    events.append({"at": float(len(given)), "watermark": last})
    for record in replay(load_text(text, "published", environment=None), [{"stream": "in"} | one for one in events]):
        if "tuple" in record:
            yield tuple(record["tuple"].values())


# ---- Flink: TUMBLE, HOP, CUMULATE and SESSION of the table Bid ------------------------------------------------------

BIDS = [("08:05", "4.00", "C"), ("08:07", "2.00", "A"), ("08:09", "5.00", "D"), ("08:11", "3.00", "B"),
        ("08:13", "1.00", "E"), ("08:17", "6.00", "F")]  # fmt: skip
OF_PANES = {
    "timeInterval, intervalDuration(10m)": [("08:00", "08:10", "11.00"), ("08:10", "08:20", "10.00")],
    "timeInterval, intervalDuration(10m), intervalOffset(1m)": [
        ("08:01", "08:11", "11.00"), ("08:11", "08:21", "10.00"),
    ],
    "timeInterval, intervalDuration(10m), creationPeriod(5m)": [
        ("08:00", "08:10", "11.00"), ("08:05", "08:15", "15.00"), ("08:10", "08:20", "10.00"),
        ("08:15", "08:25", "6.00"),
    ],
    "cumulate, maximumDuration(10m), step(2m)": [
        ("08:00", "08:06", "4.00"), ("08:00", "08:08", "6.00"), ("08:00", "08:10", "11.00"), ("08:10", "08:12", "3.00"),
        ("08:10", "08:14", "4.00"), ("08:10", "08:16", "4.00"), ("08:10", "08:18", "10.00"),
        ("08:10", "08:20", "10.00"),
    ],
}  # fmt: skip
SESSIONS = [("08:07", "4.00", "A"), ("08:06", "2.00", "A"), ("08:09", "5.00", "B"), ("08:08", "3.00", "A"),
            ("08:17", "1.00", "B")]  # fmt: skip


def of_bids(bids: list[tuple[str, str, str]], window: str, output: str, more: str = "partition_by: []") -> list[Any]:
    schema = "{time: timestamp, price: decimal(2), item: string}"
    text = FILE.format(schema=schema, time="time", window=window, more=more, output=output)
    given = [{"time": f"2020-04-15T{time}:00Z", "price": price, "item": item} for time, price, item in bids]
    return list(rows(text, given, "2020-04-15T09:00:00Z"))


@pytest.mark.parametrize("window", OF_PANES)
def test_windows_of_flink(window: str):
    output = (
        """start: 'formatTime(intervalStart(), "%H:%M")', end: 'formatTime(intervalEnd(), "%H:%M")', p: Sum(price)"""
    )
    assert of_bids(BIDS, window, output) == OF_PANES[window]


def test_sessions_of_flink():
    """Flink's end of a session is its last tuple plus the gap."""
    output = """item: item, start: 'formatTime(sessionStart(), "%H:%M")',
      end: 'formatTime(addTime(sessionEnd(), 5, "minute"), "%H:%M")', p: Sum(price)"""
    found = of_bids(SESSIONS, "session, inactivityGap(5m)", output, "partition_by: [item]")
    assert sorted(found) == [
        ("A", "08:06", "08:13", "9.00"), ("B", "08:09", "08:14", "5.00"), ("B", "08:17", "08:22", "1.00"),
    ]  # fmt: skip


# ---- Quix: the event time is in milliseconds -------------------------------------------------------------------------

MILLISECONDS = "{attribute: t, resolution: milliseconds}"
OF_QUIX = {
    "tumbling, a result of each message": (
        "timeInterval, intervalDuration(1h)", "early: count(1)", "mean: Average(x)",
        [(30.0, 100), (29.0, 200), (28.0, 300)], [(30.0,), (29.5,), (29.0,)],
    ),
    "tumbling by count": (
        "tumbling, count(3)", "partition_by: []", "all: Collect(x), from: First(t), to: Last(t)",
        [(100.0, 121), (50.0, 165), (200.0, 583)], [([100.0, 50.0, 200.0], 121, 583)],
    ),
    "sliding by count": (
        "sliding, count(3), count(1)", "aggregate_incomplete_windows: false",
        "mean: Average(x), from: First(t), to: Last(t)",
        [(100.0, 121), (60.0, 165), (200.0, 583), (40.0, 723), (120.0, 1009), (80.0, 1242)],
        [(120.0, 121, 583), (100.0, 165, 723), (120.0, 583, 1009), (80.0, 723, 1242)],
    ),
    "sessions": (
        "session, inactivityGap(10s), grace(2s)", "partition_by: []", "all: Collect(x)",
        [(1.0, 0), (2.0, 10_000), (3.0, 25_000), (4.0, 30_000), (5.0, 45_000)],
        [([1.0, 2.0],), ([3.0, 4.0],), ([5.0],)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_QUIX)
def test_windows_of_quix(name: str):
    window, more, output, given, expected = OF_QUIX[name]
    text = FILE.format(schema="{x: float64, t: int64}", time=MILLISECONDS, window=window, more=more, output=output)
    found = list(rows(text, [{"x": x, "t": t} for x, t in given], "1970-01-01T01:00:00Z"))
    assert found[: len(expected)] == expected


def test_sliding_windows_of_quix():
    """Of an hour, both ends inside: by the clock, which is the timestamp of the record."""
    text = FILE.format(
        schema="{x: float64, t: int64}", time="null", window="sliding, time(1h), count(1)", more="partition_by: []",
        output="mean: Average(x)",
    )  # fmt: skip
    given = [(30.0, 3600.0), (29.0, 4800.0), (28.0, 4800.001), (27.0, 7200.0), (26.0, 7200.001)]
    events = [{"at": at, "stream": "in", "tuple": {"x": x, "t": 0}} for x, at in given]
    found = replay(load_text(text, "published", environment=None), events)
    assert [record["tuple"]["mean"] for record in found if "tuple" in record] == [30.0, 29.5, 29.0, 28.5, 27.5]
