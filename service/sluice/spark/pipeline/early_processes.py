"""Starts Java, on a single machine, before the service loads its modules: both take equally long.

The module imports neither PySpark nor the engine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sluice.spark.cluster.master_url import is_cluster
from sluice.spark.java_process import JavaProcess, driver_properties, overrides, spark_jars
from sluice.spark.workers.fork_server_process import ForkServerProcess, fork_server, named_sockets


@dataclass(frozen=True, slots=True)
class EarlyProcesses:
    """Java, which passes the names of the fork server's sockets on to the programs that it starts, and the fork server,
    if there is one.
    """

    java: JavaProcess
    fork_server: ForkServerProcess | None


@contextmanager
def early_processes(master: str) -> Iterator[EarlyProcesses | None]:
    """They end with the context. None on a cluster: there Java also passes on what the pipelines need (session.py)."""
    if is_cluster(master):
        yield None
        return
    properties = driver_properties(spark_jars()) | overrides(os.environ)
    with named_sockets() as sockets, JavaProcess(properties) as java:
        from sluice.spark.workers.loaded_modules import keep  # noqa: PLC0415 - takes a second, beside the start of Java

        keep()
        with fork_server(sockets, fork=True) as server:
            yield EarlyProcesses(java, server)
