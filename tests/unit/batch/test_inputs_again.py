"""Past batches that are read together give each bucket the same state as one by one. Kafka is a list of records."""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import Message

from sluice.batch import inputs_again as module
from sluice.batch import usable_records
from sluice.batch.inputs_again import input_again, inputs_again
from sluice.batch.packed_rows import split_pass_through
from sluice.batch.query_plan import Plan
from sluice.config.load import load_text
from sluice.kafka.batch_report import Planned
from sluice.state.bucket import Bucket
from sluice.time_units import SECOND
from tests.unit.checkpoint.memory_store import MemoryStore

BUCKETS = 3
#: topic -> number of topic partitions
TOPICS = {"a": 2, "b": 1}
BATCHES = 30
FILE = """
pipeline: p
buckets: 3
kafka: {bootstrap.servers: nowhere}
%s
streams:
  a: {topic: a, schema: {k: string, v: int64, t: timestamp}, %s}
  b: {topic: b, schema: {k: string, v: int64, t: timestamp}, %s}
  out: {topic: out}
operators:
%s
"""
SLIDING = """
  - name: sums
    aggregate: a
    window: sliding, time(5), count(1), partitioned
    partition_by: [k]
    aggregate_incomplete_windows: true
    output: {out: {k: k, n: Count(), s: Sum(v), m: Median(v), longest: Max(k)}}
"""
TUMBLING = """
  - name: sums
    aggregate: a
    window: tumbling, punct(), partitioned
    partition_by: [k]
    output: {out: {k: k, n: Count()}}
"""
TIMED = """
  - name: panes
    aggregate: a
    window: timeInterval, intervalDuration(4.0), partitioned
    partition_by: [k]
    output: {out: {k: k, n: Count(), s: Sum(v)}}
"""
JOINED = """
  - name: pairs
    join: {left: a, right: b}
    window_left: sliding, time(5)
    window_right: sliding, count(20)
    equality_left: [k]
    equality_right: [k]
    output: {out: {k: left.k, v: left.v + right.v}}
"""
SETTINGS = {
    "sliding windows": ("", "", "", SLIDING),
    "window marks by condition": ("", "mark_when: {after: v % 7 == 0}", "", TUMBLING),
    "event time": ("", "event_time: {attribute: t}", "", TIMED),
    "computed watermarks": ("", "event_time: {attribute: t, lag: 2, idle_after: 3, max_future: 4}", "", TIMED),
    "computed watermarks in order": ("merge: timestamp", "event_time: {attribute: t, lag: 2}", "", TIMED),
    "sliding times": (
        "",
        "event_time: t",
        "",
        TIMED.replace(
            "timeInterval, intervalDuration(4.0), partitioned", "slidingTime, timeDifference(4.0), grace(1.0)"
        ),
    ),
    "a join of two topics": ("", "", "", JOINED),
    "records in order of their times": ("merge: timestamp", "", "", JOINED),
    "a short limit on timestamps": ("max_future: 1s", "", "", SLIDING),
}


def record(place: tuple[str, int], offset: int, numbers: random.Random) -> Message:
    """A tuple, seldom a mark, or bytes that no format can read."""
    topic, partition = place
    second = 1000 + offset // 3 + numbers.choice([-2, 0, 0, 1, 3])
    body = {"k": f"key {numbers.randrange(9)}", "v": offset, "t": f"1970-01-01T00:{second // 60:02}:{second % 60:02}Z"}
    value: bytes = json.dumps(body).encode()
    headers = None
    match numbers.randrange(20):
        case 0:
            value, headers = b"", [("sluice-mark", b"window")]
        case 1:
            value, headers = str(second - 3).encode(), [("sluice-mark", b"watermark")]
        case 2:
            value = b"not JSON"
        case 3:
            value, headers = b"", [("sluice-mark", b"clock")]
        case 4:
            headers = [("sluice-mark", b"window")]
    return Message(
        topic=topic, partition=partition, offset=offset, value=value, headers=headers, timestamp=(1, 1000 * second)
    )


