"""Published examples of Flink, Quix, ksqlDB and Kafka Streams, with the results given there."""

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


# ---- ksqlDB (EMIT FINAL) and Kafka Streams: a grace period is a lag, and a discardAge of the size of the window ------

OF_KSQL = {
    "out of order within the grace period": (
        "intervalDuration(2ms), discardAge(2ms)", "1ms", [("a", t) for t in (0, 1, 2, 1, 0, 5, 0)],
        [("a", 0, 4), ("a", 2, 1)],
    ),
    "a large jump": (
        "intervalDuration(2ms), discardAge(2ms)", "2ms", [("a", t) for t in (0, 1, 2, 0, 3, 0, 4, 0, 30)],
        [("a", 0, 4), ("a", 2, 2), ("a", 4, 1)],
    ),
    "several keys": (
        "intervalDuration(2ms), discardAge(2ms)", "1ms",
        [("a", 0), ("b", 1), ("a", 2), ("a", 1), ("b", 0), ("a", 5), ("a", 0), ("b", 2)],
        [("a", 0, 2), ("b", 0, 2), ("a", 2, 1)],
    ),
    "hopping windows": (
        "intervalDuration(5ms), creationPeriod(2ms), discardAge(5ms)", "1ms",
        [("a", t) for t in (0, 1, 2, 1, 6, 5, 10)], [("a", 0, 4), ("a", 2, 3), ("a", 4, 2)],
    ),
    "Kafka Streams: suppress until the window closes": (
        "intervalDuration(2ms), discardAge(2ms)", "2ms",
        [("a", 10), ("a", 11), ("a", 12), ("foo", 13), ("a", 11), ("foo", 14)], [("a", 10, 3)],
    ),
}  # fmt: skip


def of_milliseconds(window: str, more: str, output: str, given: list[tuple[str, int]], lag: str) -> list[Any]:
    time = f"{{attribute: t, resolution: milliseconds, lag: {lag}, minimum_gap: 0}}"
    text = FILE.format(schema="{k: string, t: int64}", time=time, window=window, more=more, output=output)
    return list(rows(text, [{"k": k, "t": t} for k, t in given], "1970-01-01T01:00:00Z"))


@pytest.mark.parametrize("name", OF_KSQL)
def test_windows_of_ksql(name: str):
    """Of a window that got a later tuple, ksqlDB has the first result alone."""
    sizes, lag, given, expected = OF_KSQL[name]
    output = "k: k, start: intervalStart(), n: Count(), timing: paneTiming()"
    found = of_milliseconds(f"timeInterval, {sizes}, partitioned", "partition_by: [k]", output, given, lag)
    assert [row for *row, timing in found if timing == "paneOnComplete"] == [list(row) for row in expected]


def test_sessions_of_ksql():
    """Clicks by address: each click gives the session so far; ksqlDB deletes the one before with a null."""
    minutes = [("51", 0), ("51", 60), ("53", 91), ("51", 96), ("53", 120), ("51", 3801), ("51", 3830), ("53", 6000),
               ("53", 6009)]  # fmt: skip
    output = "k: k, start: sessionStart(), end: sessionEnd(), n: Count()"
    given = [(k, 1_563_444_000_000 + 1000 * t) for k, t in minutes]
    found = of_milliseconds("session, inactivityGap(5m)", "partition_by: [k], emit: updates", output, given, "0")
    assert [(k, (start - given[0][1]) // 1000, (end - start) // 1000, n) for k, start, end, n in found] == [
        ("51", 0, 0, 1), ("51", 0, 60, 2), ("53", 91, 0, 1), ("51", 0, 96, 3), ("53", 91, 29, 2), ("51", 3801, 0, 1),
        ("51", 3801, 29, 2), ("53", 6000, 0, 1), ("53", 6000, 9, 2),
    ]  # fmt: skip


def test_sliding_windows_of_kafka_streams():
    """The windows of the documentation of SlidingWindows, whose ends are inside. The last tuple closes them."""
    output = "start: intervalStart(), end: intervalEnd(), all: Collect(t)"
    given = [("A", 8000), ("A", 9200), ("A", 12400), ("A", 30000)]
    found = of_milliseconds("slidingTime, timeDifference(5s)", "partition_by: [k]", output, given, "0")
    assert found == [
        (3000, 8000, [8000]), (4200, 9200, [8000, 9200]), (7400, 12400, [8000, 9200, 12400]),
        (8001, 13001, [9200, 12400]), (9201, 14201, [12400]),
    ]  # fmt: skip


RATINGS = [("Die Hard", "09T01:00", 8.2), ("Lebowski", "09T02:00", 4.2), ("Die Hard", "09T05:00", 4.5),
           ("Lebowski", "09T06:30", 9.9), ("Die Hard", "09T07:00", 5.1), ("Tree of Life", "09T08:00", 5.6),
           ("Tree of Life", "09T09:00", 4.9), ("Clouds", "09T12:00", 3.6), ("Clouds", "09T15:00", 6.0),
           ("Mario", "09T18:30", 3.5), ("Clouds", "10T01:00", 4.6)]  # fmt: skip


def test_ratings_by_six_hours():
    """Confluent's tutorial of tumbling windows; its last window is open."""
    text = FILE.format(
        schema="{title: string, rating: float64, time: timestamp}", time="{attribute: time, lag: 0}",
        window="timeInterval, intervalDuration(6h), partitioned", more="partition_by: [title]",
        output="hour: hour(intervalStart()), title: title, n: Count(), mean: 'round(Average(rating), 2)'",
    )  # fmt: skip
    given = [{"title": title, "rating": rating, "time": f"2023-07-{time}:00Z"} for title, time, rating in RATINGS]
    assert list(rows(text, given, "2023-07-10T01:00:00Z")) == [
        (0, "Die Hard", 2, 6.35), (0, "Lebowski", 1, 4.2), (6, "Die Hard", 1, 5.1), (6, "Lebowski", 1, 9.9),
        (6, "Tree of Life", 2, 5.25), (12, "Clouds", 2, 4.8), (18, "Mario", 1, 3.5),
    ]  # fmt: skip
