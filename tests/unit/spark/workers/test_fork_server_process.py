"""The fork server with real processes: requests for daemons, and what happens when one of the processes dies."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.batch import kernel_warm_up
from sluice.config.load import load_text
from sluice.processes import descendants
from sluice.spark.workers import daemon
from sluice.spark.workers.fork_server_process import MODULE, fork_server, named_sockets
from sluice.state.server import pool
from tests.unit.test_processes import await_true, running

PIPELINE = """
pipeline: p
kafka: {bootstrap.servers: "127.0.0.1:1"}
streams:
  in: {topic: in, schema: {x: int64}}
  out: {topic: out}
operators:
  - {name: out, aggregate: in, window: "tumbling, count(2)", output: {out: {n: Count()}}}
"""


def children(pid: int) -> list[int]:
    return [int(number) for number in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def fork_servers() -> list[int]:
    """The children of this process that run the fork server."""
    mine = [pid for pid in descendants(os.getpid()) if running(pid)]
    found = [pid for pid in mine if MODULE.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
    return [pid for pid in found if not any(pid in children(other) for other in found)]


class Daemon:
    """A daemon as Spark starts it."""

    def __init__(self, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", daemon.__name__, "pyspark.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, **environment},
        )  # fmt: skip
        assert self.process.stdout
        #: the number of the port at which it waits for Spark
        (self.port,) = struct.unpack("!i", self.process.stdout.read(4))

    def end(self) -> None:
        """As Spark ends it. Waits until it has ended."""
        self.process.communicate(timeout=10)


@pytest.fixture
def server(monkeypatch) -> Iterator[int]:
    """The process id of a fork server."""
    monkeypatch.setenv(kernel_warm_up.VARIABLE, kernel_warm_up.to_text([load_text(PIPELINE, "file", environment=None)]))
    others = fork_servers()  # that of Spark's session, which tests of other files may have left
    with named_sockets() as sockets, fork_server(sockets):
        (pid,) = set(fork_servers()) - {*others}
        yield pid
    await_true(lambda: not running(pid))


def test_a_daemon_is_a_child_of_the_fork_server_and_ends_when_spark_closes_its_standard_input(server):
    one = Daemon()
    assert one.port > 0
    _, forked = children(server)
    assert b"pyspark.worker" not in Path(f"/proc/{forked}/cmdline").read_bytes(), "its modules are loaded already"
    one.end()
    await_true(lambda: not running(forked))


def test_two_daemons_have_environments_of_their_own(server):
    first, second = Daemon(SPARK_PREFER_IPV6="false"), Daemon(PYTHON_UNIX_DOMAIN_ENABLED="false")
    assert first.port != second.port
    assert len(children(server)) == 3, "the pool and two daemons"
    first.end()
    second.end()


def test_a_pool_that_was_killed_is_replaced(server):
    await_true(lambda: children(server))
    (killed,) = children(server)
    os.kill(killed, signal.SIGKILL)
    await_true(lambda: any(one != killed for one in children(server)))
    with pool.connection("a", 0, 0):
        await_true(lambda: any(map(children, children(server))))


def test_a_fork_server_that_was_killed_is_replaced_and_all_that_it_forked_ends(server):
    one = Daemon()
    forked = children(server)
    os.kill(server, signal.SIGKILL)
    await_true(lambda: not any(map(running, forked)))
    one.end()
    other = Daemon()
    assert server not in fork_servers()
    other.end()
