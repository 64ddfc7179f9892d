"""The records that the items of an operator become."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sluice.batch.commit import BatchResult
from sluice.batch.packed_rows import DEAD_LETTERS, ITSELF, NUMBERS, RECORDS, TUPLE_WITH_MARK, ordinal, pack
from sluice.batch.reject_collector import dead_letters
from sluice.config.load import load_text
from sluice.engine.graph import Graph
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.items import TUPLE, WINDOW
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import numbered
from sluice.state.bucket_batch import Batch
from sluice.state.bucket_outputs import outgoing, records
from sluice.wire.output_timestamps import UNUSABLE
from tests.spec.buckets import of_stream, plan_of

PIPELINE = """
pipeline: p
clock_origin: 1970-01-01T00:00:00Z
streams:
  in: {{topic: in, schema: {{k: string, x: int64}}}}
  out: {{topic: out, marks: {marks}}}
operators:
  - name: sums
    aggregate: in
    window: tumbling, time(5), partitioned, partitionAge(1)
    partition_by: [k]
    early: count(2)
    output: {{out: {{k: k, sum: Sum(x)}}}}
"""
#: the partition of `a` is evicted without a result by the tick at 5, which finds nothing else
EVENTS: list[dict[str, Any]] = [
    {"at": 1, "tuple": {"k": "a", "x": 1}}, {"at": 2, "tuple": {"k": "a", "x": 2}}, {"at": 5},
    {"at": 9, "tuple": {"k": "b", "x": 3}}, {"at": 10},
]  # fmt: skip


def kinds(marks: str) -> list[tuple[int, int]]:
    """The second and the kind of each record."""
    pipeline = load_text(PIPELINE.format(marks=marks), "p", environment=None)
    placed = list(numbered(EVENTS))
    plan = plan_of(pipeline, placed, 1)
    graph = Graph(pipeline, plan.topic_partitions)
    (batch,) = Cutter(pipeline.inputs).batches(placed, len(placed))
    made = graph.feed(graph.initial(), batch.inputs, Clock(0, batch.now))
    return [(at // 10**9, kind) for at, kind, *_ in of_stream(plan, "out", [made], batch)]


def test_an_early_result_has_no_mark():
    assert kinds("record") == [(2, TUPLE), (5, WINDOW), (10, TUPLE), (10, WINDOW)]


def test_a_lone_mark_behind_an_early_result_is_not_that_of_its_tuple():
    assert kinds("header") == [(2, TUPLE), (10, TUPLE_WITH_MARK)]


STAMPED = """
pipeline: p
clock_origin: 1970-01-01T00:00:00Z
max_future: 100
streams:
  in: {{topic: in, schema: {{k: string, until: timestamp}}}}
  out: {{topic: out, marks: {marks}, record_timestamp: until}}
operators:
  - name: last
    aggregate: in
    window: tumbling, time(5), partitioned
    partition_by: [k]
    output: {{out: {{k: k, until: Max(until)}}}}
