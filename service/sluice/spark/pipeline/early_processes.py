"""Starts Java, on a single machine, before the service reads its files and loads its modules: both take equally long.

The module imports neither PySpark nor the engine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from sluice.spark.cluster import is_cluster
from sluice.spark.java.java_process import JavaProcess, driver_properties, overrides, spark_jars
from sluice.spark.workers.fork_server_process import ForkServerProcess, fork_server, named_sockets

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EarlyProcesses:
    """Java, which passes the names of the fork server's sockets on to the programs that it starts, and the fork server,
    if there is one.
    """

    java: JavaProcess
    fork_server: ForkServerProcess | None


@contextmanager
def early_processes(master: str, load: Callable[[], T]) -> Iterator[tuple[T, EarlyProcesses | None]]:
    """The result of `load`, and the processes, which end with the context.

    None on a cluster: there Java also passes on what the pipelines need (spark_session.py). `load` is called beside the
    start of Java, and an error of it ends Java.
    """
    if is_cluster(master):
        yield load(), None
        return
    properties = driver_properties(spark_jars()) | overrides(os.environ)
    with named_sockets() as sockets, JavaProcess(properties) as java:
        loaded = load()
        from sluice.spark.workers.loaded_modules import keep  # noqa: PLC0415 - takes a second, beside the start of Java

        keep()
        with fork_server(sockets, fork=True) as server:
            yield loaded, EarlyProcesses(java, server)
