"""What becomes of the state of an operator when the pipeline file changes, row by row as in docs/upgrades.md."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from sluice.config.load import load_text
from sluice.model.changes.change_table import as_json, lines
from sluice.model.changes.operator_changes import Changes, changes_of, kept_of
from sluice.model.spec import Pipeline

PIPELINE = """
pipeline: p
clock: records
streams:
  in: {topic: in, schema: {k: string, x: int64, y: float64, t: timestamp}, event_time: {attribute: t, lag: 1}}
  other: {topic: other, schema: {k: string, z: int64}}
  sums: {topic: sums}
  panes: {topic: panes}
  large: {topic: large}
  sorted: {topic: sorted}
  first: {topic: first}
  both: {topic: both}
  last: {topic: last}
operators:
  - name: sum
    aggregate: in
    window: sliding, count(3), count(1), partitioned
    partition_by: [k]
    output: {sums: {k: Last(k), s: Sum(x)}}
  - name: pane
    aggregate: in
    window: timeInterval, intervalDuration(60.0), partitioned
    partition_by: [k]
    output: {panes: {k: Last(k), n: Count()}}
  - {name: filter, map: in, where: x > 10, output: {large: {k: k, x: x}}}
  - {name: sort, sort: in, window: "sliding, count(5)", order_by: {x: asc}, output: [sorted]}
  - {name: dedup, dedup: in, by: [k], within: time(60), output: [first]}
  - name: join
    join: {left: in, right: other}
    window_left: sliding, time(60)
    window_right: sliding, count(2)
    equality_left: [k]
    equality_right: [k]
    output: {both: {k: left.k, x: x, z: z}}
  - {name: last, aggregate: both, window: "tumbling, count(2)", output: {last: {k: Last(k)}}}
