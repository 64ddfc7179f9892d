"""`merge: timestamp` without Spark: what the engine gets does not depend on how records fell into batches."""

from __future__ import annotations

import json
import random
from base64 import b64encode

import pyarrow as pa
import pytest

from sluice.batch.packed_rows import IDLE_CLOCK, RECORDS, labels, ordinal
from sluice.batch.partition_router import route_records
from sluice.batch.query_plan import Plan
from sluice.config.load import load_text
from sluice.state.bucket_batch import Batch, ReorderBuffer
from sluice.time_units import UNSET
from tests.unit.batch.test_partition_router import SCHEMA

PIPELINE = """
pipeline: p
streams:
  left: {topic: left, schema: {key: string, number: int64}}
  right: {topic: right, schema: {key: string, number: int64}}
  pairs: {topic: pairs}
operators:
  - name: join
    join: {left: left, right: right}
    window_left: sliding, time(10)
    window_right: sliding, time(10)
    equality_left: [key]
    equality_right: [key]
    output: {pairs: {key: left.key, left: left.number, right: right.number}}
merge: timestamp
merge_wait: 5
"""
SECOND = 1_000_000_000
#: left has two topic partitions, right has one
LANES = [(0, 0), (0, 1), (1, 0)]


def plan(buckets=1):
    return Plan(load_text(PIPELINE, "p", environment=None), "q", "s", "c", buckets, {"left": 2, "right": 1, "pairs": 1})


def record(lane, offset, at, mark=None):
    """The record at this offset of a topic partition, at so many seconds; its number says which it is."""
    number = 1000 * LANES.index(lane) + offset
    headers = json.dumps([{"key": "sluice-mark", "value": b64encode(mark.encode()).decode()}]) if mark else None
    value = b"" if mark else json.dumps({"key": "abcd"[number % 4], "number": number}).encode()
    return {"key": None, "value": value, "headers": headers, "ordinal": ordinal(*lane), "offset": offset,
            "timestamp": at * 1_000_000}  # fmt: skip


