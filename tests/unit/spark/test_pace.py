"""Batches and fetches are planned by the sizes of the records that come next."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer

from sluice.batch.query_plan import Plan
from sluice.checkpoint.folder_store import FolderStore
from sluice.checkpoint.offset_log import planned
from sluice.config.load import load_text
from sluice.model.spec import Properties, Settings
from sluice.spark import source as module
from sluice.spark.query import prepare
from sluice.spark.source import POLL, POLL_RECORDS, BatchSize, Pace, pace, pace_of, read, record_size, size_of
from sluice.spark.spark_internals import limit_batches

PIPELINE = """
streams:
  in: {schema: {n: int64}}
  out: {}
operators:
  - {name: all, map: in, output: [out]}
max_records_per_batch: 5000
max_bytes_per_batch: 1000000
"""


def test_small_records_and_unknown_ones_are_bounded_by_their_number():
    for size in (0, 10):
        assert pace(5000, 1_000_000, size) == Pace(5000, POLL_RECORDS)


def test_large_ones_are_bounded_by_their_bytes():
    assert pace(5000, 1_000_000, 10_000) == Pace(100, POLL // 10_000)


def test_there_is_always_one():
    assert pace(5000, 1_000_000, 1 << 30) == Pace(1, 1)


def test_a_batch_follows_the_cores_of_the_executors():
    """By its records and by its bytes, which a size of the file does not."""
    settings = Settings(Properties())
    assert [pace_of(settings, 10, cores).batch for cores in (1, 2, 3)] == [250_000, 500_000, 750_000]
    assert [pace_of(settings, 1 << 20, cores).batch for cores in (1, 2, 3)] == [256, 512, 768]
    assert pace_of(replace(settings, max_records_per_batch=7000), 10, 3).batch == 7000


def test_the_bound_changes_when_executors_have_joined_or_left():
    present, limits = iter([2, 2, 3, 3, 1]), []
    size = BatchSize(2, partial(next, present), lambda cores: 1000 * cores, limits.append)
    for _ in range(5):
        size.batch_ended()
    assert limits == [3000, 1000]


def test_the_consumer_is_closed_in_a_thread_of_its_own(monkeypatch):
    """Closing may block while a broker does not answer."""
    closed_in = []

    class Closing(Consumer):
        def close(self):
            closed_in.append(threading.current_thread().name)

    monkeypatch.setattr(module, "Consumer", Closing)
    monkeypatch.setattr(module, "_means", lambda *_: [10.0])
    text = PIPELINE.replace("in: {", "in: {topic: in, ").replace("out: {", "out: {topic: out")
    pipeline = load_text("kafka: {bootstrap.servers: 'localhost:1'}\npipeline: p\n" + text, "p.yaml")
    assert measured(Plan(pipeline, "query", "start", "checkpoint", 1, {})) == Pace(5000, POLL_RECORDS)
    assert closed_in == ["sluice-discard"]


def measured(plan):
    return pace_of(plan.pipeline.settings, record_size(plan))


def unreadable():
    raise SystemError("<method 'headers'> returned a result with an exception set")


@pytest.mark.parametrize(("headers", "size"), [
    (lambda: None, 8),
    (lambda: [("name", b"12"), ("none", None)], 18),
    (unreadable, 8),
])  # fmt: skip
def test_keys_values_and_readable_headers_count(headers, size):
    message = SimpleNamespace(
        key=lambda: b"key", value=lambda: b"value", headers=headers, set_headers=lambda _: None,
        topic=lambda: "in", partition=lambda: 0, offset=lambda: 7,
    )  # fmt: skip
    assert size_of(message) == size


@pytest.mark.kafka
@pytest.mark.spark
def test_sizes_are_measured_where_the_next_batch_reads(service):
    """Few large records behind small ones count, and so do those of any topic partition."""
    service.create("in", 3)
    plan = prepare(service.pipeline(PIPELINE))
    assert measured(plan) == Pace(5000, POLL_RECORDS), "an empty topic"
    service.send("in", [{"value": b"x" * 10, "partition": 0}] * 1000)
    assert measured(plan) == Pace(5000, POLL_RECORDS)
    service.send("in", [{"value": b"x" * 100_000, "partition": 2}] * 20)
    assert measured(plan) == Pace(10, POLL // 100_000)


@pytest.mark.kafka
@pytest.mark.spark
def test_the_next_batches_of_a_running_query_take_another_number_of_records(service, spark, tmp_path):
    service.create("in", 2)
    service.send("in", [{"value": b"1", "partition": number % 2} for number in range(80)])
    plan, ends, queries = prepare(service.pipeline(PIPELINE)), [], []

    def note(_, batch):
        ends.append(sum(planned(FolderStore(tmp_path / "checkpoint"), batch).offsets.values()))
        if queries and len(ends) == 2:
            limit_batches(spark, queries[0], 30)

    records = read(spark, plan, Pace(10, 10))
    writer = records.writeStream.foreachBatch(note).option("checkpointLocation", str(tmp_path / "checkpoint"))
    queries.append(writer.start())
    while len(ends) < 4 and queries[0].isActive:
        queries[0].awaitTermination(0.1)
    queries[0].stop()
    assert ends == [10, 20, 50, 80]
