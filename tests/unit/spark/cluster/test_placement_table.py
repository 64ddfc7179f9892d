"""The table of preferred locations, by what Spark plans for it. No cluster is needed."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from sluice.batch.packed_rows import labels
from sluice.spark.placement import Executor, PlacementTable

pytestmark = pytest.mark.spark


def packed(spark: SparkSession, buckets: int) -> DataFrame:
    """Three rows of each bucket, in the partition of the bucket's number."""
    rows = [(label, number, b"row") for label in labels(buckets) for number in range(3)]
    return spark.createDataFrame(rows, "bucket int, kind int, packed binary").repartition(buckets, "bucket")


@pytest.mark.parametrize("buckets", [1, 2, 5])
def test_rows_stay_in_the_partition_of_their_bucket_without_another_shuffle(spark, buckets):
    rows = packed(spark, buckets)
    joined = PlacementTable(spark, buckets).joined(rows)
    assert joined.columns == rows.columns
    plan = joined._jdf.queryExecution().executedPlan().toString()  # noqa: SLF001
    assert plan.count("Exchange") == 1
    found = joined.select("bucket", "kind", sf.spark_partition_id().alias("partition")).collect()
    numbers = {label: number for number, label in enumerate(labels(buckets))}
    assert sorted((row.partition, row.kind) for row in found) == [
        (bucket, number) for bucket in range(buckets) for number in range(3)
    ]
    assert all(numbers[row.bucket] == row.partition for row in found)


def test_tasks_prefer_the_executor_to_which_their_bucket_moved(spark):
    table = PlacementTable(spark, 3)
    joined = table.joined(packed(spark, 3))
    a, b = Executor("1", "here"), Executor("22", "there")
    assert preferred(spark, joined) == [["executor_nowhere_none"]] * 3
    table.move({0: a, 1: b, 2: a})
    assert preferred(spark, joined) == [["executor_here_1"], ["executor_there_22"], ["executor_here_1"]]
    table.move({0: b, 1: b})
    assert preferred(spark, joined) == [["executor_there_22"], ["executor_there_22"], ["executor_nowhere_none"]]


def preferred(spark: SparkSession, rows: DataFrame) -> list[list[str]]:
    """The preferred locations of each task, as Spark's scheduler asks for them."""
    scala: Any = spark.sparkContext._jsc.sc()  # noqa: SLF001
    rdd = rows._jdf.queryExecution().toRdd()  # noqa: SLF001
    places = [scala.dagScheduler().getPreferredLocs(rdd, number) for number in range(rdd.getNumPartitions())]
    return [[some.apply(number).toString() for number in range(some.size())] for some in places]
