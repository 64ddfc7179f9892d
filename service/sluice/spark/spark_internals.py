"""All private members of PySpark, and all classes of Spark that have no stable interface, that the package uses.

The package pins the version of Spark. A new version may change any of them: `tests/unit/spark/test_spark_internals.py`
has a test for each function, whose name says what breaks then. `tests/unit/test_architecture.py` shows that no other
module uses one.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

#: an object of Java, for which Py4J has no types
JavaObject = Any

#: the interface of a streaming source, which Python code may implement
SOURCE_INTERFACE = "org.apache.spark.sql.execution.streaming.Source"


# ---- the Java process -----------------------------------------------------------------------------------------------


def gateway() -> Any | None:  # noqa: ANN401 - Py4J has no types
    """The connection of this process to its Java process; None before the first session."""
    return SparkContext._gateway  # noqa: SLF001


def java_process() -> subprocess.Popen[bytes] | None:
    """The Java process of this process; None before the first session."""
    return getattr(gateway(), "proc", None)


def thread_connection(spark: SparkSession) -> socket.socket | None:
    """The connection between Java and the current thread; None if neither has called the other."""
    client: Any = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr] # noqa: SLF001
    connection = client.get_thread_connection()
    return None if connection is None else connection.socket


# ---- progress reports -----------------------------------------------------------------------------------------------


def newest_report(query: StreamingQuery) -> JavaObject | None:
    """The newest progress report, with `timestamp()`, `batchId()` and `json()`; None if there is none yet."""
    return query._jsq.lastProgress()  # noqa: SLF001


def kept_reports(query: StreamingQuery) -> Sequence[JavaObject]:
    """The progress reports that Spark keeps, oldest first."""
    return query._jsq.recentProgress()  # type: ignore[no-any-return] # noqa: SLF001


# ---- a source in Python ---------------------------------------------------------------------------------------------


def serialized_offset(spark: SparkSession) -> Callable[[str], JavaObject]:
    """The function that makes the offset of a source, as Spark's interface expects it, from the offset's JSON text."""
    jvm = _jvm(spark)
    offset, some = jvm.org.apache.spark.sql.execution.streaming.runtime.SerializedOffset, jvm.scala.Some
    return lambda text: some(offset(text))


def empty_stream(frame: DataFrame) -> JavaObject:
    """Java's streaming DataFrame without rows that has the columns of `frame`."""
    jvm, schema = _jvm(frame.sparkSession), frame._jdf.schema()  # noqa: SLF001
    logical = jvm.org.apache.spark.sql.catalyst.plans.logical
    columns = _scala_object(logical, "LocalRelation").apply(schema)
    relation = logical.LocalRelation(columns.output(), columns.data(), True, jvm.scala.Option.empty())  # noqa: FBT003
    return _java_frame(relation, frame.sparkSession)


def stream_of(source: object, spark: SparkSession) -> DataFrame:
    """The streaming DataFrame that reads `source`, a Python object which implements SOURCE_INTERFACE."""
    runtime = _jvm(spark).org.apache.spark.sql.execution.streaming.runtime
    relation = _scala_object(runtime, "StreamingExecutionRelation").apply(source, _java_session(spark))
    return DataFrame(_java_frame(relation, spark), spark)


def no_offset(spark: SparkSession) -> JavaObject:
    """Scala's option without a value: what a source answers that has no offset."""
    return _jvm(spark).scala.Option.empty()


def ask_last(spark: SparkSession, query: StreamingQuery, source: object, patience_s: float = 10.0) -> bool:
    """Lets Spark ask `source` for an offset after all sources of a query that has been started. `source` is a Python
    object which implements SOURCE_INTERFACE. It never has an offset, since it is not in the plan of the query.

    Spark keeps the sources in a map that stays in order up to four entries, and fills it in the thread of the query.
    Returns False if it is not filled after so many seconds, or if the query has ended.
    """
    execution: JavaObject = query._jsq.streamingQuery()  # noqa: SLF001
    deadline = time.monotonic() + patience_s
    while not (sources := execution.uniqueSources()).nonEmpty():
        if not query.isActive or time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    all_available = _jvm(spark).org.apache.spark.sql.connector.read.streaming.ReadLimit.allAvailable()
    getattr(execution, "uniqueSources_$eq")(sources.updated(source, all_available))
    return True


