"""The Spark session of a pipeline: its properties, and its connection to the Java process."""

from __future__ import annotations

import logging
import os
import signal
import tempfile
import threading
from collections.abc import Mapping
from typing import Any

from pyspark import accumulators
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from sluice.arrow_without_pandas import pandas_kept_out
from sluice.batch.query_plan import BOUNDS
from sluice.jvm.java import find_java, low_limits
from sluice.spark import cluster, placement
from sluice.spark.cluster import is_cluster, repeating
from sluice.spark.failures import JavaEndedError, log_failures_once
from sluice.spark.java.java_process import JavaProcess, driver_properties, overrides, spark_jars
from sluice.spark.spark_internals import gateway

with pandas_kept_out():
    # PySpark imports this module with the first argument that it passes to Java, and the module imports pandas.
    import pyspark.testing.utils  # noqa: F401

LOGGER = logging.getLogger("sluice.spark")

HIDDEN = "(?i)secret|passw|token|credential|jaas|key"

#: maximum length of the path of the temporary folder: a longer one leaves no room for the name of a Unix socket
MAX_PATH = 60

SETTINGS = {
    # The outputs of a batch reach the sink through the driver.
    "spark.driver.maxResultSize": "0",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # The daemon of this package imports and compiles all that the Python workers need before it forks them.
    "spark.python.daemon.module": "sluice.spark.workers.daemon",
    "spark.python.worker.reuse": "true",
    # This property is passed in the environment of only some stages' workers, and Spark starts one daemon for each
    # different environment. Without the property one daemon serves all stages.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.locality.wait": "0",
    # Spark hides the values of properties and options whose names match.
    "spark.redaction.regex": HIDDEN,
    "spark.sql.redaction.options.regex": HIDDEN,
    # The number of a task is the number of its bucket, so Spark must not merge partitions.
    "spark.sql.adaptive.enabled": "false",
    # A failed cast must give null instead of an error.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    # Bytes of records that a task passes to Python at once, which also bounds the packed rows that Python returns.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(BOUNDS.piece),
    # For rows of several megabytes these have no use and cost time.
    "spark.shuffle.compress": "false",
    "spark.shuffle.checksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableQueryLevelRollbackOnMismatch": "false",
    # A batch runs only if there are records or a new time of the idle clock. Both are in the offset log.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # Interval of the requests for new offsets while no records arrive; an interval of 10 ms costs a third of a core.
    "spark.sql.streaming.pollingDelay": "25ms",
    # More than come between two reads of the service, which reads the new ones (query_watch.py).
    "spark.sql.streaming.numRecentProgressUpdates": "50",
    # A restart repeats the last batch; `sluice replay --checkpoint` repeats more of them.
    "spark.sql.streaming.minBatchesToRetain": "10",
    # Hadoop's own local file system forks a process for each file permission, which takes 40 ms per log entry instead
    # of 3 ms.
    "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # A kill while Spark writes the first plan leaves a temporary file, with which Spark would never start again. The
    # service has looked at the checkpoint before (state/checkpoint_start.py).
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
}

#: and without a cluster, where the tasks read the records and Spark handles only packed rows
LOCAL = {
    # Spark makes the plan of each batch into Java code anew, though a small batch has no job that runs it: a tenth of
    # the time of a small batch. Compiling it takes one of the six seconds to the first batch.
    "spark.sql.codegen.wholeStage": "false"
}


def session(
    name: str, master: str, extra: Mapping[str, str] | None = None, java: JavaProcess | None = None
) -> SparkSession:
    """A new Spark session. The environment overrides SETTINGS, and `extra` overrides the environment.

    Without `java`, and if this process has no Java process yet, it starts one. Raises JavaEndedError if Java does not
    start, or JavaError if there is none.
    """
    log_failures_once()
    chosen, files = overrides(os.environ) | dict(extra or {}), spark_jars()
    settings = (
        SETTINGS
        | driver_properties(files)
        | {
            "spark.app.name": name,
            "spark.master": repeating(master),
            # TCP delays a small answer until the previous one is acknowledged, which costs 40 ms per task.
            "spark.python.unix.domain.socket.enabled": str(len(tempfile.gettempdir()) <= MAX_PATH).lower(),
        }
    )
    settings |= cluster.PROPERTIES | placement.PROPERTIES if is_cluster(master) else LOCAL
    settings |= cluster.classes(chosen.get("spark.archives", ""), files) | chosen
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    for server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
        server.handle_error = _accumulator_error  # type: ignore[method-assign,assignment]
    if gateway() is not None:
        return _made(builder)
    java = java or JavaProcess(settings)
    with java.named() as running:
        if not running:
            java.end()
            find_java()  # raises an error with the reason if Java is missing or too old
            raise JavaEndedError(f"Java did not start; the lines above have its reason{low_limits()}")
        spark = _made(builder)
    connected: Any = gateway()
    connected.proc = java.process
    # PySpark starts the server of Java's calls with the first query, and two queries at once would start two servers.
    ensure_callback_server_started(connected)  # type: ignore[no-untyped-call]
    return spark


def _made(builder: SparkSession.Builder) -> SparkSession:
    """The session. This process keeps its handler of SIGINT, which PySpark replaces by one that raises an exception."""
    if threading.current_thread() is not threading.main_thread():  # then PySpark leaves the handler alone
        return builder.getOrCreate()
    handler = signal.getsignal(signal.SIGINT)
    try:
        return builder.getOrCreate()
    finally:
        signal.signal(signal.SIGINT, handler)


def _accumulator_error(*_: object) -> None:
    """Logs an error of the thread that receives Spark's accumulators, which has none but the end of the JVM.

    socketserver would write a stack trace to stderr. `spark/query_watch.py` reports that the JVM has ended.
    """
    LOGGER.debug("the connection for Spark's accumulators has failed")
