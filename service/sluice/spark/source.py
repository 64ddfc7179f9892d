"""The input topics as one stream of Spark's."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from sluice.batch.query_plan import Plan
from sluice.batch.record_order import PORT, TOPIC_PARTITION
from sluice.kafka.client import java_properties
from sluice.model.spec import Stream
from sluice.spark.pace import Pace

#: Where the file does not say otherwise: fewer and larger fetches than by default, and none that waits for records. A
#: consumer asks for more as soon as it has some; where few come, a batch would wait half a second for that answer,
#: before it could ask for its own.
FETCHES = {"max.partition.fetch.bytes": str(4 << 20), "fetch.max.wait.ms": "10"}


def read(spark: SparkSession, plan: Plan, most: Pace) -> DataFrame:
    """The records of all topics, those of a topic partition in one piece and in order.

    For each: `key`, `value`, `headers`, `place` of its topic partition, `offset` and `timestamp`. Nothing in it may
    depend on the batch, as the time of day does: it would be a constant in the code that Spark generates and compiles,
    which would be other code in each batch.
    """
    settings = plan.pipeline.settings
    client = FETCHES | {"max.poll.records": str(most.poll)} | java_properties(settings.kafka)
    # Never `minPartitions`: it would split what a task sees of a topic partition, whose running maximum needs it whole.
    options = {
        "subscribe": ",".join(str(stream.topic) for stream in plan.inputs),
        "includeHeaders": "true",
        "startingOffsets": settings.start,
        "failOnDataLoss": str(settings.on_data_loss == "fail").lower(),
        "maxOffsetsPerTrigger": str(most.batch),
        "kafka.isolation.level": "read_committed",
        **{f"kafka.{name}": value for name, value in client.items()},
    }
    records = spark.readStream.format("kafka").options(**options).load()
    return records.select(
        "key",
        "value",
        sf.to_json(sf.col("headers")).alias("headers"),  # as text: see header_text.py
        _place(plan.inputs).alias("place"),
        "offset",
        "timestamp",
    )


def _place(inputs: tuple[Stream, ...]) -> Column:
    """The place of the first record of the topic partition (places.py)."""
    port = sf.lit(0)
    for number, stream in enumerate(inputs[1:], 1):
        port = sf.when(sf.col("topic") == str(stream.topic), sf.lit(number)).otherwise(port)
    partition = sf.col("partition").cast("long")
    return sf.shiftleft(port.cast("long"), PORT).bitwiseOR(sf.shiftleft(partition, TOPIC_PARTITION))