"""
NAMES = ["sum", "pane", "filter", "sort", "dedup", "join", "last"]


@dataclass(frozen=True)
class Row:
    """A change of the file: what is replaced by what, and the words of the operators that are not kept."""

    what: str
    old: str
    new: str
    words: dict[str, str]


ROWS = [
    Row("the name of an output attribute", "s: Sum(x)", "total: Sum(x)", {}),
    Row("an expression over a result", "s: Sum(x)", "s: 2 * Sum(x) + 1", {}),
    Row("the order of the outputs", "k: Last(k), s: Sum(x)", "t: Last(k), s: Sum(x)", {}),
    Row("the name of an output stream and its topic", "sums", "sums2", {}),
    Row("the name of a stream that another operator reads", "both", "pairs", {}),
    Row("whether incomplete windows fire", "s: Sum(x)}}", "s: Sum(x)}}\n    aggregate_incomplete_windows: false", {}),
    Row("an aggregation function is added", "s: Sum(x)", "s: Sum(x), m: Max(x)", {"sum": "emptied"}),
    Row("the size of a window", "count(3), count(1)", "count(3), count(2)", {"sum": "emptied"}),
    Row("the kind of a window", "sliding, count(3), count(1)", "tumbling, count(3)", {"sum": "emptied"}),
    Row("partition_by", "partition_by: [k]\n    output: {sums", "partition_by: [x]\n    output: {sums",
        {"sum": "emptied"}),
    Row("the condition of a map", "x > 10", "x > 11", {}),
    Row("order_by", "order_by: {x: asc}", "order_by: {x: desc}", {"sort": "emptied"}),
    Row("the period of a dedup", "within: time(60)", "within: time(61)", {"dedup": "emptied"}),
    Row("the key of a dedup", "by: [k], within", "by: [k, x], within", {"dedup": "emptied"}),
    Row("a larger count", "count(3), count(1)", "count(4), count(1)", {"sum": "filling"}),
    Row("a smaller count", "count(3), count(1)", "count(2), count(1)", {"sum": "trimmed"}),
    Row("a count that stores nothing", "count(3), count(1)", "count(0), count(1)", {"sum": "emptied"}),
    Row("a count in place of a time", "sliding, time(60)", "sliding, count(60)", {"join": "emptied"}),
    Row("a larger window of a sort", "count(5)", "count(6)", {"sort": "filling"}),
    Row("a smaller window of a sort", "count(5)", "count(4)", {"sort": "emptied"}),
    Row("a longer window of a side of a join", "sliding, time(60)", "sliding, time(90)", {"join": "filling"}),
    Row("a shorter window of a side of a join", "sliding, time(60)", "sliding, time(30)", {"join": "trimmed"}),
    Row("a smaller count of a side of a join", "sliding, count(2)", "sliding, count(1)", {"join": "emptied"}),
    Row("the window and partition_by", "count(3), count(1), partitioned\n    partition_by: [k]",
        "count(4), count(1), partitioned\n    partition_by: [x]", {"sum": "emptied"}),
    Row("an output of a join, of attributes that it stores", "k: left.k, x: x, z: z", "k: left.k, x: z, z: x", {}),
    Row("an output of a join, of other attributes", "z: z}", "z: z, y: y}", {"join": "emptied"}),
    Row("an attribute that is used by those who store whole tuples", "t: timestamp}", "t: timestamp, w: string}",
        {"sort": "emptied"}),
    Row("an attribute that may be null from now on", "x: int64, y", "x: int64?, y",
        {"sum": "emptied", "sort": "emptied", "join": "emptied"}),
    Row("the place of null in an order", "order_by: {x: asc}", "order_by: {x: {nulls: first}}", {"sort": "emptied"}),
    Row("the lag of watermarks", "lag: 1", "lag: 2", {}),
    Row("the attribute of the event time", "x: int64, y: float64, t: timestamp}, event_time: {attribute: t",
        "x: int64, y: float64, t: timestamp}, event_time: {attribute: y", {"pane": "emptied"}),
    Row("the topic of an input", "topic: other", "topic: another", {"join": "emptied"}),
    Row("another kind of operator",
        'name: sort, sort: in, window: "sliding, count(5)", order_by: {x: asc}, output: [sorted]',
        "name: sort, map: in, where: x > 1, output: {sorted: {x: x}}", {"sort": "emptied"}),
    Row("a setting of the service", "clock: records", "clock: records\ntrigger_interval: 2", {}),
    Row("the clock", "clock: records", "clock: processing", {"clock": "refused"}),
    Row("the order of records", "clock: records", "clock: records\nmerge: timestamp", {"merge": "refused"}),
]  # fmt: skip


def loaded(text: str) -> Pipeline:
    return load_text(text, "p.yaml", environment=None)


def changed(old: str, new: str) -> Changes:
    assert old in PIPELINE
    return changes_of(loaded(PIPELINE), loaded(PIPELINE.replace(old, new)))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what)
def test_a_change(row: Row):
    changes = changed(row.old, row.new)
    assert {one.name: str(one.word) for one in changes.all if one.word != "kept"} == row.words
    assert {one.name for one in changes.all} >= set(NAMES)
    assert changes.loses == (not {"emptied", "trimmed", "filling"}.isdisjoint(row.words.values()))
    assert changes.refused == ("refused" in row.words.values())


def test_operators_come_and_go():
    changes = changed("name: sum", "name: total")
    assert [(one.name, str(one.word)) for one in changes.all if one.word != "kept"] == [
        ("total", "new"), ("sum", "removed"),
    ]  # fmt: skip
    assert changes.loses


def test_an_operator_without_state_loses_nothing():
    changes = changed("name: filter", "name: larger")
    assert [(one.name, str(one.word)) for one in changes.all if one.word != "kept"] == [
        ("larger", "new"), ("filter", "removed"),
    ]  # fmt: skip
    assert not changes.loses


TABLE = """
pipeline: p
streams:
  in: {topic: in, schema: {k: string, x: int64}}
  rows: {topic: rows, table: true, key: {attributes: [k], format: text}, schema: {k: string, z: int64}}
  both: {topic: both}
  sums: {topic: sums}
operators:
  - name: join
    join: {left: in, right: rows}
    equality_left: [k]
    equality_right: [k]
    output: {both: {k: left.k, x: x, z: z}}
  - {name: sum, aggregate: in, window: "tumbling, count(2)", output: {sums: {s: Sum(x)}}}