"""
#: seconds of the operator clock -> key, and the time in its tuple
UNTIL = [(1, "a", 0.5), (2, "a", 1.5), (6, "b", -1), (11, "c", 115.0), (16, "d", 200)]


def stamped(marks: str, *, buckets: int = 1) -> list[tuple[int, int, bytes | None, int]]:
    """The second of the clock, the kind, the value and the milliseconds of each record."""
    events: list[dict[str, Any]] = [{"at": at, "tuple": {"k": k, "until": until}} for at, k, until in UNTIL]
    pipeline = load_text(STAMPED.format(marks=marks), "p", environment=None)
    placed = list(numbered([*events, {"at": 20}, {"at": 25}]))
    plan = plan_of(pipeline, placed, buckets)
    graph = Graph(pipeline, plan.topic_partitions)
    (batch,) = Cutter(pipeline.inputs).batches(placed, len(placed))
    made = graph.feed(graph.initial(), batch.inputs, Clock(0, batch.now))
    places = np.arange(len(placed))
    rows = records(plan, pipeline.streams["out"], made["out"], places, 0).to_pylist()
    return [(row["at"] // 10**9, row["kind"], row["value"], row["stamp"]) for row in rows]


def test_a_record_has_the_time_in_its_attribute_which_its_value_lacks():
    assert stamped("header") == [
        (5, TUPLE_WITH_MARK, b'{"k":"a"}', 1500),
        (10, TUPLE_WITH_MARK, b'{"k":"b"}', UNUSABLE),
        (15, TUPLE_WITH_MARK, b'{"k":"c"}', 115_000),
        (20, TUPLE_WITH_MARK, b'{"k":"d"}', UNUSABLE),
    ]


def test_the_mark_of_a_firing_has_the_time_of_its_tuple_and_one_without_a_tuple_has_none():
    rows = stamped("record")
    assert [(at, stamp) for at, kind, _, stamp in rows if kind == WINDOW][:4] == [
        (5, 1500), (10, UNUSABLE), (15, 115_000), (20, UNUSABLE),
    ]  # fmt: skip
    assert [stamp for at, *_, stamp in rows if at == 25] in ([], [UNUSABLE])


def test_the_log_says_once_that_times_cannot_be_timestamps(caplog: pytest.LogCaptureFixture):
    pipeline = load_text(STAMPED.format(marks="header"), "p", environment=None)
    plan = replace(plan_of(pipeline, [], 1), topic_partitions={"in": 1, "out": 1}, start="once")
    columns: dict[str, list[Any]] = {
        "at": [5_000_000_001, 10_000_000_000], "ordinal": [0, 1], "kind": [TUPLE, TUPLE], "partition": [0, 0],
        "key": [b"a", b"b"], "value": [b"{}", b"{}"], "stamp": [1500, UNUSABLE],
    }  # fmt: skip
    types = {"key": pa.binary(), "value": pa.binary(), "kind": pa.int8(), "partition": pa.int32()}
    rows = pa.record_batch({name: pa.array(column, types.get(name)) for name, column in columns.items()})
    packed = pack(rows, {"stream": "out", "bucket": 0})
    for _ in range(2):
        (made,) = BatchResult(plan, [(RECORDS, packed)]).records()
        assert made.columns.column("timestamp").to_pylist() == [1500, 10_000]
    (line,) = [one.getMessage() for one in caplog.records]
    assert line.startswith("stream out: 1 records get the operator clock as their timestamp, since until is not after")


PAIRS = """
pipeline: p
streams:
  a: {topic: topic-a, schema: {k: string, n: int64}}
  b: {topic: topic-b, schema: {k: string, by: int64}}
  pairs: {}
  out: {topic: out}
  dead: {topic: dead}
operators:
  - name: pairs
    join: {left: a, right: b}
    window_left: sliding, count(9)
    window_right: sliding, count(9)
    equality_left: [k]
    equality_right: [k]
    output: {pairs: {k: left.k, n: left.n, by: right.by}}
  - {name: rest, map: pairs, output: {out: {k: k, rest: n % by}}}
dead_letters: dead
"""
WITHOUT_MAP = PAIRS.replace("  pairs: {}\n", "").replace(
    "pairs: {k: left.k, n: left.n, by: right.by}", "out: {k: left.k, rest: left.n % right.by}"
)
WITHOUT_MAP = WITHOUT_MAP.replace("  - {name: rest, map: pairs, output: {out: {k: k, rest: n % by}}}\n", "")


def refused(text: str, events: list[dict[str, Any]], first: int = 100) -> list[tuple[str, int, int, bool]]:
    """The topic, the topic partition, the offset and `made` of each dead letter. Topic partitions begin at `first`."""
    pipeline = load_text(text, "p", environment=None)
    placed = list(numbered(events))
    plan = plan_of(pipeline, placed, 1)
    graph = Graph(pipeline, plan.topic_partitions)
    (batch,) = Cutter(pipeline.inputs).batches(placed, len(placed))
    made = graph.feed(graph.initial(), batch.inputs, Clock(0, batch.now))
    names, ordinals, counts = [stream.name for stream in plan.inputs], [], {}
    for event in events:
        place = ordinal(names.index(event["stream"]), event.get("topic_partition", 0))
        counts[place] = counts.get(place, -1) + 1
        ordinals.append(place + NUMBERS * counts[place] + ITSELF)
    again = Batch(batch.inputs, np.array(ordinals), dict.fromkeys(counts, first), Clock(0, batch.now))
    packed = [row for kind, row in outgoing(plan, made, again, 0) if kind == DEAD_LETTERS]
    letters = [one for some in dead_letters(packed, 1 << 20) for one in some]
    assert not any(one.original for one in letters)
    return [(one.topic, one.partition, one.offset, one.made) for one in letters]


@pytest.mark.parametrize("text", [WITHOUT_MAP, PAIRS], ids=["of the join", "of a map behind it"])
def test_a_rejected_pair_has_the_position_of_the_newer_record(text):
    events: list[dict[str, Any]] = [
        {"at": 1, "stream": "a", "topic_partition": 1, "tuple": {"k": "x", "n": 1}},
        {"at": 2, "stream": "b", "topic_partition": 2, "tuple": {"k": "x", "by": 1}},
        {"at": 3, "stream": "b", "topic_partition": 2, "tuple": {"k": "x", "by": 0}},
        {"at": 4, "stream": "a", "topic_partition": 1, "tuple": {"k": "x", "n": 2}},
    ]
    assert refused(text, events) == [("topic-a", 1, 101, True), ("topic-b", 2, 101, True)]


def test_a_tuple_of_a_record_has_the_position_of_this_record():
    text = """
