"""A sort over panes in front of other operators: no tuple that it holds is late for them (Q7, Q8)."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.columns.json_columns import python_values
from sluice.config.load import load_text
from sluice.model.spec import Pipeline
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import numbered
from sluice.replayer.player import Player
from tests.unit.replayer.test_player import everything

CHAIN = """
pipeline: chain
streams:
  in:
    topic: in
    schema: {{k: string, ts: float64, x: int64}}
    event_time: {{attribute: ts, lag: {lag}, minimum_gap: 0}}
  ordered: {{{ordered}}}
  out: {{topic: out}}
  dead: {{topic: dead}}
operators:
  - {{name: s, {sort}}}
  - {{name: r, {reader}}}
dead_letters: dead
"""
SORT = "sort: in, window: 'timeInterval, intervalDuration(5)', order_by: {ts: asc}, output: [ordered]"
PANES = (
    "aggregate: ordered, window: 'timeInterval, intervalDuration(10)', "
    "output: {out: {from: intervalStart(), all: Collect(x)}}"
)
JOIN = "join: {left: ordered, right: in}, equality_left: [x], equality_right: [x], output: {out: {x: left.x}}, "


def chain(reader: str = PANES, sort: str = SORT, lag: float = 0, ordered: str = "") -> Pipeline:
    text = CHAIN.format(reader=reader, sort=sort, lag=lag, ordered=ordered)
    return load_text(text, "chain.yaml", environment=None)


def outputs(of: Pipeline, times: list[float]) -> list[tuple[int, Any]]:
    """The tuples of the last operator, each with the number of the event that caused it. No tuple may be refused."""
    events = [{"at": n, "stream": "in", "tuple": {"k": "a", "ts": ts, "x": n}} for n, ts in enumerate(times)]
    records = everything(of, events)
    assert not [record for record in records if "dead_letter" in record]
    return [(r["after"], list(r["tuple"].values())) for r in records if "tuple" in r and r["stream"] == "out"]


def test_panes_behind_a_sort():
    """The pane [0, 10) has all three tuples, as the watermark behind the sort is 5 while it holds the tuple of 6."""
    assert outputs(chain(), [1.0, 3.0, 6.0, 11.0, 21.0, 31.0]) == [
        (3, [0.0, [0, 1, 2]]),
        (4, [10.0, [3]]),
        (5, [20.0, [4]]),
    ]


EVERY = [float(n) for n in range(30)]
READERS = {
    "panes of a second": (
        "aggregate: ordered, window: 'timeInterval, intervalDuration(1)', output: {out: {all: Collect(x)}}", 25,
    ),
    "a second sort": (
        "sort: ordered, window: 'timeInterval, intervalDuration(2)', order_by: {ts: asc}, output: [out]", 24,
    ),
    "a sort with a limit": (
        "sort: ordered, window: 'timeInterval, intervalDuration(2)', order_by: {ts: asc}, limit: 1, output: [out]", 12,
    ),
    "dedup": ("dedup: ordered, by: [x], within: eventTime(1), output: [out]", 25),
    "an interval join": (JOIN + "window: 'interval, before(0), after(0)'", 25),
    "an as-of join": (JOIN + "window: asOf", 25),
    "sessions": (
        "aggregate: ordered, window: 'session, inactivityGap(0.5)', output: {out: {n: Count()}}", 25,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("reader", "count"), READERS.values(), ids=READERS)
def test_no_tuple_of_a_sort_is_late_for_what_reads_it(reader: str, count: int):
    assert len(outputs(chain(reader), EVERY)) == count


@pytest.mark.parametrize(
    "window",
    [
        "timeInterval, intervalDuration(5), creationPeriod(2)", "timeInterval, intervalDuration(2), creationPeriod(5)",
        "timeInterval, intervalDuration(5), intervalOffset(3)", "timeInterval, intervalDuration(5), discardAge(7)",
        "timeInterval, intervalDuration(5), partitioned",
    ],
)  # fmt: skip
def test_no_tuple_of_any_panes_is_late(window: str):
    keys = "partition_by: [k], " if "partitioned" in window else ""
    sort = SORT.replace("timeInterval, intervalDuration(5)", window).replace("order_by", f"{keys}order_by")
    times = [100 + time + [0, 4, -3, 1, -1][n % 5] for n, time in enumerate(EVERY)]
    assert outputs(chain(PANES.replace("(10)", "(1)"), sort, lag=7), times)


def test_tuples_that_are_up_to_ten_seconds_late_are_all_counted():
    times = [n / 10 + (n * 7 % 10) for n in range(300)]
    reader = "aggregate: ordered, window: 'timeInterval, intervalDuration(1)', output: {out: {n: Count()}}"
    sort = SORT.replace("(5)", "(1)")
    counted = sum(row[0] for _, row in outputs(chain(reader, sort, lag=10), [*times, 100.0, 120.0, 140.0]))
    assert counted == 302


def test_the_watermarks_in_a_topic_are_those_that_are_held_back():
    of = chain(
        "aggregate: ordered, window: 'tumbling, count(1)', output: {out: {x: x}}",
        ordered="topic: ordered, watermarks: true",
    )
    events = [{"at": n, "stream": "in", "tuple": {"k": "a", "ts": ts, "x": n}} for n, ts in enumerate([1.0, 6.0, 11.0])]
    shown = [
        record["tuple"]["ts"] if "tuple" in record else record["watermark"][-3:]
        for record in everything(of, events)
        if record["stream"] == "ordered" and ("tuple" in record or "watermark" in record)
    ]
    assert shown == ["00Z", 1.0, "05Z", 6.0, "10Z"]


def test_the_maximum_watermark_still_comes_before_the_final_mark():
    """It completes the panes behind the sort (E36), whose own open pane is lost (O14, E37)."""
    events = [
        *({"at": n, "stream": "in", "tuple": {"k": "a", "ts": ts, "x": n}} for n, ts in enumerate([1.0, 6.0, 8.0])),
        {"at": 3, "stream": "in", "punct": "final"},
    ]
    records = everything(chain(), events)
    assert [(r["after"], r["tuple"]["all"]) for r in records if "tuple" in r] == [(3, [0])]


@pytest.mark.parametrize(
    "window",
    [
        "timeInterval, intervalDuration(5)",
        "timeInterval, intervalDuration(5), creationPeriod(2), discardAge(3)",
        "slidingTime, timeDifference(5), grace(2)",
    ],
)
def test_no_tuple_that_a_class_sends_again_is_late(window: str):
    again = f"custom: in, window: '{window}', handler: 'tests.spec.handler_classes:Again', output: [ordered]"
    assert len(outputs(chain(PANES.replace("(10)", "(1)"), again), [time + 100 for time in EVERY])) > 20


def test_a_stream_with_a_topic_of_several_partitions_has_the_watermarks_of_its_operator():
    """A service names the topic partitions of all streams, not of the inputs alone."""
    of = chain(ordered="topic: ordered")
    events = [{"at": n, "stream": "in", "tuple": {"k": "a", "ts": ts, "x": n}} for n, ts in enumerate([1.0, 6.0, 11.0])]
    player = Player(of, {"in": 1, "ordered": 4, "out": 4, "dead": 1}, python_values)
    state = player.graph.initial()
    for batch in Cutter(of.inputs).batches(list(numbered(events)), 1):
        list(player.feed(state, batch))
    again = player.graph.load(player.graph.save(state))
    assert player.graph.watermarks(again)["ordered"] == 10 * 10**9