buckets: 1
"""


def test_a_join_whose_table_would_have_no_rows_is_refused():
    old = loaded(TABLE)
    assert {str(one.word) for one in changes_of(old, old).all} == {"kept"}
    for text in (TABLE.replace("name: join", "name: other"), TABLE.replace("x: x, z: z", "x: x")):
        changes = changes_of(old, loaded(text))
        assert changes.refused
        assert "its table would have no rows" in "\n".join(lines(changes))


def test_an_aggregate_whose_table_would_have_no_rows_is_refused():
    of_rows = '{name: sum, aggregate: rows, window: "sliding, count(9)", output: {sums: {s: Sum(z)}}}'
    text = TABLE.replace(
        '{name: sum, aggregate: in, window: "tumbling, count(2)", output: {sums: {s: Sum(x)}}}', of_rows
    )
    old = loaded(text)
    assert {str(one.word) for one in changes_of(old, old).all} == {"kept"}
    for changed in (text.replace("name: sum", "name: other"), text.replace("count(9)", "count(8)")):
        assert "its table would have no rows" in "\n".join(lines(changes_of(old, loaded(changed))))


def test_tuples_that_wait_for_an_aligned_mark_are_named():
    old = loaded(PIPELINE.replace("topic: other,", "topic: other, marks_in: aligned,"))
    changes = changes_of(old, loaded(PIPELINE))
    assert [(one.name, str(one.word)) for one in changes.all if one.word != "kept"] == [("other", "emptied")]
    assert changes_of(old, old).loses is False


ALIGNED = PIPELINE.replace("topic: other,", "topic: other, marks_in: aligned,")


IN, OTHER = {"in": "in"}, {"other": "other"}
RENAMED = {"another": "other"}
KEPT = {
    "nothing": ("", "", IN | OTHER, IN | OTHER, OTHER),
    "the name of an input": ("other: {topic: other", "another: {topic: other", IN | RENAMED, IN | RENAMED, RENAMED),
    "the topic of an input": ("topic: other", "topic: another", IN, IN, {}),
    "the attributes of an input": ("z: int64", "z: float64", IN | OTHER, IN | OTHER, {}),
    "the attribute of the event time": ("attribute: t", "attribute: y", OTHER, IN | OTHER, OTHER),
}


@pytest.mark.parametrize(("old", "new", "progress", "finals", "buffers"), KEPT.values(), ids=KEPT)
def test_what_goes_on_of_an_input(
    old: str, new: str, progress: dict[str, str], finals: dict[str, str], buffers: dict[str, str]
):
    """Its watermarks, its final topic partitions, and the tuples that wait for a mark: by its name, the earlier one."""
    changed_text = ALIGNED.replace(old, new)
    if "another" in progress:
        changed_text = changed_text.replace("right: other", "right: another")
    found = kept_of(loaded(ALIGNED), loaded(changed_text))
    inputs = {stream.name for stream in loaded(changed_text).inputs}
    assert {name: was for name, was in found.progress.items() if name in inputs} == progress
    assert (found.finals, found.buffers) == (finals, buffers)


BEHIND = """
pipeline: p
streams:
  in: {topic: in, schema: {k: string, x: int64, t: timestamp, u: timestamp}, event_time: {attribute: t, lag: 1}}
  other: {topic: other, schema: {k: string, x: int64, t: timestamp, u: timestamp}, event_time: {attribute: t, lag: 1}}
  small: {event_time: t}
  large: {event_time: t}
  near: {topic: near}
  marked: {topic: marked}
  panes: {topic: panes}
  sums: {topic: sums}
  more: {topic: more}
operators:
  - {name: low, map: in, where: x < 9, output: {small: {k: k, x: x, t: t}}}
  - {name: high, map: in, where: x > 8, output: {large: {k: k, x: x, t: t}}}
  - {name: near, aggregate: small, window: "slidingTime, timeDifference(5)", output: {near: {n: Count()}}}
  - {name: marked, aggregate: small, window: "tumbling, punct()", output: {marked: {n: Count()}}}
  - {name: panes, aggregate: small, window: "timeInterval, intervalDuration(5)", output: {panes: {n: Count()}}}
  - {name: sums, aggregate: small, window: "tumbling, count(2)", output: {sums: {s: Sum(x)}}}
  - {name: more, aggregate: sums, window: "tumbling, count(2)", output: {more: {s: Sum(s)}}}