pipeline: p
streams: {a: {topic: topic-a, schema: {n: int64, by: int64}}, out: {topic: out}, dead: {topic: dead}}
operators: [{name: rest, map: a, output: {out: {rest: n % by}}}]
dead_letters: dead
"""
    events = [{"at": 1, "stream": "a", "topic_partition": 1, "tuple": {"n": 1, "by": by}} for by in (2, 0)]
    assert refused(text, events) == [("topic-a", 1, 101, False)]


def test_a_tuple_of_a_timer_has_no_position():
    text = """
pipeline: p
clock_origin: 1970-01-01T00:00:00Z
streams: {a: {topic: topic-a, schema: {n: int64, by: int64}}, out: {topic: out}, dead: {topic: dead}}
operators: [{name: rest, aggregate: a, window: "tumbling, time(5)", output: {out: {rest: Sum(n) % Sum(by)}}}]
dead_letters: dead
"""
    events: list[dict[str, Any]] = [
        {"at": 1, "stream": "a", "tuple": {"n": 1, "by": 0}}, {"at": 9, "stream": "a", "tuple": {"n": 1, "by": 1}},
    ]  # fmt: skip
    assert refused(text, events) == [("topic-a", -1, -1, True)]


def test_a_tuple_that_waited_for_a_mark_is_no_record_at_the_position_of_the_one_that_ended_the_wait():
    text = """
pipeline: p
streams: {a: {topic: topic-a, marks_in: aligned, schema: {n: int64, by: int64}}, out: {topic: out}, dead: {topic: dead}}
operators: [{name: rest, map: a, output: {out: {rest: n % by}}}]
dead_letters: dead
"""
    events: list[dict[str, Any]] = [
        {"at": 1, "stream": "a", "topic_partition": 0, "punct": "window"},
        {"at": 2, "stream": "a", "topic_partition": 0, "tuple": {"n": 1, "by": 0}},
        {"at": 3, "stream": "a", "topic_partition": 1, "punct": "window"},
    ]
    assert refused(text, events) == [("topic-a", 1, 100, True)]


def test_a_tuple_that_its_format_cannot_write_is_a_dead_letter():
    """AV7: the other tuples are written, each with its own mark."""
    text = """
pipeline: p
streams:
  a: {topic: topic-a, schema: {side: string}}
  out:
    topic: out
    format: avro
    avro_schema: {type: record, name: R, fields: [{name: side, type: {type: enum, name: Side, symbols: [BUY, SELL]}}]}
  dead: {topic: dead}
operators: [{name: sides, map: a, output: [out]}]
dead_letters: dead
"""
    events = [{"at": 1, "stream": "a", "tuple": {"side": side}} for side in ("BUY", "HOLD", "SELL")]
    assert refused(text, events) == [("topic-a", 0, 101, False)]
    assert values_of(text, events) == [b"\0", b"\2"]


def values_of(text: str, events: list[dict[str, Any]]) -> list[bytes]:
    """The values of the records that are written to `out`."""
    pipeline = load_text(text, "p", environment=None)
    placed = list(numbered(events))
    plan = plan_of(pipeline, placed, 1)
    graph = Graph(pipeline, plan.topic_partitions)
    (batch,) = Cutter(pipeline.inputs).batches(placed, len(placed))
    made = graph.feed(graph.initial(), batch.inputs, Clock(0, batch.now))
    again = Batch(batch.inputs, np.arange(len(events)) * NUMBERS + ITSELF, {ITSELF: 0, 0: 0}, Clock(0, batch.now))
    packed = [row for kind, row in outgoing(plan, made, again, 0) if kind == RECORDS]
    (rows,) = BatchResult(plan, [(RECORDS, one) for one in packed]).records()
    return rows.columns.column("value").to_pylist()
