"""Topic partitions that send nothing: idle_after says for how long they hold the watermark back."""

from __future__ import annotations

import pytest

from sluice.config.load import load_text
from tests.unit.replayer.test_player import briefly, everything

FILE = """
pipeline: idle
streams:
  in: {topic: in, schema: {x: int64, t: float64}, event_time: {attribute: t, idle_after: 3}}
  out: {topic: out}
operators:
  - name: panes
    aggregate: in
    window: timeInterval, intervalDuration(10)
    output: {out: {xs: Collect(x)}}
"""


def row(at, x, t, source):
    return {"at": at, "tuple": {"x": x, "t": t}, "topic_partition": source}


def mark(at, t, source):
    return {"at": at, "watermark": t, "topic_partition": source}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param(
            [row(0, 1, 5, 0), row(0, 2, 6, 1), mark(1, 10, 0), {"at": 2.9}],
            [],
            id="one that sent something lately holds the watermark back",
        ),
        pytest.param(
            [row(0, 1, 5, 0), row(0, 2, 6, 1), mark(1, 10, 0), {"at": 3}],
            ["3 out [1, 2]", "3 out window"],
            id="not once it is idle",
        ),
        pytest.param(
            [row(0, 1, 5, 0), mark(1, 10, 0), row(2.5, 3, 7, 1), {"at": 5.4}, row(5.4, 4, 8, 0), {"at": 5.5}],
            ["5 out [1, 3, 4]", "5 out window"],
            id="what it sends lets the time begin anew",
        ),
        pytest.param(
            [row(0, 1, 5, 0), mark(0, 10, 0), row(0, 2, 6, 1), {"at": 3}],
            ["3 out [1, 2]", "3 out window"],
            id="where all are idle, the greatest watermark counts",
        ),
    ],
)
def test_idle_topic_partitions(events, expected):
    assert briefly(everything(load_text(FILE, "idle"), events)) == expected
