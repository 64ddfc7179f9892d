"""The input topics as one stream of Spark's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from service.spark.headers import as_text

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")


def read(spark: SparkSession, topics: Iterable[str], client: Mapping[str, str], start: str, most: int) -> DataFrame:
    """The records of the topics in the order of each topic partition; at most `most` in a batch.

    `client` are properties of Kafka's Java client. Never `minPartitions`: it would split the range of a topic
    partition, whose running maximum of time needs it whole.
    """
    options = {
        "subscribe": ",".join(topics),
        "includeHeaders": "true",
        "startingOffsets": start,
        "failOnDataLoss": "true",
        "maxOffsetsPerTrigger": str(most),
        "kafka.isolation.level": "read_committed",
        **{f"kafka.{name}": value for name, value in client.items()},
    }
    batch_time = sf.current_timestamp().alias("batch_time")  # of the offset log, so a rerun is equal
    records = spark.readStream.format("kafka").options(**options).load()
    return records.select(*COLUMNS, as_text(sf.col("headers")).alias("headers"), batch_time)