class Past:
    """Random records, and the batches that once read them. Some offsets have no record, as the markers of transactions
    have none. Topic partition 1 of topic a was added after a third of the batches.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, topics: Sequence[str], seed: int) -> None:
        numbers = random.Random(seed)
        places = [(topic, number) for topic in topics for number in range(TOPICS[topic])]
        offsets = dict.fromkeys(places, 0)
        self.plans, idle = [Planned(0, {(topic, 0): 0 for topic in topics}, 0)], 0
        for number in range(BATCHES):
            for place in places:
                late = place == ("a", 1) and number < BATCHES // 3
                offsets[place] += 0 if late else numbers.choice([0, 0, 1, 2, 9])
            idle = numbers.choice([idle, idle, (1000 + number) * SECOND])
            known = {place: end for place, end in offsets.items() if place != ("a", 1) or number >= BATCHES // 3}
            self.plans.append(Planned((1000 + number) * SECOND, known, idle))
        self.records = {
            place: [record(place, one, numbers) for one in range(end) if numbers.random() < 0.9]
            for place, end in offsets.items()
        }
        monkeypatch.setattr(module, "read", self._read)

    def _read(self, _, starts, ends, each):
        for place, end in ends.items():
            for one in self.records[place]:
                if starts.get(place, 0) <= one.offset() < end:
                    each(one)


def content(bucket: Bucket) -> dict[str, bytes]:
    """The bytes of the state in memory, with its reorder buffer."""
    store = MemoryStore()
    bucket.export(store, BATCHES)
    return store.objects


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("together", [5, 60, 200_000])
@pytest.mark.parametrize("name", SETTINGS)
def test_the_state_is_the_same_byte_by_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, together: int, seed: int
):
    """`together` is the number of offsets that are read at once."""
    pipeline = load_text(FILE % SETTINGS[name], "p.yaml")
    past = Past(monkeypatch, [str(stream.topic) for stream in pipeline.inputs], seed)
    monkeypatch.setattr(module, "OFFSETS_PER_READ", together)
    for module_of_records in (module, usable_records):
        monkeypatch.setattr(module_of_records, "RECORDS_PER_BATCH", 7)
    plan = Plan(pipeline, "q", "s", str(tmp_path), BUCKETS, {"a": 1, "b": 1, "out": 1})
    one_by_one, repeated = ([Bucket(plan, number) for number in range(BUCKETS)] for _ in range(2))
    before, *batches = past.plans
    for batch in batches:
        own_plan, arrived = input_again(plan, before, batch)
        for bucket in one_by_one:
            _, rows = split_pass_through(own_plan.topic_partitions, arrived.get(bucket.number, []))
            deque(bucket.try_rows(rows), maxlen=0)
        before = batch
    for found in inputs_again(plan, past.plans[0], batches):
        for bucket in repeated:
            bucket.repeat(found)
    assert [content(bucket) for bucket in repeated] == [content(bucket) for bucket in one_by_one]
    assert any(sum(sizes) for bucket in repeated for sizes in bucket.sizes().values())


@pytest.mark.parametrize(("size", "most"), [(100, 200_000), (100_000, 30)])
def test_what_is_read_at_once_has_a_bound_in_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, most: int
):
    """Several batches that fit into memory one by one need not fit together."""
    monkeypatch.setattr(module, "BYTES_PER_READ", 3_000_000)
    monkeypatch.setattr(module, "FIRST_OFFSETS", 20)
    value = json.dumps({"k": "x" * size, "v": 1, "t": 0}).encode()
    spans = []

    def read(_, starts, ends, each):
        spans.append((starts["a", 0], ends["a", 0]))
        for offset in range(*spans[-1]):
            each(Message(topic="a", partition=0, offset=offset, value=value, timestamp=(1, 1000)))

    monkeypatch.setattr(module, "read", read)
    pipeline = load_text(FILE % SETTINGS["sliding windows"], "p.yaml")
    plan = Plan(pipeline, "q", "s", str(tmp_path), 1, {"a": 1, "out": 1})
    before, *batches = [Planned(0, {("a", 0): 2 * number}, 0) for number in range(201)]
    assert len(list(inputs_again(plan, before, batches))) == 200
    assert [start for start, _ in spans] == [0, *(end for _, end in spans[:-1])]
    counts = [end - start for start, end in spans]
    assert counts[0] == 2, "one batch shows how large the records are"
    assert all(count <= 10 * max(last, 2) for last, count in pairwise(counts))
    assert max(counts) <= most
    assert len(counts) < 15 if size == 100 else max(counts) > 20
