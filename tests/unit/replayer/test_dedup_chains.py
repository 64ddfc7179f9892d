"""A dedup between other operators: what its marks and watermarks do behind it."""

from __future__ import annotations

from typing import Any

from sluice.config.load import load_text
from sluice.replayer.player import replay

CHAIN = """
pipeline: chain
streams:
  in: {{topic: in, schema: {{id: string, ts: float64}}, event_time: {{attribute: ts{lag}}}, marks_in: topic_partition}}
  unique: {{}}
  out: {{topic: out}}
operators:
  - {{name: d, dedup: in, by: [id], within: {within}, keep: {keep}, output: [unique]}}
  - {{name: a, aggregate: unique, window: "{window}", output: {{out: {{all: Collect(id), n: Count()}}}}}}
"""


def outputs(events: list[dict[str, Any]], **of: str) -> list[tuple[int, Any]]:
    records = list(replay(load_text(CHAIN.format(**of), "chain", environment=None), events))
    assert not [record for record in records if "dead_letter" in record]
    return [(record["after"], record["tuple"]["all"]) for record in records if "tuple" in record]


def test_no_tuple_of_a_dedup_is_late_for_a_window_behind_it():
    """The tuple of 101 is stored until the watermark 111, which closes panes of 1 s up to 101 only."""
    events = [{"at": float(n), "tuple": {"id": name, "ts": ts}} for n, (name, ts) in enumerate(
        [("a", 101.0), ("b", 105.0), ("c", 111.0), ("d", 114.5), ("e", 130.0)]
    )]  # fmt: skip
    found = outputs(
        events, within="eventTime(10)", keep="last", lag=", lag: 0", window="timeInterval, intervalDuration(1)"
    )
    assert found == [(3, ["a"]), (4, ["b"]), (4, ["c"]), (4, ["d"])]


def test_marks_that_pass_a_dedup_close_a_window():
    """The duplicate of a comes after the mark, so the second window has b alone."""
    events = [
        {"at": 0, "tuple": {"id": "a", "ts": 1.0}}, {"at": 1, "punct": "window"},
        {"at": 2, "tuple": {"id": "a", "ts": 2.0}},
        {"at": 3, "tuple": {"id": "b", "ts": 3.0}}, {"at": 4, "punct": "window"},
    ]  # fmt: skip
    assert outputs(events, within="time(10)", keep="first", lag="", window="tumbling, punct()") == [
        (1, ["a"]),
        (4, ["b"]),
    ]


def test_a_stored_tuple_belongs_to_the_topic_partition_that_sent_it():
    """It is emitted at 10, behind the first mark of its topic partition and before the second one."""
    events = [
        {"at": 0, "tuple": {"id": "a", "ts": 1.0}, "topic_partition": 1},
        {"at": 5, "punct": "window", "topic_partition": 1},
        {"at": 11, "punct": "window", "topic_partition": 0}, {"at": 12, "punct": "window", "topic_partition": 1},
    ]  # fmt: skip
    assert outputs(events, within="time(10)", keep="last", lag="", window="tumbling, punct()") == [(3, ["a"])]
