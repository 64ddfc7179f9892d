"""A batch with many bytes is handled in parts, and gives what it would give whole."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import chain, pairwise

import numpy as np
import pyarrow as pa
import pytest

from sluice.batch.merge import merged, merged_parts
from sluice.batch.packed_rows import IDLE_CLOCK, RECORDS, pack, packed_time, pieces, unpack
from sluice.batch.partition_router import route_records
from sluice.batch.query_plan import Bounds, Plan
from sluice.batch.reject_collector import dead_letters
from sluice.batch.usable_records import RECEIVED as SCHEMA
from sluice.config.load import load_text
from sluice.engine.graph import Graph
from sluice.engine.stream.items import EMPTY_FIRING, TUPLE, WINDOW
from sluice.state.bucket import Bucket
from sluice.state.bucket_batch import Batch
from sluice.state.bucket_outputs import outgoing
from sluice.time_units import SECOND, UNSET

FILE = """
pipeline: parts
kafka: {bootstrap.servers: "127.0.0.1:1"}
streams:
  in: {topic: in, schema: {k: string, v: int64}}
  sums: {topic: sums}
  late: {topic: late}
  all: {topic: all}
operators:
  - name: sums
    aggregate: in
    window: sliding, count(7), time(3.0), partitioned
    partition_by: [k]
    output: {sums: {k: k, n: Count(), s: Sum(v)}}
  - name: late
    aggregate: in
    window: tumbling, time(2.0)
    output: {late: {n: Count(), last: Last(v)}}
  - {name: all, map: in, output: [all]}
"""
PARTITIONS, RECORDS_EACH = 3, 120


@pytest.fixture
def plan():
    return Plan(load_text(FILE, "parts", environment=None), "q", "s", "c", 1, {"in": 3, "sums": 2, "late": 1, "all": 3})


def arrived(plan):
    """The packed rows of a batch, several for each topic partition; clocks of records go back and forth."""
    choose = random.Random(1)
    for partition in range(PARTITIONS):
        rows, time = [], 100.0
        for offset in range(RECORDS_EACH):
            time += choose.choice([0, 0, 0.1, 0.7, -0.3])
            value = b"garbage" if offset % 11 == 3 else json.dumps({"k": f"k{offset % 4}", "v": offset}).encode()
            rows.append({
                "key": b"k", "value": value, "headers": None, "ordinal": packed_ordinal(partition), "offset": offset,
                "timestamp": int(time * 1_000_000),
            })  # fmt: skip
        batches = [pa.RecordBatch.from_pylist(rows[start : start + 25], SCHEMA) for start in range(0, len(rows), 25)]
        for batch in route_records(plan, 10**6 * SECOND, batches):
            yield from ((row["kind"], row["packed"]) for row in batch.to_pylist())
    yield IDLE_CLOCK, packed_time(150 * SECOND)


def packed_ordinal(partition):
    return partition << 32


def outputs(plan, folder, rows):
    """What a bucket makes of them, and its state after it."""
    bucket, found = Bucket(replace(plan, checkpoint=str(folder)), 0), {}
    parts = 0
    for part, made in bucket.try_rows([row for row in rows if row[0] in (RECORDS, IDLE_CLOCK)]):
        parts += 1
        for name, items in made.items():
            ordinals = np.where(items.event < 0, -1, part.ordinals[items.event]).tolist() if len(part.ordinals) else []
            at = zip(items.at.tolist(), items.kind.tolist(), items.source.tolist(), strict=True)
            found.setdefault(name, []).append((list(at), ordinals, items.tuples.to_pylist()))
    flat = {name: [list(chain(*column)) for column in zip(*some, strict=True)] for name, some in found.items()}
    return parts, flat, bucket.graph.save(bucket._state)  # noqa: SLF001


@pytest.mark.parametrize("size", [1, 300, 2000])
def test_parts_give_what_the_whole_gives(plan, tmp_path, size):
    rows = list(arrived(plan))
    _, expected, _ = outputs(plan, tmp_path / "whole", rows)
    assert len(expected) == 3
    parts, found, _ = outputs(replace(plan, bounds=Bounds(part=size)), tmp_path / "parts", rows)
    assert parts > 3
    assert found == expected


INSIDE = """
pipeline: inside
kafka: {bootstrap.servers: "127.0.0.1:1"}
streams:
  in: {topic: in, schema: {m: "map<string, string>?", l: "list<json>?", e: "list<string>?"}}
  all: {topic: all}
  keys: {topic: keys}
  entries: {topic: entries}
  elements: {topic: elements}
operators:
  - {name: all, map: in, output: [all]}
  - {name: keys, map: in, output: {keys: {k: keys(m), n: size(m)}}}
  - {name: entries, map: in, each: m as entry, output: {entries: {k: entry.key, v: entry.value}}}
  - {name: elements, map: in, each: e as element at place, output: {elements: {element: element, place: place}}}
