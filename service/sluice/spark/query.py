"""Starts the Spark query of a stage: checks its topics, checkpoint and ledger, and connects source, router and sink."""

from __future__ import annotations

import os
import uuid
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from sluice.batch.envelope import ROUTED
from sluice.batch.query_plan import Plan
from sluice.checkpoint import checkpoint_identity, offset_log
from sluice.checkpoint.stores import store_of
from sluice.kafka import ledger, topics
from sluice.model.mark_scope import require_scope
from sluice.model.spec import Pipeline
from sluice.model.spreading import spread_by
from sluice.spark.cluster.placement import Placement
from sluice.spark.idle_clock import idle_clock_source
from sluice.spark.lanes.batch_lanes import BatchLanes
from sluice.spark.lanes.direct_lane import DirectLane
from sluice.spark.lanes.record_feed import RecordFeed
from sluice.spark.pace import measured
from sluice.spark.route_records import route
from sluice.spark.sink import sink
from sluice.spark.source import read
from sluice.time_units import MILLISECOND
from sluice.wire.record_codec import Records


def prepare(pipeline: Pipeline, *, reset_ledger: bool = False) -> Plan:
    """Checks that topics, checkpoint and ledger exist and fit together, and creates the missing ones.

    With `reset_ledger` it first overwrites the ledger with the position of this checkpoint.
    """
    settings = pipeline.settings
    for stream in pipeline.outputs:
        Records.of(stream, settings.registry).check()
    found = topics.check(pipeline)
    require_scope(pipeline, {stream.name: found[str(stream.topic)].partitions for stream in pipeline.inputs})
    store = store_of(pipeline)
    buckets = 1 if spread_by(pipeline) is None else settings.buckets
    identity = checkpoint_identity.claim(
        store, pipeline.name, checkpoint_identity.fingerprint_of(pipeline), buckets, os.cpu_count() or 1,
        definition=checkpoint_identity.definition_of(pipeline),
    )  # fmt: skip
    offset_log.verify(store)
    committed, planned = offset_log.batches(store)
    if reset_ledger:
        ledger.reset(settings.kafka, pipeline.name, identity.query, committed, offset_log.known(store, committed))
    digest_of = partial(offset_log.digest, store)
    ledger.verify(settings.kafka, pipeline.name, identity.query, committed, planned, digest_of=digest_of)
    return Plan.of(pipeline, identity, found, str(uuid.uuid4()))


def start(spark: SparkSession, plan: Plan, placed: Placement | None = None) -> StreamingQuery:
    """Starts the query of this plan and returns without waiting for a batch.

    `placed` decides on which executor of a cluster each bucket is.
    """
    rows = inputs(spark, plan, timed=placed is not None)
    if placed is not None:
        rows = placed.table(plan.pipeline.name, plan.buckets).joined(rows)
    return (
        _writer(spark, plan, rows, direct=placed is None)
        .queryName(plan.pipeline.name)
        .option("checkpointLocation", plan.checkpoint)
        .trigger(processingTime=f"{plan.pipeline.settings.trigger_interval // MILLISECOND} milliseconds")
        .start()
    )


def _writer(spark: SparkSession, plan: Plan, rows: DataFrame, *, direct: bool) -> DataStreamWriter:
    """Connects the rows to the sink, or to the two lanes if small batches may do without a job of Spark."""
    if direct and plan.pipeline.settings.direct_records:
        feed = RecordFeed.of(plan.pipeline.settings.kafka)
        return rows.writeStream.foreachBatch(BatchLanes(plan, DirectLane(plan, feed)))
    spark.dataSource.register(sink(plan))
    return rows.writeStream.format("sluice").outputMode("append")


def inputs(spark: SparkSession, plan: Plan, *, timed: bool = False) -> DataFrame:
    """The packed rows of a batch. The rows of a bucket are in the Spark partition that has the bucket's number.

    With `timed` the records have the planned time of the batch with them, so no task reads it from the checkpoint.
    """
    routed = read(spark, plan, measured(plan), timed=timed).mapInArrow(partial(route, plan), ROUTED)
    if plan.pulsing:
        spark.dataSource.register(idle_clock_source(plan))
        routed = routed.unionByName(spark.readStream.format("sluice-pulse").load())
    return routed.repartition(plan.buckets, "bucket")
