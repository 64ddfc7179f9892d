"""How the marks of firings become records."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from sluice.batch.commit import BatchResult
from sluice.batch.packed_rows import TUPLE_WITH_MARK
from sluice.config.load import load_text
from sluice.engine.graph import Clock, Graph
from sluice.engine.stream.items import FINAL, TUPLE, WINDOW
from sluice.kafka.batch_writer import within
from sluice.kafka.records import records
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import numbered
from tests.spec.buckets import of_stream, plan_of

PIPELINE = """
pipeline: p
kafka: {bootstrap.servers: nowhere}
clock: records
streams:
  in: {topic: in, schema: {n: int64}, marks_in: any}
  out: {topic: out}
  dead: {topic: dead}
operators:
  - {name: all, aggregate: in, window: "tumbling, punct()", output: {out: {n: Count()}}}
dead_letters: dead
"""
EVENTS = [
    {"at": 0, "tuple": {"n": 1}},
    {"at": 1, "punct": "window"},
    {"at": 2, "punct": "window"},
    {"at": 3, "tuple": {"n": 2}},
    {"at": 4, "punct": "final"},
]
BY_KEY = """
pipeline: p
kafka: {bootstrap.servers: nowhere}
clock: records
streams:
  in: {topic: in, schema: {order: string, end: boolean}, mark_when: {after: end, of: order}}
  copy: {topic: copy}
  out: {topic: out}
operators:
  - {name: pass, map: in, output: [copy]}
  - {name: all, aggregate: copy, window: "tumbling, punct(), partitioned", partition_by: [order],
     output: {out: {n: Count()}}}
