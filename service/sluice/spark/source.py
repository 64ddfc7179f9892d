"""The source: the input topics of a stage as one streaming DataFrame of Spark."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from sluice.batch.query_plan import Plan
from sluice.batch.record_order import PORT, TOPIC_PARTITION
from sluice.kafka.client import java_properties
from sluice.model.spec import Stream
from sluice.spark.pace import Pace

#: Consumer properties unless the pipeline file sets them: fetches are fewer and larger than by default, and the broker
#: answers after 10 ms at most. A consumer sends its next fetch as soon as it has records. With few records, a batch
#: would otherwise wait 500 ms for the answer to that fetch before it could send its own.
FETCHES = {"max.partition.fetch.bytes": str(4 << 20), "fetch.max.wait.ms": "10"}


def read(spark: SparkSession, plan: Plan, most: Pace) -> DataFrame:
    """The records of all topics, in the columns of Spark's Kafka source. Each topic partition is read by one task, in
    the order of its offsets.
    """
    settings = plan.pipeline.settings
    client = FETCHES | {"max.poll.records": str(most.poll)} | java_properties(settings.kafka)
    # `minPartitions` must not be set: it would split a topic partition between tasks, but its running maximum of
    # timestamps needs all its records in one task.
    options = {
        "subscribe": ",".join(str(stream.topic) for stream in plan.inputs),
        "includeHeaders": "true",
        "startingOffsets": settings.start,
        "failOnDataLoss": str(settings.on_data_loss == "fail").lower(),
        "maxOffsetsPerTrigger": str(most.batch),
        "kafka.isolation.level": "read_committed",
        **{f"kafka.{name}": value for name, value in client.items()},
    }
    return spark.readStream.format("kafka").options(**options).load()


def received(plan: Plan, records: DataFrame) -> DataFrame:
    """The columns of `records` that the router reads: `key`, `value`, `headers`, `ordinal` (of the first record of the
    topic partition), `offset` and `timestamp`.

    No expression may depend on the batch, as the current time does. Spark would put its value into the code that it
    generates, and would compile this code again in each batch.
    """
    headers = sf.to_json(sf.col("headers")).alias("headers")  # as JSON text, which wire/header_text.py reads
    return records.select("key", "value", headers, _ordinal(plan.inputs).alias("ordinal"), "offset", "timestamp")


def _ordinal(inputs: tuple[Stream, ...]) -> Column:
    """The ordinal of the first record of the topic partition, as batch/record_order.py defines it."""
    port = sf.lit(0)
    for number, stream in enumerate(inputs[1:], 1):
        port = sf.when(sf.col("topic") == str(stream.topic), sf.lit(number)).otherwise(port)
    partition = sf.col("partition").cast("long")
    return sf.shiftleft(port.cast("long"), PORT).bitwiseOR(sf.shiftleft(partition, TOPIC_PARTITION))