"""
READERS = {"near", "marked", "panes", "sums"}
BEHIND_A_MAP = {
    "nothing": ([], set()),
    "the expression of an attribute": ([("x < 9", "x < 8"), ("{k: k, x: x, t: t}", "{k: k, x: x + 1, t: u}")], set()),
    "the name of the stream": ([("small", "few")], set()),
    "the name of the map": ([("name: low", "name: lower")], set()),
    "the names of both": ([("name: low", "name: lower"), ("small", "few")], READERS),
    "the name of an aggregate": ([("name: sums,", "name: totals,")], set()),
    "another map writes the stream":
        ([("name: low", "name: l"), ("name: high", "name: low"), ("name: l,", "name: high,")], READERS),
    "the map is gone, and another writes the stream":
        ([("low, map: in, where: x < 9, output: {small: ", "all, map: other, output: {small: ")], READERS),
    "the map reads another topic": ([("low, map: in,", "low, map: other,")], {"near", "marked"}),
    "the attribute of the input's event time": ([("event_time: {attribute: t", "event_time: {attribute: u")],
        {"near", "panes"}),
    "the lag of the input": ([("lag: 1", "lag: 2")], set()),
    "whether the watermark of the input follows the clock": ([("lag: 1", "lag: 1, idle_after: 3, advance: true")],
        {"near", "panes"}),
    "to which tuples a mark of the input applies": ([("topic: in,", "topic: in, marks_in: any,")], {"marked"}),
}  # fmt: skip


@pytest.mark.parametrize(("edits", "emptied"), BEHIND_A_MAP.values(), ids=BEHIND_A_MAP)
def test_a_change_before_the_operator_that_writes_the_input(edits: list[tuple[str, str]], emptied: set[str]):
    text = BEHIND
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    changes = changes_of(loaded(BEHIND), loaded(text))
    assert {one.name for one in changes.all if one.word == "emptied"} == emptied


def test_the_reasons_name_what_has_changed():
    table = "\n".join(lines(changed("by: [k], within", "by: [k, x], within")))
    assert "dedup   emptied  by: `k` became `k, x`" in table
    table = "\n".join(lines(changed("count(3), count(1)", "count(4), count(1)")))
    assert "window: `sliding, count(3), count(1), partitioned` became `sliding, count(4), count(1), " in table
    assert "clock` was records and is processing" in "\n".join(lines(changed("clock: records", "clock: processing")))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("x: int64, y", "x: float64, y", "functions: `Last(k), Sum(x)`, of attributes with other types"),
        ("x: int64, y", "x: float64, y", "join    emptied  left attributes in outputs: `x` was int64 and is float64"),
        ("t: timestamp}", "t: timestamp, w: string}", "attributes of its input: `w` is new"),
        ("[k]\n    output: {sums", "[k]\n    group_by: [y]\n    output: {sums", "group_by: nothing became `y`"),
        ("order_by: {x: asc}", "order_by: {x: desc}", "order_by: `x asc` became `x desc`"),
        ("within: time(60)", "within: eventTime(90)", "within: `time(60)` became `eventTime(90)`"),
        ("within: time(60)", "within: time(60), keep: last", "dedup   emptied  keep: first became last\n"),
        ("    output: {both", "    algorithm: leftOuter\n    output: {both", "outer left side: false became true\n"),
        (", output: {last", ", early: time(3), output: {last", "early: nothing became `time(3.0)`"),
        ("lag: 1", "lag: 1, idle_after: 5, advance: true", "event_time of its input: advance was false and is true\n"),
        ("name: join\n", "name: pairs\n", "last    kept"),
        ("    output: {both", "    match: x == z\n    output: {both", "match: nothing became `left.x == right.z`"),
        ("name: sum\n", "name: total\n", "no operator of this name; total is the same under another name"),
    ],
)  # fmt: skip
def test_a_reason_says_what_was_and_what_is(old: str, new: str, reason: str):
    assert reason in "\n".join([*lines(changed(old, new)), ""])


def test_the_table_as_json():
    found = as_json(changed("by: [k]", "by: [x]"))
    assert found["loses"] is True
    assert found["refused"] is False
    assert {"name": "dedup", "word": "emptied", "reason": "by: `k` became `x`", "loses": True} in found["operators"]
