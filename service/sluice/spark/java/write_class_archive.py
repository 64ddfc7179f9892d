"""Writes the archive of Java classes (class_archive.py).

python -m sluice.spark.java.write_class_archive     starts Spark, runs one small batch, and writes the archive
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from sluice.spark.java.class_archive import QUIET, folder
from sluice.spark.java.java_process import java_options
from sluice.spark.spark_internals import gateway
from sluice.spark.spark_session import session

#: seconds in which Java must write the archive after its end was requested
MAX_SECONDS = 120.0


def make(where: Path) -> None:
    """Writes the archive into this folder, in place of an older one."""
    where.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=where) as beside:
        part = Path(beside, "part")
        archiving = f"{java_options()} -XX:ArchiveClassesAtExit={part} {QUIET}"
        spark = session("class-archive", "local[1]", {"spark.driver.extraJavaOptions": archiving})
        stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
        stream.writeStream.format("noop").trigger(once=True).start().awaitTermination()
        java: Any = gateway()
        spark.stop()
        with suppress(Exception):  # there is no answer, because Java ends
            java.jvm.System.exit(0)
        java.proc.wait(MAX_SECONDS)
        for old in where.glob("classes-*.jsa"):
            old.unlink()
        part.replace(where / f"classes-{part.stat().st_size}.jsa")


if __name__ == "__main__":
    make(folder())
