"""The Spark session that a pipeline runs in."""

from __future__ import annotations

import os
import re
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from sluice.batch.query_plan import BOUNDS
from sluice.jvm.jars import jars
from sluice.processes import end_with_us
from sluice.spark import shipping
from sluice.spark.home import spark_home
from sluice.spark.masking import masked_stderr

#: measured: 500,000 records of 150 bytes fit; a batch is bounded by `max_records_per_batch`
DRIVER_MEMORY = "2g"

#: how often Spark tries a task before the batch fails, as it does on clusters: a worker process may be killed
ATTEMPTS = 4

#: seconds that the JVM may take to end when the service was killed: it removes its temporary files
GRACE = 2.0

HIDDEN = "(?i)secret|passw|token|credential|jaas|key"

#: folders for temporary files whose names are longer leave no room for that of a socket
LONGEST = 60

LOG = Path(__file__).with_name("log4j2.properties")
SETTINGS = {
    "spark.driver.memory": DRIVER_MEMORY,
    # The outputs of a batch reach the sink through the driver.
    "spark.driver.maxResultSize": "0",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Warm Python workers: ours imports what they need before it forks them.
    "spark.python.daemon.module": "sluice.spark.daemon",
    "spark.python.worker.reuse": "true",
    # One daemon for all stages: some would have it in their environment, and each environment has its own daemon.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.locality.wait": "0",
    # What Spark shows of properties and options hides these.
    "spark.redaction.regex": HIDDEN,
    "spark.sql.redaction.options.regex": HIDDEN,
    # A bucket's task is known by its number: none may be put together with others.
    "spark.sql.adaptive.enabled": "false",
    # Values, not errors of a cast, decide what a record is.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    # Bytes of the records that a task hands to Python at once, and with that of the packed rows that it gets back.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(BOUNDS.piece),
    # Rows of megabytes gain nothing from these, and wait for them.
    "spark.shuffle.compress": "false",
    "spark.shuffle.checksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableQueryLevelRollbackOnMismatch": "false",
    # Batches run for records and for the pulse, both of which are in the offset log, and for nothing else.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # How often Kafka is asked for news while there are none; every 10 ms costs a third of a core.
    "spark.sql.streaming.pollingDelay": "25ms",
    # With each new one all of them are read.
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    # A rerun needs the last batch; who repeats batches a few more.
    "spark.sql.streaming.minBatchesToRetain": "10",
    # Hadoop's own local file system forks a process for each file permission: 40 ms per log entry instead of 3.
    "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
}

#: `SLUICE_SPARK_<name with _ for .>` sets any property of Spark's, for instance SLUICE_SPARK_driver_memory=4g
OVERRIDE = "SLUICE_SPARK_"


def session(name: str, master: str, extra: Mapping[str, str] | None = None) -> SparkSession:
    """A session; `extra` and the environment override the settings."""
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
        # TCP holds small answers back until the other side has said that it has what came before: 40 ms a task.
        "spark.python.unix.domain.socket.enabled": str(len(temporary) <= LONGEST).lower(),
        # Java's own folder for temporary files is /tmp, whatever TMPDIR says, and a kill leaves them behind.
        "spark.driver.extraJavaOptions": f"-Xrs -XX:+UseParallelGC -XX:-UsePerfData "
        f"-Djava.io.tmpdir={temporary} -Dlog4j2.configurationFile={LOG}",
    }
    builder = SparkSession.builder
    for key, value in (settings | shipping.classes(archives, files) | own).items():
        builder = builder.config(key, value)
    before = SparkContext._gateway  # noqa: SLF001 - there is no other way to the process of the JVM
    with _deaf_to_termination(), masked_stderr():
        spark = builder.getOrCreate()
    gateway: Any = SparkContext._gateway  # noqa: SLF001
    if gateway is not before and gateway.proc is not None:
        end_with_us(gateway.proc.pid, GRACE)
    return spark


def repeating(master: str) -> str:
    """The master with which Spark repeats failed tasks also where it runs in one process: `local[*]` fails at once."""
    local = re.fullmatch(r"local(?:\[(\d+|\*)\])?", master)
    return f"local[{local[1] or 1},{ATTEMPTS}]" if local else master


@contextmanager
def _deaf_to_termination() -> Iterator[None]:
    """The JVM starts with SIGTERM ignored, and -Xrs leaves it so: one to the whole group ends us, not the batch."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def overrides(environment: Mapping[str, str]) -> dict[str, str]:
    """The properties of Spark's that the environment sets."""
    return {
        "spark." + name.removeprefix(OVERRIDE).replace("_", "."): value
        for name, value in environment.items()
        if name.startswith(OVERRIDE)
    }
