"""The fork server with real processes: requests for daemons, and what happens when one of the processes dies."""

from __future__ import annotations

import errno
import itertools
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sluice.batch.kernel_warm_up import to_text
from sluice.config.load import load_text
from sluice.processes import descendants
from sluice.spark.workers import daemon
from sluice.spark.workers import fork_server_process as module
from sluice.spark.workers.fork_server import ForkServer
from sluice.spark.workers.fork_server_process import ForkServerProcess, Sockets, fork_server, named_sockets
from sluice.state.server import pool
from tests.recovery.harness.waiting import PATIENCE
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


def of_process(pid: int, file: str) -> str:
    """The content of a file about a process; "" if the process has ended."""
    try:
        return Path(f"/proc/{pid}/{file}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def children(pid: int) -> list[int]:
    return [int(number) for number in of_process(pid, f"task/{pid}/children").split()]


def parent(pid: int) -> int:
    """0 if the process has ended."""
    return int((of_process(pid, "stat").rpartition(")")[2].split() or "00")[1])


def fork_servers() -> list[int]:
    """The children of this process that are fork servers. What these fork has their name until it has another."""
    mine = [pid for pid in descendants(os.getpid()) if running(pid) and parent(pid) == os.getpid()]
    return [pid for pid in mine if of_process(pid, "comm") == "sluice-fork\n"]


def open_files(pid: int) -> Iterator[str]:
    """Its open files, without those that it closes meanwhile."""
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            yield str(descriptor.readlink())


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
        self.process.communicate(timeout=PATIENCE)


PIPELINES = to_text([load_text(PIPELINE, "file", environment=None)])


@pytest.fixture(params=["forked", "program"])
def server(request) -> Iterator[int]:
    """The process id of a fork server: forked from this process, or a program of its own."""
    others = fork_servers()  # that of Spark's session, which tests of other files may have left
    with named_sockets() as sockets, fork_server(sockets, fork=request.param == "forked") as one:
        one.begin(PIPELINES)
        await_true(lambda: set(fork_servers()) - {*others})
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


@pytest.mark.parametrize("fork", [True, False])
def test_a_fork_server_has_no_files_of_the_service_and_ends_with_the_context_before_it_has_begun(fork, tmp_path):
    others, file = fork_servers(), tmp_path / "file"
    with file.open("w"), named_sockets() as sockets, fork_server(sockets, fork=fork):
        await_true(lambda: set(fork_servers()) - {*others})
        (pid,) = set(fork_servers()) - {*others}
        assert str(file) not in set(open_files(pid))
    assert not running(pid)


def test_garbage_of_this_process_is_not_collected_in_the_fork_server():
    class Client:
        """As a Kafka client that has no threads in a forked process: its end is the end of the process."""

        def __init__(self):
            self.itself, self.owner = self, os.getpid()

        def __del__(self):
            if os.getpid() != self.owner:
                os._exit(3)

    ended = []
    Client()  # garbage from now on
    with named_sockets() as sockets, fork_server(sockets, fork=True) as one:
        one.begin(PIPELINES)
        others = fork_servers()
        await_true(lambda: any(map(children, fork_servers())))
        ended += {*others} - {*fork_servers()}
    assert ended == []


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


def test_a_daemon_whose_request_is_not_complete_harms_nobody(server):
    await_true(lambda: children(server))
    forked = children(server)
    for sent in (b"", b'{"arguments"'):
        with socket.socket(socket.AF_UNIX) as requester:
            requester.connect(os.environ[daemon.VARIABLE])
            if sent:
                socket.send_fds(requester, [b"!"], [0, 1, 2])
                requester.sendall(sent)
    one = Daemon()
    assert children(server)[0] == forked[0], "the same pool"
    one.end()


def test_a_daemon_that_does_not_complete_its_request_is_waited_for_in_limited_time(monkeypatch, caplog):
    monkeypatch.setattr("sluice.spark.workers.fork_server.MAX_REQUEST_S", 0.05)
    requester, connection = socket.socketpair()
    with requester, connection, socket.socket() as unused:
        socket.send_fds(requester, [b"!"], [0, 1, 2])
        ForkServer(unused, unused)._fork_daemon(connection)  # noqa: SLF001
    assert "no daemon for Spark was forked: timed out" in caplog.text


def test_a_daemon_that_cannot_be_forked_is_not_forked(monkeypatch, caplog):
    def fork():
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fork)
    requester, connection = socket.socketpair()
    with requester, connection, socket.socket() as unused:
        socket.send_fds(requester, [b"!"], [0, 1, 2])
        requester.sendall(json.dumps({"arguments": [], "environment": {}, "path": []}).encode())
        requester.shutdown(socket.SHUT_WR)
        ForkServer(unused, unused)._fork_daemon(connection)  # noqa: SLF001
    assert "no daemon for Spark was forked: [Errno 11] Resource temporarily unavailable" in caplog.text


