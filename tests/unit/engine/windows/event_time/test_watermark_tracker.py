"""Watermarks go on through joins and sorts, so that windows over event time may stand behind them (E2, E4, E6)."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.config.load import load_text
from sluice.model.spreading import spread_by
from tests.unit.replayer.test_player import briefly, everything, pipeline

Record = dict[str, Any]

JOINED = """
pipeline: joined
streams:
  left: {topic: left, schema: {k: string, t: float64}, event_time: t}
  right: {topic: right, schema: {k: string, x: int64%s}%s}
  pairs: {}
  counts: {topic: counts}
operators:
  - name: join
    join: {left: left, right: right}
    window_left: sliding, count(9)
    window_right: sliding, count(9)
    equality_left: [k]
    equality_right: [k]
    output: {pairs: {k: left.k, t: left.t, x: right.x}}
  - name: count
    aggregate: pairs
    window: timeInterval, intervalDuration(10)
    output: {counts: {from: intervalStart(), xs: Collect(x)}}
"""
BOTH = JOINED % (", t: float64", ", event_time: t")
LEFT_ONLY = JOINED % ("", "")


def left(t: float) -> Record:
    return {"stream": "left", "tuple": {"k": "a", "t": t}}


def right(x: int, **more: float) -> Record:
    return {"stream": "right", "tuple": {"k": "a", "x": x} | more}


def watermark(stream: str, time: float, topic_partition: int = 0) -> Record:
    return {"stream": stream, "watermark": time, "topic_partition": topic_partition}


def events(*given: Record) -> list[Record]:
    return [{"at": at} | event for at, event in enumerate(given)]


def test_the_watermark_of_a_join_is_the_lesser_of_both_sides():
    given = events(
        left(15), right(1, t=15), watermark("left", 20), watermark("right", 19), watermark("right", 25), left(26),
        watermark("left", 40), watermark("right", 30),
    )  # fmt: skip
    assert briefly(everything(pipeline(BOTH), given)) == [
        "4 counts 10.0 [1]", "4 counts window", "7 counts 20.0 [1]", "7 counts window",
    ]  # fmt: skip


def test_a_side_without_event_time_holds_no_watermark_back():
    given = events(left(15), right(1), watermark("left", 20))
    assert briefly(everything(pipeline(LEFT_ONLY), given)) == ["2 counts 10.0 [1]", "2 counts window"]


def test_a_join_that_becomes_final_completes_the_panes_behind_it():
    """E36; and E38: not before both sides are final."""
    given = events(
        left(15), right(1, t=15), {"stream": "left", "punct": "final"}, watermark("right", 99),
        {"stream": "right", "punct": "final"},
    )  # fmt: skip
    assert briefly(everything(pipeline(BOTH), given)) == ["4 counts 10.0 [1]", "4 counts window", "4 counts final"]


ENDS = """
pipeline: ends
streams:
  one: {topic: one, schema: {x: int64, t: float64}, event_time: t}
  two: {topic: two, schema: {x: int64, t: float64}, event_time: t}
  passed: {}
  counts: {topic: counts, watermarks: true}
operators:
  - {name: pass, map: one, output: [passed]}
  - name: count
    aggregate: %s
    window: timeInterval, intervalDuration(10)
    output: {counts: {t: intervalLast(), xs: Collect(x)}}
"""


def at_the_end(read: str) -> list[Any]:
    """What comes out at the final marks, of an open pane with a tuple of each input."""
    of = pipeline(ENDS % read)
    inputs = [stream.name for stream in of.inputs]
    given = events(
        *({"stream": name, "tuple": {"x": 1, "t": 15.0}} for name in inputs),
        *({"stream": name, "punct": "final"} for name in inputs),
    )
    records = everything(of, given)
    return [r.get("watermark") or r.get("punct") or r["tuple"]["xs"] for r in records if r["stream"] == "counts"]


LAST = "2262-04-11T23:47:16.854775807Z"


@pytest.mark.parametrize(
    ("read", "pane"),
    [
        ("one", []),
        ("passed", [[1], "window"]),
        ("[one, two]", []),  # R2: as the topic partitions of one topic, which complete no pane
        ("[passed, two]", []),  # R3: the least of both watermarks
    ],
)
def test_final_marks_complete_a_pane_only_behind_an_operator(read: str, pane: list[Any]):
    """E36, E37. The window itself sends the maximum watermark, once, before its final mark."""
    assert at_the_end(read) == [*pane, LAST, "final"]


def test_sides_with_different_event_times_hand_none_on():
    other = BOTH.replace("event_time: t}\n  pairs", "event_time: x}\n  pairs")
    streams = load_text(other.partition("  - name: count")[0], "p", environment=None).streams
    assert streams["right"].event_time is not None
    assert streams["pairs"].event_time is None


SORTED = """
pipeline: sorted
streams:
  numbers: {topic: numbers, schema: {k: string, x: int64, t: float64}, event_time: t}
  sorted: {}
  counts: {topic: counts}
