from __future__ import annotations

import socket
import threading

import orjson
import pytest

from sluice.batch.packed_rows import COUNTS, RECORDS, SPOOLED, unpack
from sluice.batch.query_plan import Plan
from sluice.batch.spool import in_memory
from sluice.config.load import load_text
from sluice.kafka.following_reader import FollowingReader, RecordsNotReadError
from sluice.state.message import Message
from sluice.state.server import read_request
from sluice.state.server.read_request import Ranges, Reads, read, readers_of
from sluice.state.server.request import StateServerError
from tests.unit.kafka.fake_consumer import Consumer, Record

A, B = ("trades", 0), ("trades", 1)
PLANNED_AT = 1_700_000_000_000_000_000
FILE = """
pipeline: reads
streams:
  trades: {topic: trades, schema: {k: string}}
  out: {topic: out}
operators:
  - name: counted
    aggregate: trades
    window: tumbling, count(2), partitioned
    partition_by: [k]
    output: {out: {k: k}}
kafka: {bootstrap.servers: "nowhere:9092"}
"""


def a_tuple(place, offset, key):
    """A record with a tuple whose attribute k is `key`."""
    return Record(place, offset, content=orjson.dumps({"k": key}), milliseconds=PLANNED_AT // 1_000_000)


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """What `read` returns for a plan of two buckets, if a reader with this consumer gets the request."""
    ours, theirs = socket.socketpair()

    def answer():
        with theirs, theirs.makefile("rb") as file:
            Reads().answer(theirs, Message.read(file))

    def ask(consumer, starts, ends, held=1 << 20):
        plan = Plan(load_text(FILE, "reads.yaml"), "q", "s", str(tmp_path), 2, {"trades": 2, "out": 1})
        monkeypatch.setattr(FollowingReader, "of", lambda *_: FollowingReader(lambda: consumer, 0.0))
        monkeypatch.setattr(read_request.pool, "connection", lambda *_: ours)
        reader = threading.Thread(target=answer)
        reader.start()
        try:
            return read(plan, 0, Ranges(7, PLANNED_AT, starts, ends, held))
        finally:
            reader.join()

    return ask


def of_kind(wanted, rows):
    return [(bucket, body) for bucket, (kind, body) in rows if kind == wanted]


def test_each_bucket_gets_the_tuples_of_its_keys_and_the_counts_of_each_topic_partition_come_along(asked):
    consumer = Consumer(
        [a_tuple(A, 5, "a"), a_tuple(B, 0, "b")], [a_tuple(A, 6, "c"), a_tuple(A, 7, "of the next batch")]
    )
    rows = asked(consumer, {A: 5, B: 0}, {A: 7, B: 1})
    slices = of_kind(RECORDS, rows)
    assert sorted(bucket for bucket, _ in slices) == [0, 0, 1, 1]
    assert sorted(row["k"] for _, body in slices for row in unpack(body)[0].to_pylist()) == ["a", "b", "c"]
    counts = [(bucket, orjson.loads(body)["read"]["trades"]["tuple"]) for bucket, body in of_kind(COUNTS, rows)]
    assert sorted(counts) == [(0, 2), (1, 1)]


def test_rows_that_do_not_fit_into_the_answer_are_in_a_file(asked, tmp_path):
    rows = asked(Consumer([a_tuple(A, 5, "a")]), {A: 5}, {A: 6}, held=0)
    assert all(kind & SPOOLED for _, (kind, _) in rows)
    stored = [*in_memory(str(tmp_path), (row for _, row in rows))]
    assert [row["k"] for kind, body in stored if kind == RECORDS for row in unpack(body)[0].to_pylist()] == ["a"]


def test_records_that_the_reader_cannot_read_are_reported(asked):
    with pytest.raises(RecordsNotReadError, match="did not arrive"):
        asked(Consumer(), {A: 5}, {A: 6})


def test_a_failure_of_the_reader_is_an_error_with_its_stack_trace(asked):
    class Failing(Consumer):
        def receive(self, _):
            raise ValueError("a defect")

    with pytest.raises(StateServerError, match="ValueError: a defect"):
        asked(Failing(), {A: 5}, {A: 6})


def test_a_reader_has_a_client_for_each_query_that_it_has_read_for_last(monkeypatch):
    made, closed = [], []

    def close(client):
        closed.append(client)

    monkeypatch.setattr(read_request, "MOST_CLIENTS", 2)
    monkeypatch.setattr(FollowingReader, "of", lambda *_: made.append(1) or FollowingReader(Consumer, 0.0))
    monkeypatch.setattr(FollowingReader, "close", close)
    monkeypatch.setattr(FollowingReader, "read", lambda *_: (yield from ()))
    reads = Reads()
    for start, clients in (("a", 1), ("b", 2), ("a", 2), ("c", 3), ("a", 3), ("b", 4)):
        plan = Plan(load_text(FILE, "reads.yaml"), "q", start, "folder", 2, {"trades": 2, "out": 1})
        reads._answer(plan, Ranges(7, PLANNED_AT, {A: 1}, {A: 1}, 0))  # noqa: SLF001
        assert len(made) == clients
    assert len(closed) == 2


def test_queries_with_one_topic_partition_have_different_readers(monkeypatch):
    asked = set()

    def answer(query, number, *_):
        asked.add((query, number))
        return Message((0,), [])

    monkeypatch.setattr(read_request, "processors", lambda: 2)
    monkeypatch.setattr(read_request, "ask", answer)
    for query in "abcdefgh":
        plan = Plan(load_text(FILE, "reads.yaml"), query, "s", "folder", 2, {"trades": 1, "out": 1})
        read(plan, 0, Ranges(7, PLANNED_AT, {A: 1}, {A: 2}, 0))
    assert asked == {("readers", 0), ("readers", 1)}


@pytest.mark.parametrize(("processors", "readers"), [(1, 1), (2, 2), (64, 3)])
def test_there_is_a_reader_for_each_processor_and_none_without_a_topic_partition(monkeypatch, processors, readers):
    monkeypatch.setattr(read_request, "processors", lambda: processors)
    plan = Plan(load_text(FILE, "reads.yaml"), "q", "s", "folder", 2, {"trades": 3, "out": 1})
    assert readers_of(plan) == readers
