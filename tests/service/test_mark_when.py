"""Marks that conditions put around tuples, through route and stage, with one bucket and with several."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from sluice.batch.merge import merged
from sluice.batch.packed_rows import RECORDS, TUPLE_WITH_MARK, Packed, ordinal, unpack
from sluice.batch.partition_router import route_records as spread
from sluice.batch.query_plan import Plan
from sluice.config.load import load_text
from sluice.engine.graph import Graph
from sluice.engine.stream.items import TUPLE, WINDOW
from sluice.state.bucket_batch import Batch
from sluice.state.bucket_outputs import outgoing
from sluice.time_units import UNSET
from tests.unit.batch.test_partition_router import SCHEMA, labels, record, routed

PIPELINE = """
pipeline: p
kafka: {bootstrap.servers: nowhere}
clock: records
streams:
  in:
    topic: in
    schema: {key: string, number: int64}
    mark_when: {before: number > 7, after: number == 3}
    marks_in: MARKS_IN
  out: {topic: out}
operators:
  - name: batch
    aggregate: in
    window: tumbling, punct(), partitioned
    partition_by: [key]
    output: {out: {key: Last(key), all: Collect(number)}}
"""


def run(text: str, batches: list[list[list[dict[str, Any]]]], buckets: int) -> list[list[Any]]:
    """Per batch what is written; a batch has the records of each topic partition."""
    plan = Plan(load_text(text, "p"), "q", "s", "c", buckets, {"in": len(batches[0]), "out": 2})
    graphs = [Graph(plan.pipeline, plan.topic_partitions) for _ in range(buckets)]
    states, clocks = [graph.initial() for graph in graphs], [UNSET] * buckets
    found = []
    for batch in batches:
        rows = [row for number, records in enumerate(batch) for row in routed_rows(plan, number, records)]
        parts = []
        for bucket, graph in enumerate(graphs):
            mine = [row for label, row in rows if label == labels(buckets)[bucket]]
            for handled in Batch.parts(plan, mine, clocks[bucket]):
                clocks[bucket] = handled.clock.end
                made = graph.feed(states[bucket], handled.inputs, handled.clock)
                packed = outgoing(plan, made, handled, bucket)
                parts += [unpack(data)[0] for kind, data in packed if kind == RECORDS]
        found.append(written(merged(parts, buckets)) if parts else [])
    return found


def routed_rows(plan: Plan, topic_partition: int, records: list[dict[str, Any]]) -> list[tuple[int, Packed]]:
    placed = [one | {"ordinal": ordinal(0, topic_partition), "offset": n} for n, one in enumerate(records)]
    batches = [pa.RecordBatch.from_pylist(placed, SCHEMA)] if placed else []
    return [
        (row["bucket"], (row["kind"], row["packed"])) for batch in spread(plan, 0, batches) for row in batch.to_pylist()
    ]


def written(records: pa.RecordBatch) -> list[Any]:
    """A mark without a tuple is a window mark for a reader."""
    rows = [{**row, "kind": 1 if row["kind"] == 3 else row["kind"]} for row in records.to_pylist()]
    return [(row["kind"], row["partition"], row["key"], row["value"]) for row in rows]


@pytest.mark.parametrize("marks", ["header", "record"])
@pytest.mark.parametrize("marks_in", ["topic_partition", "any", "aligned"])
def test_one_bucket_or_several(marks_in: str, marks: str):
    text = PIPELINE.replace("MARKS_IN", marks_in).replace("{topic: out}", f"{{topic: out, marks: {marks}}}")
    choose = random.Random(7)
    for _ in range(20):
        batches, at = [], 0
        for _ in range(4):
            batch: list[list[dict[str, Any]]] = [[], [], []]
            for _ in range(choose.randrange(12)):
                at += choose.randrange(3)
                new = record(choose.choice("abcde"), choose.randrange(10), at=at)
                batch[choose.randrange(3)].append(record(mark="window", at=at) if choose.random() < 0.1 else new)
            batches.append(batch)
        whole = run(text, batches, 1)
        assert run(text, batches, 2) == whole
        assert run(text, batches, 3) == whole


DEDUP = """  unique: {}
  out: {topic: out}
operators:
  - {name: first, dedup: in, by: [key, number], within: time(5), output: [unique]}
  - name: batch
    aggregate: unique
"""


@pytest.mark.parametrize("marks", ["header", "record"])
def test_marks_for_one_key_in_one_bucket_or_several(marks: str):
    """A mark of the key a closes the window of a alone, and no record has only this mark."""
    text = PIPELINE.replace("MARKS_IN", "topic_partition").replace("after: number == 3", "after: number == 3, of: key")
    text = text.replace("  out: {topic: out}\noperators:\n  - name: batch\n    aggregate: in\n", DEDUP)
    text = text.replace("{topic: out}", f"{{topic: out, marks: {marks}}}")
    choose = random.Random(11)
    for _ in range(20):
        batches: list[list[list[dict[str, Any]]]] = [[[], [], []] for _ in range(4)]
        for at in range(40):
            new = record(choose.choice("abcde"), choose.randrange(10), at=at)
            batches[at // 10][choose.randrange(3)].append(new)
        whole = run(text, batches, 1)
        assert run(text, batches, 2) == whole
        assert run(text, batches, 3) == whole
        rows = [row for batch in whole for row in batch]
        if marks == "header":
            assert {kind for kind, *_ in rows} == {TUPLE_WITH_MARK}
        else:
            assert {kind for kind, *_ in rows} == {TUPLE, WINDOW}
            assert all(first[2] == second[2] for first, second in zip(rows[::2], rows[1::2], strict=True))


def rows_of(text: str, *records: dict[str, Any]) -> list[tuple[int, int]]:
    """The number and the kind of each row of a bucket."""
    ((rows, _),) = routed([one | {"offset": n} for n, one in enumerate(records)], text=text)[0]
    return list(zip(rows.column("@number").to_pylist(), rows.column("@kind").to_pylist(), strict=True))


def test_marks_stand_around_the_tuples_that_tell_of_them():
    """A record has four numbers, of which itself is the second."""
    text = PIPELINE.replace("MARKS_IN", "topic_partition")
    found = rows_of(text, record(number=8), record(number=1), record(number=3))
    assert found == [(0, 1), (1, 0), (5, 0), (9, 0), (10, 1)]


def test_a_tuple_has_one_mark_behind_it_though_two_tell_of_it():
    text = PIPELINE.replace("MARKS_IN", "topic_partition")
    riding = record(number=3) | {"headers": record(mark="window")["headers"]}
    ending = record(number=3) | {"headers": record(mark="final")["headers"]}
    assert rows_of(text, riding, ending) == [(1, 0), (2, 1), (5, 0), (6, 1), (7, 2)]
