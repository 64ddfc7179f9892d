"""Starts the Spark query of a stage: checks its topics, checkpoint and ledger, and connects source, router and sink."""

from __future__ import annotations

import uuid
from functools import partial

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sluice.batch.commit import Deliver, commit
from sluice.batch.query_plan import Plan
from sluice.checkpoint.offset_log import offsets_read
from sluice.kafka import topics
from sluice.kafka.record_wait import RecordWait
from sluice.kafka.requests import RETRY_TIMEOUT_S, clients, patience
from sluice.kafka.topics import Topic
from sluice.model.spec import Pipeline
from sluice.ops.batch_progress import Observe, ignored
from sluice.spark.batch_interval import BatchInterval
from sluice.spark.idle_clock import IdleClock, NextDueTime, beside, idle_clock, last_time
from sluice.spark.lanes.batch_lanes import BatchLanes, OpenLanes
from sluice.spark.lanes.direct_lane import DirectLane, RecordFeed
from sluice.spark.lanes.spark_lane import SparkLane
from sluice.spark.lanes.topic_check import TopicCheck
from sluice.spark.placement import Placement, PlacementTable
from sluice.spark.quiet_wait import QuietWait, WaitSource
from sluice.spark.source import BatchSize, Pace, pace_of, read, record_size, sized_by_file
from sluice.spark.spark_internals import ask_last, empty_stream, limit_batches, no_offset
from sluice.state.checkpoint_start import open_checkpoint
from sluice.time_units import MILLISECOND
from sluice.wire.record_codec import Records


def prepare(pipeline: Pipeline, *, reset_ledger: bool = False, accept: bool = False, on_cluster: bool = False) -> Plan:
    """Checks that topics, checkpoint and ledger exist and fit together, and creates or restores the missing ones.

    With `reset_ledger` it first overwrites the ledger with the position of this checkpoint. With `accept`, the states
    of operators may be lost by a change of the pipeline file.
    """
    with patience(RETRY_TIMEOUT_S):  # one request after the other, each with this bound alone, could wait for minutes
        topics, start_id = check_topics(pipeline), str(uuid.uuid4())
        return open_checkpoint(
            pipeline, topics, start_id, reset_ledger=reset_ledger, accept=accept, on_cluster=on_cluster
        )


def check_topics(pipeline: Pipeline) -> dict[str, Topic]:
    """Checks the formats and the topics of a stage, and creates missing topics. Returns the topics by name."""
    settings = pipeline.settings
    for stream in pipeline.inputs:
        Records.of(stream, settings.registry)  # a missing package of its format ends the start, not the first batch
    for stream in pipeline.outputs:
        Records.of(stream, settings.registry).check()
    return topics.check(pipeline)


def start(
    spark: SparkSession,
    plan: Plan,
    placed: Placement | None = None,
    opened: OpenLanes | None = None,
    *,
    deliver: Deliver = commit,
    observe: Observe = ignored,
) -> StreamingQuery:
    """Starts the query of this plan and returns without waiting for a batch. `deliver` gets the outputs of each batch,
    `observe` the durations of its steps.

    `placed` decides on which executor of a cluster each bucket is. `opened` gets the lanes of the query, for the caller
    to close after the query has ended. Without it their Kafka clients stay open until the process ends.
    """
    table = placed.table(plan.pipeline.name, plan.buckets) if placed is not None else None
    cores = 1 if placed is None else placed.cores
    settings, size, due = plan.pipeline.settings, record_size(plan), NextDueTime()
    pace = pace_of(settings, size, cores)
    lanes = _lanes(plan, pace, table, due.of_batches(deliver), observe)
    (opened or OpenLanes()).add(lanes)
    quiet, called = _quiet_wait(plan, lanes), partial(lanes.called, spark)
    records = received = read(spark, plan, pace)
    if plan.has_idle_clock:
        clock = _idle_clock(plan, due, lanes)
        records = beside(received, clock, last_time(plan), spark, called, wait=quiet.wait)
    query = (
        records.writeStream.foreachBatch(lanes)
        .queryName(plan.pipeline.name)
        .option("checkpointLocation", plan.checkpoint)
        .trigger(processingTime=f"{settings.trigger_interval // MILLISECOND} milliseconds")
        .start()
    )
    if not plan.has_idle_clock:
        ask_last(spark, query, WaitSource(empty_stream(received), no_offset(spark), called, quiet))
    if placed is not None and not sized_by_file(settings):
        most, limit = lambda cores: pace_of(settings, size, cores).batch, partial(limit_batches, spark, query)
        lanes.also_after_batch(BatchSize(cores, placed.present_cores, most, limit).batch_ended)
    return query


def _lanes(plan: Plan, pace: Pace, table: PlacementTable | None, deliver: Deliver, observe: Observe) -> BatchLanes:
    """The lanes of the query. With a table of executors the state servers are on their machines, so none is direct."""
    settings, check, direct = plan.pipeline.settings, TopicCheck(plan), None
    if table is None and settings.direct_records:
        all_read = check.passed if plan.parted else check.begin
        direct = DirectLane(plan, RecordFeed.of(settings.kafka), observe=observe, all_read=all_read)
    interval = BatchInterval(settings, pace.batch)
    spark = SparkLane(plan, table)
    lanes = BatchLanes(plan, spark, direct, check, deliver, observe=observe, pause=interval.batch_ended)
    lanes.also_wake(interval.end)
    return lanes


def _quiet_wait(plan: Plan, lanes: BatchLanes) -> QuietWait:
    """The wait for records while none come. `lanes` ends it and closes its client."""
    record_wait = RecordWait(plan.pipeline.settings.kafka)
    lanes.also_wake(record_wait.end)
    lanes.also_close(record_wait.close)
    return QuietWait(record_wait, partial(offsets_read, plan.store), lanes.last, lanes.rest)


def _idle_clock(plan: Plan, due: NextDueTime, lanes: BatchLanes) -> IdleClock:
    """The idle clock of a query. `lanes` closes the client that it needs."""
    # One attempt: the clock makes the next one a second later, and a stop of the query waits for it.
    requests = clients(plan.pipeline.settings.kafka, "admin", retry_s=0.0)
    lanes.also_close(requests.close)
    return idle_clock(plan, requests, due)
