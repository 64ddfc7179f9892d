"""The Java process of Spark: its command line, its start, and its end.

Java needs two seconds until it takes calls, and the modules of the service need as long to load. PySpark would start
Java when it makes a session, after that. So this module starts it without PySpark, and PySpark connects to it
(spark_session.py) through the variables with which it finds a Java process that runs already.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self

from sluice.jvm.jars import jars
from sluice.processes import end_with_this_process, environment_variable
from sluice.spark import cluster
from sluice.spark.java import class_archive
from sluice.spark.java.early_classes import load_early
from sluice.spark.java.java_command import java_command, spark_home, temporary_files
from sluice.spark.masking import filtered_pipe

#: heap of the Java process. By measurement, a batch of 500,000 records of 150 bytes fits; `max_records_per_batch`
#: bounds a batch.
DRIVER_MEMORY = "2g"

#: options of Java's compiler and of its garbage collector
#:
#: Java plans batches and handles no records, unless a batch is a job of Spark. Its code runs some times in each batch,
#: so the optimising compiler (tier 4) pays late, if ever; and until then the other one adds counters to the code, which
#: make it slower. So only that other one is used, without counters. The young generation has room for about six plans.
#: Of a larger one all stays in memory, also while nothing comes. A smaller one adds 10 ms and more to a batch.
RUNTIME = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmn40m"
LOG = Path(__file__).with_name("log4j2.properties")

#: prefix of environment variables that set Spark properties: SLUICE_SPARK_driver_memory=4g sets spark.driver.memory
OVERRIDE = "SLUICE_SPARK_"

#: the socket on which Java listens for `jcmd` from its start on, because of -Xrs
LISTENER = "/tmp/.java_pid{}"  # noqa: S108 - Java always uses this folder
#: seconds that the JVM has to remove its temporary files and end after the service was killed
GRACE = 2.0
#: seconds after which a Java that takes no calls is ended
MAX_START_S = 120.0
#: seconds between two looks whether Java takes calls
PAUSE = 0.02


class Gateway(NamedTuple):
    """Where Java takes calls."""

    port: int
    secret: str


class JavaProcess:
    """A Java process that runs Spark's gateway for PySpark. It ends when this process ends, however that ends."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """Starts it. Properties of Spark that Java itself needs, its heap for instance, have no effect later."""
        self._folder = tempfile.TemporaryDirectory(prefix="sluice-java-", ignore_cleanup_errors=True)
        self._connection = Path(self._folder.name, "connection")
        os.environ.setdefault("SPARK_HOME", str(spark_home()))
        os.environ["PYSPARK_PYTHON"] = cluster.python(properties.get("spark.archives", ""))
        variables = {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._connection)}
        command, environment = java_command(Path(os.environ["SPARK_HOME"]), properties, os.environ | variables)
        stderr = filtered_pipe()
        try:
            self.process = subprocess.Popen(
                command,
                # Java ends when this pipe is closed.
                stdin=subprocess.PIPE,
                stderr=stderr,
                env=environment,
                preexec_fn=_ignore_signals,  # noqa: PLW1509 - as PySpark does it
            )
        finally:
            os.close(stderr)
        end_with_this_process(self.process.pid, GRACE, LISTENER.format(self.process.pid))
        self._connected = False
        #: once Java takes calls and has loaded classes, where; None if it has ended instead
        self._gateway: Future[Gateway | None] = Future()
        threading.Thread(target=self._follow, name="sluice-java", daemon=True).start()

    def _follow(self) -> None:
        """Waits until Java takes calls, and lets it load classes before a session can.

        Two threads that initialise classes which need each other would wait for each other.
        """
        try:
            gateway = self._answered()
            if gateway is not None:
                load_early(*gateway)
            self._gateway.set_result(gateway)
        except Exception as error:  # noqa: BLE001 - `named` raises it
            self._gateway.set_exception(error)

    def _answered(self) -> Gateway | None:
        """Where Java takes calls, once it does; None if it has ended. Ends it if it takes none for MAX_START_S."""
        deadline = time.monotonic() + MAX_START_S
        while self.process.poll() is None and not self._connection.exists():
            if time.monotonic() > deadline:
                self.process.kill()
            time.sleep(PAUSE)
        if not self._connection.exists():
            return None
        content = self._connection.read_bytes()
        return Gateway(int.from_bytes(content[:4]), content[8:].decode())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Ends the process: at once if PySpark has not connected to it, else as soon as it has cleaned up."""
        assert self.process.stdin is not None  # noqa: S101 - it was started with a pipe
        self.process.stdin.close()
        if not self._connected:
            self.process.kill()
            self.process.wait()
        self._folder.cleanup()

    @contextmanager
    def named(self) -> Iterator[bool]:
        """Inside the context PySpark connects to this process, once it is ready. False if it has ended instead."""
        gateway = self._gateway.result()
        if gateway is None:
            yield False
            return
        self._connected = True
        self._folder.cleanup()
        with (
            environment_variable("PYSPARK_GATEWAY_PORT", str(gateway.port)),
            environment_variable("PYSPARK_GATEWAY_SECRET", gateway.secret),
        ):
            yield True


def driver_properties(files: Sequence[str]) -> dict[str, str]:
    """The properties of Spark that Java needs at its start. `files` are the jars that PySpark does not bring."""
    archive = class_archive.options(class_archive.folder())
    return {
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.driver.extraClassPath": os.pathsep.join(files),
        "spark.driver.extraJavaOptions": f"{java_options()} {archive}".rstrip(),
    }


def spark_jars() -> list[str]:
    """The jars that the service needs and PySpark does not bring. Fetches them if they are missing."""
    return [str(path) for path in jars("spark")]


def java_options() -> str:
    """The options of the driver's Java."""
    return f"-Xrs -XX:-UsePerfData {RUNTIME} {temporary_files()} -Dlog4j2.configurationFile={LOG}"


def overrides(environment: Mapping[str, str]) -> dict[str, str]:
    """The Spark properties that environment variables with the prefix OVERRIDE set."""
    return {
        "spark." + name.removeprefix(OVERRIDE).replace("_", "."): value
        for name, value in environment.items()
        if name.startswith(OVERRIDE)
    }


def _ignore_signals() -> None:
    """Java ignores Ctrl-C and SIGTERM (-Xrs keeps that), and this process keeps its own handlers.

    A signal to the whole process group then ends this process in order, and does not stop the running batch.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
