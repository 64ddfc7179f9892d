from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from sluice.batch.envelope import DEAD_LETTERS
from sluice.batch.query_plan import Plan
from sluice.config.load import load_text
from sluice.spark.pace import Pace
from sluice.spark.route_records import route
from sluice.spark.source import PLANNED, planned_time, read

PIPELINE = """
pipeline: p
kafka: {bootstrap.servers: "127.0.0.1:1"}
streams:
  in: {topic: in, schema: {n: int64}}
  out: {topic: out}
operators:
  - {name: all, map: in, output: [out]}
"""


@pytest.mark.spark
def test_nothing_depends_on_the_time_of_the_batch(spark, capsys):
    """It would be a constant in the code that Spark generates, and that would be compiled anew for each batch."""
    plan = Plan(load_text(PIPELINE, "p", environment=None), "q", "s", "c", 1, {"in": 1, "out": 1})
    read(spark, plan, Pace(1, 1)).explain(extended=True)
    words = capsys.readouterr().out
    assert "current" not in words
    assert "timestamp" in words


@pytest.mark.spark
def test_the_planned_time_of_a_batch_is_that_of_the_offset_log_also_in_its_rerun(spark, tmp_path):
    """Nothing is compiled again for a batch with another time."""
    seen: dict[int, set[int]] = {}
    compiled: dict[int, int] = {}

    def note(rows: DataFrame, batch: int) -> None:
        seen[batch] = seen.get(batch, set()) | {row[PLANNED] for row in rows.collect()}
        compiled[batch] = compilations(spark)

    for _ in range(4):
        (tmp_path / "files" / f"{len(seen)}").parent.mkdir(exist_ok=True)
        (tmp_path / "files" / f"{len(seen)}").write_text("a\nb\n")
        run(spark, tmp_path, note)
    (tmp_path / "checkpoint" / "commits" / "3").unlink()
    (tmp_path / "checkpoint" / "commits" / ".3.crc").unlink(missing_ok=True)
    run(spark, tmp_path, note)
    times = {batch: {logged_time(tmp_path / "checkpoint" / "offsets" / str(batch))} for batch in range(4)}
    assert seen == times
    assert len({*map(str, times.values())}) == 4
    assert compiled[3] == compiled[2]


def logged_time(file: Path) -> int:
    """The planned time of a batch, in milliseconds since 1970, by Spark's log of offsets."""
    return int(json.loads(file.read_text().splitlines()[1])["batchTimestampMs"])


def run(spark: SparkSession, folder: Path, note) -> None:
    rows = spark.readStream.text(str(folder / "files")).select("value", planned_time().alias(PLANNED))
    writer = rows.writeStream.foreachBatch(note).option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(60)


def compilations(spark: SparkSession) -> int:
    metrics = spark.sparkContext._jvm.org.apache.spark.metrics.source.CodegenMetrics  # noqa: SLF001
    return metrics.METRIC_COMPILATION_TIME().getCount()


def test_a_task_whose_records_have_the_planned_time_needs_no_checkpoint():
    plan = Plan(load_text(PIPELINE, "p", environment=None), "q", "s", "/nowhere", 1, {"in": 1, "out": 1})
    day = 24 * 3600 * 1000
    assert DEAD_LETTERS in kinds_of_rows(plan, planned_at=0, timestamp=day)
    assert DEAD_LETTERS not in kinds_of_rows(plan, planned_at=day, timestamp=day)


def kinds_of_rows(plan: Plan, planned_at: int, timestamp: int) -> list[int]:
    """What the packed rows of one record hold, whose batch and which have these times, in milliseconds."""
    record = {
        "key": None, "value": b'{"n": 1}', "headers": None, "place": 0, "offset": 7, "timestamp": timestamp * 1000,
        PLANNED: planned_at,
    }  # fmt: skip
    schema = pa.schema([
        ("key", pa.binary()), ("value", pa.binary()), ("headers", pa.string()), ("place", pa.int64()),
        ("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC")), (PLANNED, pa.int64()),
    ])  # fmt: skip
    batches = [pa.RecordBatch.from_pylist(rows, schema) for rows in ([], [record])]
    return [holds for batch in route(plan, iter(batches)) for holds in batch.column("holds").to_pylist()]