# ---- fork servers that do not come up --------------------------------------------------------------------------------

#: shell scripts in place of the fork server: one that comes up and ends, and one that ends before it has come up
UP, DOWN = "printf ! >&0", "exit 7"
#: a process that cannot be started
NONE = ""


class Starts:
    """Replaces the starts of the fork server, one after the other, until the service would end; repeats the last one.

    The clock is at 0 when the first one has ended, at 40 seconds at the end of the second, and so on.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *scripts: str) -> None:
        self.count, self.messages = 0, list[str]()
        start = subprocess.Popen

        def started(_, **options):
            script = scripts[min(self.count, len(scripts) - 1)]
            self.count += 1
            if script == NONE:
                raise OSError(errno.ENOMEM, "Cannot allocate memory")
            return start(["/bin/sh", "-c", script], **options)

        monkeypatch.setattr(module, "PAUSE", 0.0)
        monkeypatch.setattr(subprocess, "Popen", started)
        with named_sockets() as sockets:
            assert sockets
            one = ForkServerProcess(sockets, self.messages.append, itertools.count(0, 40).__next__)
            one.begin("")
            await_true(lambda: self.messages)
            one.end()


@pytest.mark.parametrize(
    ("script", "reason"), [(NONE, "[Errno 12] Cannot allocate memory"), (DOWN, "it has ended with exit code 7")]
)
def test_if_none_comes_up_for_a_minute_the_service_ends_with_a_message(monkeypatch, caplog, script, reason):
    starts = Starts(monkeypatch, script)
    assert starts.count == 3
    (message,) = starts.messages
    assert message.endswith(f"could not be started for 60 seconds ({reason})")
    assert caplog.messages == [f"there is no fork server, and it is started again: {reason}"] * 2


@pytest.mark.parametrize(("scripts", "count"), [([NONE, DOWN, UP, DOWN], 5), ([*[UP] * 5, NONE], 7)])
def test_the_minute_begins_again_with_the_end_of_one_that_came_up(monkeypatch, scripts, count):
    assert Starts(monkeypatch, *scripts).count == count


def test_one_that_takes_too_long_to_come_up_is_killed(monkeypatch):
    monkeypatch.setattr(module, "MAX_LOAD_S", 0.05)
    (message,) = Starts(monkeypatch, "exec sleep 1000").messages
    assert "exit code -9" in message


def test_one_that_cannot_be_started_is_tried_again(server, monkeypatch):
    failures, start = [OSError(errno.ENOMEM, "Cannot allocate memory")], subprocess.Popen

    def started(command, *arguments, **options):
        if module.MODULE in command and failures:
            raise failures.pop()
        return start(command, *arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", started)
    os.kill(server, signal.SIGKILL)
    Daemon().end()
    assert not failures


def test_the_service_ends_with_the_exit_code_of_something_that_is_not_available(monkeypatch):
    ended = []
    monkeypatch.setattr(module, "end_at_once", lambda *arguments: ended.append(arguments))
    monkeypatch.setattr(module, "MAX_DOWN_S", 0.0)
    monkeypatch.setattr(module, "MODULE", "sluice.spark.workers.no_module")
    with fork_server(Sockets(0, 1), fork=False) as one:
        one.begin("")
        await_true(lambda: ended)
    ((code, line),) = ended
    assert code == 3
    assert line.startswith("sluice: the fork server, from which ")
