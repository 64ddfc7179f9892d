"""The Spark session of a pipeline: its properties, and the start of its Java process."""

from __future__ import annotations

import logging
import os
import re
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import SparkContext, accumulators
from pyspark.sql import SparkSession

from sluice.batch.query_plan import BOUNDS
from sluice.jvm.jars import jars
from sluice.processes import end_with_us
from sluice.spark import class_archive
from sluice.spark.cluster import placement, shipping
from sluice.spark.home import spark_home
from sluice.spark.masking import filtered_stderr

LOGGER = logging.getLogger("sluice.spark")

#: heap of the Java process. By measurement, a batch of 500,000 records of 150 bytes fits; `max_records_per_batch`
#: bounds a batch.
DRIVER_MEMORY = "2g"

#: maximum number of attempts of a task before the batch fails, Spark's default on clusters: a worker may be killed
ATTEMPTS = 4

#: seconds that the JVM has to remove its temporary files and end after the service was killed
GRACE = 2.0

HIDDEN = "(?i)secret|passw|token|credential|jaas|key"

#: maximum length of the path of the temporary folder: a longer one leaves no room for the name of a Unix socket
LONGEST = 60

LOG = Path(__file__).with_name("log4j2.properties")
SETTINGS = {
    "spark.driver.memory": DRIVER_MEMORY,
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
    # More than come between two reads of the service, which reads the new ones (progress_reports.py).
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    # A restart repeats the last batch; `sluice replay --checkpoint` repeats more of them.
    "spark.sql.streaming.minBatchesToRetain": "10",
    # Hadoop's own local file system forks a process for each file permission, which takes 40 ms per log entry instead
    # of 3 ms.
    "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
}

#: prefix of environment variables that set Spark properties: SLUICE_SPARK_driver_memory=4g sets spark.driver.memory
OVERRIDE = "SLUICE_SPARK_"


def session(name: str, master: str, extra: Mapping[str, str] | None = None) -> SparkSession:
    """A new Spark session. The environment overrides SETTINGS, and `extra` overrides the environment."""
    own = overrides(os.environ) | dict(extra or {})
    archives = own.get("spark.archives", "")
    os.environ["PYSPARK_PYTHON"] = shipping.python(archives)
    if home := spark_home():
        os.environ.setdefault("SPARK_HOME", str(home))
    files, temporary = [str(path) for path in jars("spark")], tempfile.gettempdir()
    settings = SETTINGS | {
        "spark.app.name": name,
        "spark.master": repeating(master),
        "spark.driver.extraClassPath": os.pathsep.join(files),
        # TCP delays a small answer until the previous one is acknowledged, which costs 40 ms per task.
        "spark.python.unix.domain.socket.enabled": str(len(temporary) <= LONGEST).lower(),
        "spark.driver.extraJavaOptions": f"{java_options()} {class_archive.options(class_archive.folder())}".rstrip(),
    }
    builder = SparkSession.builder
    if placement.is_cluster(master):
        settings |= placement.PROPERTIES
    for key, value in (settings | shipping.classes(archives, files) | own).items():
        builder = builder.config(key, value)
    before = SparkContext._gateway  # noqa: SLF001 - no public attribute holds the process of the JVM
    for server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
        server.handle_error = _accumulator_error  # type: ignore[method-assign,assignment]
    with _children_ignore_termination(), filtered_stderr():
        spark = builder.getOrCreate()
    gateway: Any = SparkContext._gateway  # noqa: SLF001
    if gateway is not before and gateway.proc is not None:
        end_with_us(gateway.proc.pid, GRACE)
    return spark


def java_options() -> str:
    """The options of the driver's Java.

    Java ignores TMPDIR and uses /tmp for temporary files, which stay there if the process is killed.
    """
    return (
        f"-Xrs -XX:+UseParallelGC -XX:-UsePerfData -Djava.io.tmpdir={tempfile.gettempdir()} "
        f"-Dlog4j2.configurationFile={LOG}"
    )


def _accumulator_error(*_: object) -> None:
    """Logs an error of the thread that receives Spark's accumulators, which has none but the end of the JVM.

    socketserver would write a stack trace to stderr. `spark/watch.py` reports that the JVM has ended.
    """
    LOGGER.debug("the connection for Spark's accumulators has failed")


def repeating(master: str) -> str:
    """The master URL with which Spark repeats failed tasks. Plain `local[*]` fails at the first failure of a task."""
    local = re.fullmatch(r"local(?:\[(\d+|\*)\])?", master)
    return f"local[{local[1] or 1},{ATTEMPTS}]" if local else master


@contextmanager
def _children_ignore_termination() -> Iterator[None]:
    """The JVM that starts inside the context ignores SIGTERM (-Xrs keeps that). This process keeps its own handler.

    A SIGTERM to the whole process group then ends this process in order, and does not stop the running batch.
    PySpark starts the JVM with a function for the child, so that Python runs the hook `_after_fork` in it.
    """
    global _ignoring  # noqa: PLW0603 - a hook of os.register_at_fork cannot be removed, only switched off
    _ignoring = True
    try:
        yield
    finally:
        _ignoring = False


def _after_fork() -> None:
    if _ignoring:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


_ignoring = False
os.register_at_fork(after_in_child=_after_fork)


def overrides(environment: Mapping[str, str]) -> dict[str, str]:
    """The Spark properties that environment variables with the prefix OVERRIDE set."""
    return {
        "spark." + name.removeprefix(OVERRIDE).replace("_", "."): value
        for name, value in environment.items()
        if name.startswith(OVERRIDE)
    }