"""


@pytest.mark.parametrize("size", [60, 200])
def test_values_with_an_inside_are_written_as_those_of_the_whole(size):
    """The columns of a part are slices of those of the batch: lists and maps have offsets, and nulls beside them."""
    topics = {"in": 1, "all": 1, "keys": 1, "entries": 1, "elements": 1}
    plan = Plan(load_text(INSIDE, "inside", environment=None), "q", "s", "c", 1, topics)
    values = [{"m": None if n % 3 else {"a": str(n)} if n % 2 else {}, "l": None if n % 4 else [n, {"b": n}],
               "e": None if n % 5 == 1 else [str(n)] * (n % 3)} for n in range(40)]  # fmt: skip
    rows = [{"key": None, "value": json.dumps(value).encode(), "headers": None, "ordinal": 0, "offset": offset,
             "timestamp": offset} for offset, value in enumerate(values)]  # fmt: skip
    (batch,) = route_records(plan, 10**6 * SECOND, [pa.RecordBatch.from_pylist(rows, SCHEMA)])
    packed = [(row["kind"], row["packed"]) for row in batch.to_pylist() if row["kind"] == RECORDS]
    expected, whole = records_of(plan, packed)
    found, parts = records_of(replace(plan, bounds=Bounds(part=size)), packed)
    assert (whole, found.keys()) == (1, topics.keys() - {"in"})
    assert parts > 3
    assert found == expected


def records_of(plan, rows):
    """What is written to each stream, and in how many parts."""
    graph, found, parts = Graph(plan.pipeline, plan.topic_partitions), {}, 0
    state = graph.initial()
    for part in Batch.parts(plan, rows, UNSET):
        parts += 1
        for kind, body in outgoing(plan, graph.feed(state, part.inputs, part.clock), part, 0):
            if kind == RECORDS:
                written, about = unpack(body)
                found.setdefault(about["stream"], []).extend(written.column("value").to_pylist())
    return found, parts


def test_no_part_has_many_more_bytes_than_it_may(plan):
    rows = [row for row in arrived(plan) if row[0] == RECORDS]
    parts = list(Batch.parts(replace(plan, bounds=Bounds(part=2000)), rows, UNSET))
    counts = [sum(len(items) for items in part.inputs.values()) for part in parts]
    whole = sum(len(pa.ipc.open_stream(body).read_all()) for _, body in rows)
    assert sum(counts) == whole
    assert max(counts) < whole / 3
    ends = [part.clock.end for part in parts]
    assert ends == sorted(ends)


def test_a_large_batch_is_one_version_of_the_state(plan, tmp_path):
    plan = replace(plan, bounds=Bounds(part=300), checkpoint=str(tmp_path))
    rows = [row for row in arrived(plan) if row[0] in (RECORDS, IDLE_CLOCK)]
    made = []
    bucket = Bucket(plan, 0)
    bucket.feed(0, rows, lambda _, items: made.append(items))
    assert len(made) > 3
    again = Bucket(plan, 0)
    assert again.newest() == 1
    assert again.graph.save(again.at(1)) == bucket.graph.save(bucket.at(1))


# ---- what comes out --------------------------------------------------------------------------------------------------


def part(rows):
    at, ordinals, kind, key = zip(*rows, strict=True)
    return pa.RecordBatch.from_pydict({
        "at": pa.array(at, pa.int64()), "ordinal": pa.array(ordinals, pa.int64()), "kind": pa.array(kind, pa.int8()),
        "key": pa.array(key, pa.binary()),
    })  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_outputs_that_come_in_pieces_are_merged_as_if_they_came_whole(seed):
    choose = random.Random(seed)
    sources = []
    lone = sorted((choose.randrange(9), -1) for _ in range(4))
    for bucket in range(3):
        rows = [(*ordinal, EMPTY_FIRING, b"") for ordinal in lone]
        for _ in range(40):
            at, ordinal = choose.randrange(9), choose.randrange(-1, 5)
            rows += [(at, ordinal, TUPLE, b"%d" % bucket), (at, ordinal, WINDOW, b"%d" % bucket)]
        rows.sort(key=lambda row: row[:2])
        sources.append(part(rows))
    cut = []
    for source in sources:
        ends = sorted({0, source.num_rows, *(choose.randrange(source.num_rows) for _ in range(choose.randrange(9)))})
        cut.append([source.slice(start, end - start) for start, end in pairwise(ends)])
    found = [row for batch in merged_parts(cut, 3) for row in batch.to_pylist()]
    assert found == merged(sources, 3).to_pylist()


def test_pieces_are_the_rows_in_order():
    rows = part([(n, n, TUPLE, b"x" * 30) for n in range(50)])
    some = list(pieces(rows, 100))
    assert len(some) > 10
    assert pa.concat_batches(some).equals(rows)
    assert not list(pieces(rows.slice(0, 0), 100))


def test_dead_letters_come_in_the_order_of_their_places_a_few_at_a_time():
    def letters_at(*ordinals, stream):
        return pack(pa.RecordBatch.from_pydict({
            "ordinal": pa.array(ordinals, pa.int64()), "reason": ["r"] * len(ordinals),
            "timestamp": [0] * len(ordinals),
            "partition": pa.array([0] * len(ordinals), pa.int32()), "offset": [*ordinals],
            "key": pa.array([b"k"] * len(ordinals)), "value": pa.array([b"v" * 50] * len(ordinals)),
            "headers": pa.nulls(len(ordinals)),
        }), {"stream": stream, "topic": "t"})  # fmt: skip

    rows = [letters_at(*range(0, 60, 3), stream="a"), letters_at(*range(1, 60, 3), stream="b"), letters_at(stream="a")]
    found = list(dead_letters(rows, 500))
    assert len(found) > 3
    flat = [letter for some in found for letter in some]
    assert [letter.offset for letter in flat] == sorted([*range(0, 60, 3), *range(1, 60, 3)])
    assert {letter.stream for letter in flat if letter.offset % 3 == 1} == {"b"}
    assert not list(dead_letters([], 500))