"""
ORDERS = [
    {"at": 0, "tuple": {"order": "a", "end": False}},
    {"at": 1, "tuple": {"order": "b", "end": False}},
    {"at": 2, "tuple": {"order": "c", "end": True}},
]
ROW, MARK, CARRIER, END = (TUPLE, b'{"n":1}'), (WINDOW, b""), (TUPLE_WITH_MARK, b'{"n":1}'), (FINAL, b"")


@pytest.mark.parametrize(
    ("marks", "written"), [("header", [CARRIER, END]), ("record", [ROW, MARK, MARK, END]), ("none", [ROW])]
)
@pytest.mark.parametrize("size", [1, 2, 5])
def test_marks_of_a_firing_with_a_tuple_and_of_one_without(marks, written, size):
    pipeline = load_text(PIPELINE.replace("{topic: out}", f"{{topic: out, marks: {marks}}}"), "p")
    assert outputs(pipeline, "out", EVENTS, size) == written


@pytest.mark.parametrize(("marks", "written"), [("header", [CARRIER]), ("record", [ROW, MARK]), ("none", [ROW])])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_mark_for_one_key_is_not_written_and_the_mark_of_its_firing_is(marks, written, size):
    pipeline = load_text(BY_KEY.replace("{topic: out}", f"{{topic: out, marks: {marks}}}"), "p")
    assert outputs(pipeline, "out", ORDERS, size) == written
    assert [kind for kind, _ in outputs(pipeline, "copy", ORDERS, size)] == [TUPLE] * 3


def outputs(pipeline, stream, events, size):
    """The kinds and values of the records of a stream, with batches of `size` events."""
    placed = list(numbered(events))
    plan = plan_of(pipeline, placed, 1)
    graph = Graph(pipeline, plan.topic_partitions)
    state, found = graph.initial(), []
    for batch in Cutter(pipeline.inputs).batches(placed, size):
        made = graph.feed(state, batch.inputs, Clock(int(batch.at[0]), int(batch.at[-1])))
        found += of_stream(plan, stream, [made], batch)
    return [(kind, value) for _, kind, _, _, value in found]


@pytest.mark.parametrize("dead_letters", ["dead", None])
def test_the_mark_of_a_tuple_that_is_too_large_stays_where_it_was(dead_letters):
    pipeline = replace(load_text(PIPELINE, "p"), dead_letters=dead_letters)
    plan = replace(plan_of(pipeline, [], 1), topic_partitions={"in": 1, "out": 1, "dead": 1})
    result = BatchResult(plan, [])
    result.report.written["out"] = {"tuple": 3}
    mark = [("sluice-mark", b"window")]
    large = records(
        "out", pa.array([b"a", b"x" * 3000, b"b"], pa.binary()), pa.array([b"k"] * 3, pa.binary()),
        np.zeros(3), np.arange(3), [mark, [("own", b"1"), *mark], None],
    )  # fmt: skip
    found = [row for some in within({"out": 2000}, [large], result.too_large) for row in rows(some)]
    assert [row for row in found if row[0] == "out"] == [
        ("out", b"a", b"k", 0, mark), ("out", b"", b"k", 1, mark), ("out", b"b", b"k", 2, None),
    ]  # fmt: skip
    dead = [(value, dict(headers)) for topic, value, _, _, headers in found if topic == "dead"]
    assert [(value, headers["own"]) for value, headers in dead] == ([(b"x" * 3000, b"1")] if dead_letters else [])
    assert all("sluice-mark" not in headers for _, headers in dead)
    assert result.report.written["out"]["tuple"] == 2


def test_a_dead_letter_has_no_time_after_that_of_its_batch():
    """So a batch that is written again has the same records."""
    plan = replace(plan_of(load_text(PIPELINE, "p"), [], 1), topic_partitions={"in": 1, "out": 1, "dead": 1})
    values = pa.array([b"x" * 3000] * 2, pa.binary())
    large = records("out", values, pa.array([b"k"] * 2, pa.binary()), np.zeros(2), np.array([5, 9_000]), [None] * 2)
    result = BatchResult(plan, [], at=7_000_000_000)
    result.report.written["out"] = {"tuple": 2}
    found = [row for some in within({"out": 2000}, [large], result.too_large) for row in rows(some)]
    assert [at for topic, _, _, at, _ in found if topic == "dead"] == [5, 7_000]


@pytest.mark.parametrize(("value", "kind"), [(b"x", "tuple"), (b"", "window")])
def test_a_mark_whose_key_alone_is_too_large_is_a_header_of_the_dead_letter(value, kind):
    """A record of the mark would be refused again and again."""
    plan = replace(plan_of(load_text(PIPELINE, "p"), [], 1), topic_partitions={"in": 1, "out": 1, "dead": 1})
    result = BatchResult(plan, [])
    result.report.written["out"] = {"tuple": 3, "window": 3}
    mark = ("sluice-mark", b"window")
    large = records(
        "out", pa.array([value], pa.binary()), pa.array([b"k" * 3000], pa.binary()), np.zeros(1), np.arange(1), [[mark]]
    )
    limits = {"out": 2000, "dead": 10_000}
    found = [row for some in within(limits, [large], result.too_large) for row in rows(some)]
    assert [(topic, found_value, key) for topic, found_value, key, *_ in found] == [("dead", value, b"k" * 3000)]
    assert mark in found[0][4]
    assert result.report.written["out"] == {"tuple": 3, "window": 3} | {kind: 2}
    assert result.report.dead_letters == {"out": {"too large": 1}}


def test_a_dead_letter_that_its_topic_cannot_take_is_counted_and_logged_once(caplog):
    """The batch is written without it."""
    plan = replace(
        plan_of(load_text(PIPELINE, "p"), [], 1),
        topic_partitions={"in": 1, "out": 1, "dead": 1},
        limits=(("dead", 50),),
    )
    result = BatchResult(plan, [])
    result.report.written["out"] = {"tuple": 2}
    large = records(
        "out", pa.array([b"x" * 3000] * 2, pa.binary()), pa.array([b"k"] * 2, pa.binary()), np.zeros(2), np.arange(2)
    )
    assert [row for some in within({"out": 2000, "dead": 50}, [large], result.too_large) for row in rows(some)] == []
    assert result.report.dead_letters == {"out": {"too large": 2}}
    assert caplog.text.count("dead letters are not written: topic dead takes records of at most 50 bytes") == 1


def rows(some):
    return [(some.topic, row[0], row[1], row[5], row[6]) for row in some.rows(0, len(some))]
