"""One test for each private member of Spark that the package uses: a new version of Spark may change any of them.

That of `limit_batches` needs a broker: test_pace.py.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import functions as sf

from sluice.spark import spark_internals as internals
from sluice.spark.python_source import PythonSource

pytestmark = pytest.mark.spark


class Ticks(PythonSource):
    """A source without records, whose offset is the number of times that Spark has asked for one, at most 2."""

    def __init__(self, empty, offset):
        super().__init__("ticks", empty, lambda: None)
        self.offset, self.asked = offset, 0

    def next_offset(self):
        self.asked = min(self.asked + 1, 2)
        return self.offset(json.dumps({"asked": self.asked}))


class Wait(PythonSource):
    """A source without offsets, which notes what Spark asked before it."""

    def __init__(self, spark, empty, ticks):
        super().__init__("wait", empty, lambda: None)
        self.nothing, self.ticks, self.after = internals.no_offset(spark), ticks, []

    def next_offset(self):
        self.after.append(self.ticks.asked)
        return self.nothing


@pytest.fixture
def ended(spark, tmp_path):
    """A query over a source in Python, which has ended, and what was seen in its batches."""
    (tmp_path / "in").mkdir()
    records = spark.readStream.schema("n int").json(str(tmp_path / "in"))
    source = Ticks(internals.empty_stream(records), internals.serialized_offset(spark))
    connections = []

    def note(rows, _):
        connections.append((rows.count(), internals.thread_connection(spark)))

    query = (
        records.unionByName(internals.stream_of(source, spark))
        .writeStream.foreachBatch(note)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    wait = Wait(spark, internals.empty_stream(records), source)
    assert internals.ask_last(spark, query, wait)
    query.processAllAvailable()
    query.stop()
    return query, connections, tmp_path / "checkpoint", wait


@pytest.mark.usefixtures("spark")
def test_the_gateway_has_the_java_process_which_a_failure_explains():
    assert internals.gateway() is not None
    process = internals.java_process()
    assert process is not None
    assert process.poll() is None


def test_a_source_in_python_has_its_offsets_in_the_log_and_gives_no_rows(ended):
    _, batches, checkpoint, _ = ended
    offsets = [(checkpoint / "offsets" / str(n)).read_text().splitlines()[-1] for n in range(len(batches))]
    assert [json.loads(text)["asked"] for text in offsets] == [1, 2]
    assert [rows for rows, _ in batches] == [0, 0]


def test_a_source_that_is_asked_last_has_no_offset_in_the_log(ended):
    _, batches, checkpoint, wait = ended
    assert wait.after[-1] == 2, "asked, and after the source of the query"
    lines = [len((checkpoint / "offsets" / str(n)).read_text().splitlines()) for n in range(len(batches))]
    assert lines == [4, 4], "version, batch, files, ticks"


def test_the_connection_of_a_query_is_one_socket_which_is_closed_after_the_query(ended):
    _, batches, *_ = ended
    sockets = {connection for _, connection in batches}
    assert len(sockets) == 1
    assert sockets.pop().fileno() >= 0


def test_a_thread_without_calls_has_no_connection_to_close(spark):
    with ThreadPoolExecutor() as pool:
        assert pool.submit(internals.thread_connection, spark).result() is None


def test_progress_reports_come_from_sparks_own_objects(ended):
    query, *_ = ended
    kept = internals.kept_reports(query)
    assert [json.loads(report.json())["batchId"] for report in kept][:2] == [0, 1]
    newest = internals.newest_report(query)
    assert (newest.batchId(), newest.timestamp()) == (kept[-1].batchId(), kept[-1].timestamp())


def test_executors_are_found_by_their_block_managers(spark):
    assert internals.block_managers(spark).startswith("BlockManagerId(driver, ")


def test_the_cores_of_an_executor_come_from_the_status_store(spark):
    assert internals.executor_cores(spark, "driver") == 2  # local[2]


def test_an_executor_without_an_entry_is_an_error_of_py4j(spark):
    with pytest.raises(Py4JError):
        internals.executor_cores(spark, "1")


def test_a_table_has_a_row_in_a_partition_for_each_value_and_its_places_may_change(spark):
    table, places = internals.located_rows(spark, "label", [30, 10, 20])
    rows = table.withColumn("partition", sf.spark_partition_id()).collect()
    assert [(row.label, row.partition) for row in rows] == [(30, 0), (10, 1), (20, 2)]
    places[1][0] = "executor_here_1"  # test_placement_table.py shows that tasks prefer it
    assert [place[0] for place in places] == ["", "executor_here_1", ""]
