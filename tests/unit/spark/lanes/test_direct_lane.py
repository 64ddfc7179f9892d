from __future__ import annotations

import json
from types import SimpleNamespace

import orjson
import pytest

from sluice.batch.packed_rows import COUNTS, IDLE_CLOCK, RECORDS, TOPICS, unpack
from sluice.batch.query_plan import Plan
from sluice.config.load import load_text
from sluice.kafka.following_reader import RecordsNotReadError
from sluice.kafka.kafka_errors import HeaderNameError
from sluice.kafka.librdkafka.column_consumer import of_messages
from sluice.spark.lanes import direct_lane
from sluice.spark.lanes.direct_lane import DirectLane, TooManyBytesError
from sluice.state.server.read_request import Ranges
from sluice.state.server.request import StateServerError

FILE = """
pipeline: direct
buckets: 2
direct_records: 3
streams:
  in: {topic: in, schema: {k: string}}
  out: {topic: out}
operators:
  - {name: counted, aggregate: in, window: "tumbling, count(2), partitioned", partition_by: [k], output: {out: {k: k}}}
"""
PLANNED_AT = 1_700_000_000_000


def log_entry(number, ends, clock=0):
    """An entry of Spark's log of offsets: `ends` by topic partition, and the time of the idle clock."""
    head = json.dumps({"batchTimestampMs": PLANNED_AT + number})
    offsets = json.dumps({"in": {str(partition): end for partition, end in ends.items()}})
    return f"v1\n{head}\n{offsets}\n{json.dumps({'pulse': clock})}"


def message(partition, offset, key):
    return SimpleNamespace(
        key=lambda: None, value=lambda: orjson.dumps({"k": key}), headers=lambda: None, offset=lambda: offset,
        timestamp=lambda: (1, PLANNED_AT), topic=lambda: "in", partition=lambda: partition,
    )  # fmt: skip


class Feed:
    def __init__(self, records, room=3):
        self.records, self.room, self.taken, self.closed = records, room, [], False

    def fits(self, records):
        return records <= self.room

    def close(self):
        self.closed = True

    def take(self, starts, ends):
        self.taken.append((starts, ends))
        if isinstance(self.records, Exception):
            raise self.records
        return {place: of_messages(records) for place, records in self.records.items()}


@pytest.fixture
def lane(tmp_path, monkeypatch):
    """A lane over batches 4 and 5 of a query, with two readers.

    `applied` has the rows that the buckets got, `read` what each reader read; a reader gives a row for bucket 1.
    """
    monkeypatch.setattr(direct_lane.pool, "reachable", lambda: True)
    monkeypatch.setattr(direct_lane, "readers_of", lambda _: 2)
    (tmp_path / "offsets").mkdir()

    def make(ends, records, clock=0, fails=None, unread=None):
        (tmp_path / "offsets" / "4").write_text(log_entry(4, {0: 10, 1: 20}))
        (tmp_path / "offsets" / "5").write_text(log_entry(5, ends, clock))
        applied = {}

        def apply(_, number, batch, rows):
            if fails:
                raise fails
            applied[number] = batch, rows
            return lambda: [(RECORDS, b"bucket %d" % number)]

        def read(_, reader, ranges):
            if unread:
                raise unread
            done[reader] = ranges
            return [(1, (RECORDS, b"of reader %d" % reader))]

        done = {}
        plan = Plan(load_text(FILE, "direct.yaml"), "query", "start", str(tmp_path), 2, {"in": 2, "out": 1})
        feed, steps = Feed(records), []
        return SimpleNamespace(
            lane=DirectLane(plan, feed, apply, read, lambda step, *_: steps.append(step)),
            applied=applied,
            feed=feed,
            read=done,
            steps=steps,
        )

    return make


def keys_of(rows):
    return [row["k"] for kind, packed in rows if kind == RECORDS for row in unpack(packed)[0].to_pylist()]


def test_each_bucket_gets_the_tuples_of_its_keys_and_its_outputs_come_back(lane):
    records = {("in", 0): [message(0, 10, "a"), message(0, 11, "b")], ("in", 1): [message(1, 20, "a")]}
    made = lane({0: 12, 1: 21}, records)
    outputs = made.lane.outputs(5)
    assert [row for row in outputs if row[0] == RECORDS] == [(RECORDS, b"bucket 0"), (RECORDS, b"bucket 1")]
    assert sorted(keys_of(made.applied[0][1]) + keys_of(made.applied[1][1])) == ["a", "a", "b"]
    assert [batch for batch, _ in made.applied.values()] == [5, 5]
    assert made.steps == ["read", "compute"]
    counts = [json.loads(packed)["read"] for kind, packed in outputs if kind == COUNTS]
    assert counts == [{"in": {"tuple": 2}}, {"in": {"tuple": 1}}]