class Bucket:
    """One bucket of the stage, batch by batch; its state is saved and loaded between them."""

    def __init__(self, plan, number=0):
        self._plan, self._label = plan, labels(plan.buckets)[number]
        self._saved = ReorderBuffer().save()
        self.clock = UNSET
        self.events = []
        self.marks = []

    def feed(self, records, idle_clock=None):
        """A batch, of records by lane and perhaps the idle clock at so many seconds."""
        holding = ReorderBuffer.load(self._saved)
        rows = [] if idle_clock is None else [(IDLE_CLOCK, (idle_clock * SECOND).to_bytes(8, "big", signed=True))]
        for lane in LANES:
            if records.get(lane):
                packed = route_records(self._plan, 0, [pa.RecordBatch.from_pylist(records[lane], SCHEMA)])
                rows += [(row["kind"], row["packed"]) for batch in packed for row in batch.to_pylist()
                         if row["bucket"] == self._label and row["kind"] == RECORDS]  # fmt: skip
        batch = next(Batch.parts(self._plan, holding.through(self._plan, rows), self.clock), None)
        self._saved = holding.save()
        if batch is not None:
            self._note(batch)
            self.clock = batch.clock.end

    def _note(self, batch):
        handled = []
        for items in batch.inputs.values():
            numbers = iter(items.tuples.column("number").to_pylist())
            handled += [
                (event, at // SECOND, None if kind else next(numbers))
                for event, at, kind in zip(items.event, items.at, items.kind, strict=True)
            ]
        self.marks += [int(batch.ordinals[event]) for event, _, number in handled if number is None]
        self.events += [what for _, *what in sorted(handled)]

    @property
    def numbers(self):
        return [number for _, number in self.events]


def lanes(seed):
    """Records of each topic partition, some out of order, and the final mark behind them."""
    choose = random.Random(seed)
    found = {}
    for lane in LANES:
        times = [max(0, n + choose.randint(-3, 3)) for n in range(choose.randint(5, 40))]
        found[lane] = [record(lane, 7 + 2 * n, at) for n, at in enumerate(times)]
        found[lane].append(record(lane, 7 + 2 * len(times), times[-1], mark="final"))
    return found


def in_order(found):
    """(time, number) of all records, each stamped with the newest time of its topic partition."""
    stamped = []
    for lane, records in found.items():
        newest = 0
        for r in records:
            newest = max(newest, r["timestamp"] // 1_000_000)
            number = None if r["headers"] else json.loads(r["value"])["number"]
            stamped.append(((newest, lane, r["offset"]), [newest, number]))
    return [what for _, what in sorted(stamped, key=lambda pair: pair[0])]


@pytest.mark.parametrize("seed", range(20))
def test_the_order_is_that_of_the_timestamps_however_records_fell_into_batches(seed):
    choose, found, bucket = random.Random(-seed), lanes(seed), Bucket(plan())
    expected = in_order(found)
    while any(found.values()):
        bucket.feed({lane: [records.pop(0) for _ in range(min(len(records), choose.choice([0, 0, 1, 4, 9])))]
                     for lane, records in found.items()})  # fmt: skip
    assert bucket.events == expected


def test_all_buckets_give_a_mark_the_same_place():
    found = lanes(1)
    buckets = [Bucket(plan(3), number) for number in range(3)]
    for start in range(0, 45, 5):
        batch = {lane: records[start : start + 5] for lane, records in found.items()}
        for bucket in buckets:
            bucket.feed(batch)
    assert buckets[0].marks == buckets[1].marks == buckets[2].marks
    assert sorted(n for b in buckets for n in b.numbers if n is not None) == sorted(
        n for _, n in in_order(lanes(1)) if n is not None
    )


def test_a_record_waits_for_every_topic_partition():
    bucket = Bucket(plan())
    bucket.feed({(0, 0): [record((0, 0), 0, 3)], (0, 1): [record((0, 1), 0, 5)]})
    assert bucket.numbers == []
    bucket.feed({(1, 0): [record((1, 0), 0, 4)]})
    assert bucket.numbers == [0]
    bucket.feed({(0, 0): [record((0, 0), 1, 9)]})
    assert bucket.numbers == [0, 2000]  # (0, 1) has sent 5, and (1, 0) may still send another 4


def test_the_clock_goes_only_as_far_as_nothing_can_come_before_it():
    bucket = Bucket(plan())
    bucket.feed({(0, 0): [record((0, 0), 0, 3)], (0, 1): [record((0, 1), 0, 5)], (1, 0): [record((1, 0), 0, 4)]})
    assert bucket.clock == 3 * SECOND


def test_a_topic_partition_that_is_final_is_not_waited_for():
    bucket = Bucket(plan())
    bucket.feed({(0, 0): [record((0, 0), 0, 1, "final")], (0, 1): [record((0, 1), 0, 1, "final")]})
    bucket.feed({(1, 0): [record((1, 0), n, n) for n in range(3)]})
    assert bucket.numbers == [2000, None, None, 2001, 2002]


def test_what_comes_behind_a_final_mark_is_no_reason_to_wait():
    bucket = Bucket(plan())
    bucket.feed({(0, 0): [record((0, 0), 0, 1, "final")], (0, 1): [record((0, 1), 0, 1, "final")]})
    bucket.feed({(1, 0): [record((1, 0), 0, 7)], (0, 0): [record((0, 0), 1, 5)]})
    bucket.feed({(1, 0): [record((1, 0), 1, 8, "final")], (0, 0): [record((0, 0), 2, 6)]})
    assert bucket.clock == 8 * SECOND
    assert bucket.events == [[1, None], [1, None], [5, 1], [7, 2000], [7, 2], [8, None]]


def test_a_silent_topic_partition_is_waited_for_until_the_idle_clock_is_so_much_later():
    bucket = Bucket(plan())
    bucket.feed({(1, 0): [record((1, 0), 0, 100)]}, idle_clock=101)
    assert bucket.numbers == []
    bucket.feed({}, idle_clock=104)
    assert bucket.numbers == []
    bucket.feed({}, idle_clock=106)
    assert bucket.numbers == [2000]
    assert bucket.clock == 101 * SECOND


def test_what_comes_later_than_that_counts_as_arriving_now():
    bucket = Bucket(plan())
    bucket.feed({(1, 0): [record((1, 0), 0, 100)]}, idle_clock=110)
    bucket.feed({(0, 0): [record((0, 0), 0, 90)]}, idle_clock=111)
    bucket.feed({}, idle_clock=120)
    assert bucket.events == [[100, 2000], [105, 0]]


def test_without_a_record_the_idle_clock_starts_no_operator_clock():
    bucket = Bucket(plan())
    bucket.feed({}, idle_clock=100)
    assert bucket.clock == UNSET