def limit_batches(spark: SparkSession, query: StreamingQuery, records: int) -> None:
    """Lets the next batches of a running query read at most so many records of each source that has such a bound.

    Spark reads the option `maxOffsetsPerTrigger` once, when the query starts, and keeps the bounds in a map by source.
    Called in the thread of the query, between two batches.
    """
    execution: JavaObject = query._jsq.streamingQuery()  # noqa: SLF001
    bound = _jvm(spark).org.apache.spark.sql.connector.read.streaming.ReadLimit.maxRows(records)
    bounds = execution.uniqueSources()
    sources = bounds.keysIterator()
    while sources.hasNext():
        source = sources.next()
        if bounds.apply(source).getClass().equals(bound.getClass()):
            bounds = bounds.updated(source, bound)
    getattr(execution, "uniqueSources_$eq")(bounds)


# ---- executors ------------------------------------------------------------------------------------------------------


def block_managers(spark: SparkSession) -> str:
    """The texts of the present block managers, one for the driver and one for each executor: id, host, port."""
    managers: JavaObject = _scala_context(spark).env().blockManager().master().getMemoryStatus().keySet()
    return str(managers.mkString(" "))


def executor_cores(spark: SparkSession, executor: str) -> int:
    """The cores of an executor. Raises Py4JError if Spark has no entry of it (yet, or any more)."""
    return int(_scala_context(spark).statusStore().executorSummary(executor).totalCores())


def located_rows(spark: SparkSession, column: str, values: Sequence[int]) -> tuple[DataFrame, list[JavaObject]]:
    """A table with one row and one partition for each value, and the preferred location of each partition.

    The table has one column of type int, and declares that its partitions are those of the column's hash. A preferred
    location is a Java array with one text. Spark reads it whenever a stage starts.

    A cached table has locations too, but Spark chooses them. So the table is made of the class LogicalRDD, as
    `localCheckpoint` makes it.
    """
    jvm, sequence = _jvm(spark), _jvm(spark).PythonUtils.toSeq
    places = [_array(spark, jvm.java.lang.String) for _ in values]
    rows = jvm.java.util.ArrayList()
    for place, value in zip(places, values, strict=True):
        place[0], fields = "", _array(spark, jvm.java.lang.Object)
        fields[0] = value
        row = jvm.org.apache.spark.sql.catalyst.expressions.GenericInternalRow(fields)
        rows.add(jvm.scala.Tuple2(row, jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray(place)))
    row_class = jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.InternalRow")
    rdd = _scala_context(spark).makeRDD(sequence(rows), _scala_object(jvm.scala.reflect, "ClassTag").apply(row_class))
    columns = spark.createDataFrame([], f"{column} int")._jdf.queryExecution().analyzed().output()  # noqa: SLF001
    spread = jvm.org.apache.spark.sql.catalyst.plans.physical.HashPartitioning(columns, len(values))
    nothing, no_order = jvm.scala.Option.empty(), sequence(jvm.java.util.ArrayList())
    logical = jvm.org.apache.spark.sql.execution.LogicalRDD(
        columns, rdd, spread, no_order, False, nothing, _java_session(spark), nothing, nothing  # noqa: FBT003
    )  # fmt: skip
    return DataFrame(_java_frame(logical, spark), spark), places


# ---- Java's objects of a session ------------------------------------------------------------------------------------


def _jvm(spark: SparkSession) -> JavaObject:
    """The root of the packages of Java."""
    return spark._jvm  # noqa: SLF001


def _java_session(spark: SparkSession) -> JavaObject:
    return spark._jsparkSession  # noqa: SLF001


def _scala_context(spark: SparkSession) -> JavaObject:
    return spark.sparkContext._jsc.sc()  # noqa: SLF001


def _java_frame(plan: JavaObject, spark: SparkSession) -> JavaObject:
    """Java's DataFrame of a logical plan."""
    return _jvm(spark).org.apache.spark.sql.classic.Dataset.ofRows(_java_session(spark), plan)


def _scala_object(package: JavaObject, name: str) -> JavaObject:
    """The object of Scala with this name."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def _array(spark: SparkSession, element: JavaObject) -> JavaObject:
    """A Java array with room for one element."""
    return spark.sparkContext._gateway.new_array(element, 1)  # type: ignore[union-attr] # noqa: SLF001