def test_the_idle_clock_reaches_each_bucket(lane):
    made = lane({0: 10, 1: 20}, {}, clock=PLANNED_AT)
    made.lane.outputs(5)
    assert {number: [kind for kind, _ in rows] for number, (_, rows) in made.applied.items()} == {
        0: [IDLE_CLOCK, TOPICS], 1: [IDLE_CLOCK, TOPICS],
    }  # fmt: skip


def test_a_lane_that_is_closed_closes_its_client(lane):
    made = lane({0: 10, 1: 20}, {})
    made.lane.outputs(5)
    assert not made.feed.closed
    made.lane.close()
    assert made.feed.closed


@pytest.mark.parametrize("ends", [
    pytest.param({0: 11, 1: 21, 2: 1}, id="a new topic partition"),
    pytest.param({0: 9, 1: 20}, id="a topic that was created anew"),
])  # fmt: skip
def test_spark_does_a_batch_with(lane, ends):
    made = lane(ends, {})
    assert made.lane.outputs(5) is None
    assert made.applied == {}


def test_readers_read_a_batch_of_many_records_and_each_bucket_gets_their_rows(lane):
    made = lane({0: 12, 1: 22}, {})
    assert made.lane.outputs(5) == [(RECORDS, b"bucket 0"), (RECORDS, b"bucket 1")]
    time, held = (PLANNED_AT + 5) * 1_000_000, 32 << 20
    assert made.read == {
        0: Ranges(5, time, {("in", 0): 10}, {("in", 0): 12}, held),
        1: Ranges(5, time, {("in", 1): 20}, {("in", 1): 22}, held),
    }
    assert made.feed.taken == []
    assert made.applied[0] == (5, [])
    assert [row for row in made.applied[1][1] if row[0] == RECORDS] == [
        (RECORDS, b"of reader 0"), (RECORDS, b"of reader 1"),
    ]  # fmt: skip


def test_a_reader_whose_topic_partitions_have_no_records_is_not_asked(lane):
    made = lane({0: 10, 1: 24}, {}, clock=PLANNED_AT)
    made.lane.outputs(5)
    assert [*made.read] == [1]
    assert [kind for kind, _ in made.applied[1][1]] == [IDLE_CLOCK, RECORDS, TOPICS]


def test_readers_read_a_batch_whose_records_are_probably_too_large(lane):
    made = lane({0: 12, 1: 20}, {})
    made.feed.room = 1
    made.lane.outputs(5)
    assert (made.feed.taken, [*made.read]) == ([], [0])


def test_readers_read_a_batch_whose_records_turn_out_to_be_too_large(lane):
    made = lane({0: 12, 1: 20}, TooManyBytesError("they have more bytes"))
    made.lane.outputs(5)
    assert [*made.read] == [0]


@pytest.mark.parametrize("error", [RecordsNotReadError("late"), EOFError("the reader died"), TimeoutError("no pool")])
def test_spark_does_a_batch_that_a_reader_cannot_read(lane, error):
    made = lane({0: 12, 1: 22}, {}, unread=error)
    assert made.lane.outputs(5) is None
    assert made.applied == {}


def test_an_error_of_a_reader_fails_the_batch(lane):
    with pytest.raises(StateServerError, match="no such schema"):
        lane({0: 12, 1: 22}, {}, unread=StateServerError("no such schema")).lane.outputs(5)


def test_spark_does_a_batch_while_the_pool_is_not_there(lane, monkeypatch):
    monkeypatch.setattr(direct_lane.pool, "reachable", lambda: False)
    assert lane({0: 11, 1: 20}, {}).lane.outputs(5) is None


@pytest.mark.parametrize("error", [ConnectionRefusedError("no pool"), EOFError("the state server died")])
def test_spark_does_a_batch_whose_state_servers_cannot_be_reached(lane, error):
    made = lane({0: 11, 1: 20}, {("in", 0): [message(0, 10, "a")]}, fails=error)
    assert made.lane.outputs(5) is None


def test_spark_does_a_batch_whose_records_are_not_at_hand(lane):
    assert lane({0: 11, 1: 20}, RecordsNotReadError("late")).lane.outputs(5) is None


def test_spark_does_a_batch_with_a_header_that_the_client_cannot_read(lane):
    made = lane({0: 11, 1: 20}, HeaderNameError("the name of a header is not UTF-8"))
    assert made.lane.outputs(5) is None
    assert made.applied == {}


def test_an_error_of_the_engine_fails_the_batch(lane):
    made = lane({0: 11, 1: 20}, {("in", 0): [message(0, 10, "a")]}, fails=ValueError("a handler failed"))
    with pytest.raises(ValueError, match="a handler failed"):
        made.lane.outputs(5)
