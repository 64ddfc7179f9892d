"""An archive of the Java classes that a service loads at its start (class data sharing), made in advance.

With the archive Java neither reads nor checks these classes again: a start takes half of Java's processor time. The
archive has 150 MB. It is valid for one Java and one set of jars; Java ignores an archive that does not fit.

    python -m sluice.spark.java.class_archive     starts Spark, runs one small batch, and writes the archive
"""

from __future__ import annotations

import re
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

#: no message if the archive does not fit: Java then starts without it
QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
#: By default Java maps an archive at a random address and adapts each pointer in it, which takes 0.2 s and 50 MB. With
#: this option it maps the archive at the address for which it was made. The address of these classes is no secret then.
AT_ITS_ADDRESS = "-XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0"
#: seconds in which Java must write the archive after its end was requested
MAX_SECONDS = 120.0
#: the name of an archive, with its size in bytes: Java crashes if it maps a file that is too short
NAME = re.compile(r"classes-(\d+)\.jsa")


def folder() -> Path:
    """The folder of the archive, in the virtual environment. It has an archive only after `make class-archive`."""
    return Path(sys.prefix, "share", "sluice")


def options(where: Path) -> str:
    """Java's options that use the archive in this folder; "" if there is none, or none of the right size."""
    for file in where.glob("classes-*.jsa"):
        size = NAME.fullmatch(file.name)
        if size and file.stat().st_size == int(size[1]):
            return f"-XX:SharedArchiveFile={file} {AT_ITS_ADDRESS} {QUIET}"
    return ""


def make(where: Path) -> None:
    """Writes the archive into this folder, in place of an older one."""
    # The start of Java needs `options` before PySpark is loaded.
    from sluice.spark.java.java_process import java_options  # noqa: PLC0415 - it imports this module
    from sluice.spark.session import session  # noqa: PLC0415
    from sluice.spark.spark_internals import gateway  # noqa: PLC0415

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
