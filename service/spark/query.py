"""A pipeline as a running query."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from service.spark.packed import OUTGOING, ROUTED
from service.spark.plan import Plan
from service.spark.pulse import pulse
from service.spark.route import route
from service.spark.sink import sink
from service.spark.source import read
from service.spark.stage import Stage


def start(spark: SparkSession, plan: Plan, client: Mapping[str, str]) -> StreamingQuery:
    """Starts the query of this plan; `client` are properties of Kafka's Java client."""
    spark.dataSource.register(sink(plan))
    settings = plan.pipeline.settings
    writer = outputs(spark, plan, client).writeStream.format("sluice").outputMode("append")
    return (
        writer.queryName(plan.pipeline.name)
        .option("checkpointLocation", plan.checkpoint)
        .trigger(processingTime=f"{settings.trigger_interval // 1_000_000} milliseconds")
        .start()
    )


def outputs(spark: SparkSession, plan: Plan, client: Mapping[str, str]) -> DataFrame:
    """The packed rows that a batch writes."""
    settings = plan.pipeline.settings
    topics = [str(stream.topic) for stream in plan.inputs]
    records = read(spark, topics, client, settings.start, settings.max_records_per_batch)
    routed = records.mapInArrow(partial(route, plan), ROUTED)
    if plan.pulsing:
        spark.dataSource.register(pulse(plan))
        routed = routed.unionByName(spark.readStream.format("sluice-pulse").load())
    return routed.groupBy("bucket").transformWithState(Stage(plan), OUTGOING, "append", "none")