operators:
  - {name: sort, sort: numbers, window: "%s", order_by: {x: asc}, output: [sorted]}
  - name: count
    aggregate: sorted
    window: timeInterval, intervalDuration(10), discardAge(100)
    output: {counts: {from: intervalStart(), xs: Collect(x)}}
"""


def number(x: int, t: float) -> Record:
    return {"tuple": {"k": "a", "x": x, "t": t}}


def test_a_watermark_passes_a_progressive_sort_and_what_that_holds():
    given = events(number(3, 11), number(1, 12), number(2, 21), watermark("numbers", 20), number(9, 22),
                   watermark("numbers", 30))  # fmt: skip
    assert briefly(everything(pipeline(SORTED % "sliding, count(2)"), given)) == [
        "3 counts 10.0 [1]", "3 counts window",
        "5 counts 20.0 [2]", "5 counts window",  # 3 of time 11 is held, and late when it comes
    ]  # fmt: skip


def test_a_watermark_passes_a_tumbling_sort():
    given = events(number(3, 11), number(1, 12), watermark("numbers", 20), number(9, 22))
    assert briefly(everything(pipeline(SORTED % "tumbling, count(2)"), given)) == [
        "2 counts 10.0 [1, 3]", "2 counts window",
    ]  # fmt: skip


def test_a_watermark_comes_behind_what_it_makes_a_sort_send():
    """E6: the panes of the sort, then those behind it."""
    given = events(number(3, 11), number(1, 12), watermark("numbers", 20))
    assert briefly(everything(pipeline(SORTED % "timeInterval, intervalDuration(10)"), given)) == [
        "2 counts 10.0 [1, 3]", "2 counts window",
    ]  # fmt: skip


MAPPED = """
pipeline: mapped
streams:
  numbers: {topic: numbers, schema: {x: int64, t: float64}}
  inner: {event_time: {attribute: t, lag: 0}}
  counts: {topic: counts}
operators:
  - {name: m, map: numbers, output: [inner]}
  - name: count
    aggregate: inner
    window: timeInterval, intervalDuration(10)
    output: {counts: {from: intervalStart(), xs: Collect(x)}}
"""


def test_a_stream_that_a_map_writes_has_one_watermark_for_all_topic_partitions():
    """The tuples keep the topic partitions of their records, of which the stream behind the map has none."""
    rows = [(3, 11.0, 2), (1, 12.0, 1), (2, 21.0, 7)]
    given = events(*({"tuple": {"x": x, "t": t}, "topic_partition": of} for x, t, of in rows))
    assert briefly(everything(pipeline(MAPPED), given)) == ["2 counts 10.0 [3, 1]", "2 counts window"]


def spreads(event_time: str, inner: str = "t") -> bool:
    text = f"""
pipeline: p
streams:
  numbers: {{topic: numbers, schema: {{k: string, t: float64}}, event_time: {event_time}}}
  inner: {{event_time: {inner}}}
  counts: {{topic: counts}}
operators:
  - {{name: m, map: numbers, output: [inner]}}
  - name: count
    aggregate: inner
    window: timeInterval, intervalDuration(10), partitioned
    partition_by: [k]
    output: {{counts: {{n: Count()}}}}
"""
    return spread_by(load_text(text, "p", environment=None)) is not None


def test_the_times_of_all_tuples_are_known_of_an_input():
    """ET3."""
    assert spreads("t")
    assert spreads("{attribute: t, lag: 1.0}")
    assert spreads("{attribute: t, idle_after: 1.0}")
    assert not spreads("t", "{attribute: t, lag: 1.0}")
