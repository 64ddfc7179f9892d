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


#: name of the column with the batch's planned time
PLANNED = "planned"


def read(spark: SparkSession, plan: Plan, most: Pace, *, timed: bool = False) -> DataFrame:
    """The records of all topics. Each topic partition is read by one task, in the order of its offsets.

    Columns: `key`, `value`, `headers`, `place` (of the first record of the topic partition), `offset` and `timestamp`.
    With `timed` also `planned` (planned_time).

    No other expression may depend on the batch, as the current time does. Spark would put its value into the code that
    it generates, and would compile this code again in each batch.
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
    records = spark.readStream.format("kafka").options(**options).load()
    return records.select(
        "key",
        "value",
        sf.to_json(sf.col("headers")).alias("headers"),  # as JSON text, which wire/header_text.py reads
        _place(plan.inputs).alias("place"),
        "offset",
        "timestamp",
        *([planned_time().alias(PLANNED)] if timed else []),
    )


def planned_time() -> Column:
    """The time at which the batch was planned, in milliseconds since 1970.

    It is the time in Spark's offset log, also when the batch runs again. With this column the executors of a cluster do
    not read the log. Spark generates no code for the function `transform` but interprets it, so the time is not a part
    of generated code, and nothing is compiled again in each batch.
    """
    return sf.transform(sf.array(sf.unix_millis(sf.current_timestamp())), lambda time: time)[0]


def _place(inputs: tuple[Stream, ...]) -> Column:
    """The place of the first record of the topic partition, as batch/record_order.py defines it."""
    port = sf.lit(0)
    for number, stream in enumerate(inputs[1:], 1):
        port = sf.when(sf.col("topic") == str(stream.topic), sf.lit(number)).otherwise(port)
    partition = sf.col("partition").cast("long")
    return sf.shiftleft(port.cast("long"), PORT).bitwiseOR(sf.shiftleft(partition, TOPIC_PARTITION))
