from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sluice.files import project_file
from sluice.state.server import pool
from sluice.state.server.pool import MAX_IDLE_BATCHES, QUERIES, VARIABLE, Pool, PoolSocket
from tests.unit.test_processes import await_true, running

#: what the daemon says of a request that the pool refuses
REFUSED = 0, 0


class Daemon:
    def __init__(self, *named: int) -> None:
        """`named`: the file descriptor of a pool socket that has a name."""
        script = Path(__file__).parents[1] / "daemon.py"
        self.process = subprocess.Popen(
            [sys.executable, str(script), *map(str, named)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": f"{project_file('service')}:{project_file('tests').parent}"},
            pass_fds=named,
        )  # fmt: skip

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def tell(self, command: str) -> str:
        assert self.process.stdin
        assert self.process.stdout
        print(command, file=self.process.stdin, flush=True)
        return self.process.stdout.readline().strip()

    def ask(self, service: str, bucket: int, version: int = 0) -> tuple[int, int]:
        """The process of the state server, and how often it was asked."""
        process, asked = self.tell(f"ask {service} {bucket} {version}").split()
        return int(process), int(asked)


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    one = Daemon()
    yield one
    one.kill()


def test_each_bucket_has_a_state_server_that_stays(daemon):
    first, second = daemon.ask("a", 0), daemon.ask("a", 1)
    assert first[0] != second[0]
    assert daemon.ask("a", 0) == (first[0], 2)
    assert daemon.ask("a", 1) == (second[0], 2)


def test_a_state_server_that_was_killed_is_replaced(daemon):
    process, _ = daemon.ask("a", 0)
    daemon.tell(f"kill {process}")
    other, asked = daemon.ask("a", 0)
    assert other != process
    assert asked == 1


def test_a_pool_that_was_killed_is_replaced(daemon):
    state_server, _ = daemon.ask("a", 0)
    killed = daemon.tell("pool")
    daemon.tell(f"kill {killed}")
    other, asked = daemon.ask("a", 0)
    assert daemon.tell("pool") != killed
    assert other != state_server
    assert asked == 1
    await_true(lambda: not running(state_server))


def test_where_no_process_can_replace_it_the_daemon_ends_so_that_spark_starts_another(daemon):
    state_server, _ = daemon.ask("a", 0)
    pool_pid = daemon.tell("pool")
    supervisor = daemon.tell("supervisor")
    daemon.tell(f"kill {supervisor} {pool_pid}")
    daemon.tell("work a 0")
    await_true(lambda: daemon.process.poll() is not None)
    await_true(lambda: not running(state_server))


def test_state_servers_of_queries_without_requests_end(daemon):
    old, _ = daemon.ask("old", 0)
    used, _ = daemon.ask("used", 0)
    for number in range(QUERIES - 1):
        daemon.ask("used", 0)
        daemon.ask(f"other{number}", 0)
    await_true(lambda: not running(old))
    assert running(used)


def test_a_new_start_ends_the_state_servers_of_earlier_starts_of_its_checkpoint_alone(daemon):
    old, other = daemon.ask("a/1", 0), daemon.ask("b/1", 0)
    new = daemon.ask("a/2", 1)
    await_true(lambda: not running(old[0]))
    assert daemon.ask("a/2", 1) == (new[0], 2)
    assert daemon.ask("b/1", 0) == (other[0], 2)


def test_the_state_servers_of_a_query_that_has_ended_end(daemon):
    one, two, other = daemon.ask("a/1", 0), daemon.ask("a/1", 1), daemon.ask("b/1", 0)
    daemon.tell("end a")
    await_true(lambda: not running(one[0]) and not running(two[0]))
    assert daemon.ask("b/1", 0) == (other[0], 2)
    assert daemon.ask("a/2", 0)[1] == 1, "a request of a new start makes a new one"


@pytest.mark.parametrize("how", ["new start", "end"])
def test_a_request_of_a_start_that_has_ended_is_refused(daemon, how):
    """Otherwise it would end the state servers of the new start, whose next request would end those of the old one."""
    daemon.ask("a/1", 0)
    if how == "end":
        daemon.tell("end a")
        assert daemon.ask("a/1", 0) == REFUSED
    new, _ = daemon.ask("a/2", 0)
    assert daemon.ask("a/1", 0) == daemon.ask("a/1", 1) == REFUSED
    assert daemon.ask("a/2", 0) == (new, 2)


class StubbornPool(Pool):
    """A pool in this process, whose state servers do not end when the pool closes their control sockets."""

    def __init__(self, inside: socket.socket) -> None:
        super().__init__(inside, os.getpid(), lambda _: signal.pause())
        self.forked: list[pool.StateServer] = []
        #: for each fork, which of the state servers before it had ended
        self.ended: list[list[bool]] = []
        self._probes: list[socket.socket] = []

    def ask(self, query: str, bucket: int) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self._pass_request(f"{bucket} 0 {query}", theirs)

    def end(self) -> None:
        for one in self.forked:
            os.kill(one.pid, signal.SIGKILL)
            os.waitpid(one.pid, 0)
            one.control.close()
        for probe in self._probes:
            probe.close()

    def _forked(self, task: socket.socket, version: int, name: str) -> pool.StateServer:
        self.ended.append([bool(select.select([probe], [], [], 0)[0]) for probe in self._probes])
        self.forked.append(super()._forked(task, version, name))
        self._probes.append(self.forked[-1].control.dup())
        return self.forked[-1]


@pytest.fixture
def stubborn_pool() -> Iterator[StubbornPool]:
    inside, outside = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with inside, outside:
        one = StubbornPool(inside)
        yield one
        one.end()


def test_before_a_state_server_of_a_new_start_is_forked_those_of_the_old_one_have_ended(stubborn_pool):
    stubborn_pool.ask("a/1", 0)
    stubborn_pool.ask("a/1", 1)
    stubborn_pool.ask("a/2", 0)
    assert stubborn_pool.ended == [[], [False], [True, True]]


def test_the_wait_for_the_end_of_a_state_server_is_bounded(stubborn_pool, monkeypatch):
    monkeypatch.setattr(pool.StateServer, "kill", lambda _: None)
    monkeypatch.setattr(pool, "MAX_END_S", 0.05)
    stubborn_pool.ask("a/1", 0)
    stubborn_pool.ask("a/2", 0)
    assert stubborn_pool.ended == [[], [False]]


@pytest.mark.parametrize("how", ["kill", "terminate"])
def test_all_of_them_end_with_the_daemon(daemon, how):
    state_server, _ = daemon.ask("a", 0)
    pool_pid = int(daemon.tell("pool"))
    getattr(daemon.process, how)()
    await_true(lambda: not running(state_server) and not running(pool_pid))


def test_a_state_server_without_requests_ends_when_other_buckets_are_further(daemon):
    moved, _ = daemon.ask("a", 0, 5)
    other_query, _ = daemon.ask("b", 0, 5)
    stays, _ = daemon.ask("a", 1, 5 + MAX_IDLE_BATCHES)
    assert running(moved)
    assert daemon.ask("a", 1, 6 + MAX_IDLE_BATCHES)[0] == stays
    await_true(lambda: not running(moved))
    assert running(other_query), "a query without batches keeps its state"
    assert daemon.ask("a", 0, 6 + MAX_IDLE_BATCHES)[1] == 1, "the bucket came back to a new state server"


def test_a_state_server_whose_batch_is_repeated_stays(daemon):
    """A repeated batch asks for an older version than the other buckets already have."""
    late, _ = daemon.ask("a", 0, 0)
    daemon.ask("a", 1, 0)
    early, _ = daemon.ask("a", 1, 3 * MAX_IDLE_BATCHES)
    assert daemon.ask("a", 0, MAX_IDLE_BATCHES)[0] != late
    repeated = daemon.ask("a", 0, MAX_IDLE_BATCHES + 1)
    assert repeated[1] == 2
    assert daemon.ask("a", 1, 3 * MAX_IDLE_BATCHES) == (early, 3)


@pytest.fixture
def socket_number() -> Iterator[int]:
    """The file descriptor of a pool socket that has a name."""
    with pool.named_socket() as bound:
        assert bound
        yield bound.fileno()


@pytest.fixture
def named(socket_number) -> Iterator[Daemon]:
    """A daemon whose pool has a socket with a name. This process, which is not its child, has the name, too."""
    one = Daemon(socket_number)
    yield one
    one.kill()


def asked_from_outside(bucket: int) -> tuple[int, int]:
    with pool.connection("a", bucket, 0) as task, task.makefile("rb") as file:
        process, asked = file.read().split()
    return int(process), int(asked)


def test_all_processes_reach_the_same_state_servers_by_the_name_of_the_socket(named):
    process, asked = named.ask("a", 0)
    assert asked_from_outside(0) == (process, asked + 1)


def test_a_request_waits_in_the_socket_for_the_next_pool(named, socket_number):
    process, _ = named.ask("a", 0)
    pool_pid = int(named.tell("pool"))
    named.kill()
    await_true(lambda: not running(process) and not running(pool_pid))
    with ThreadPoolExecutor() as threads:
        asking = threads.submit(asked_from_outside, 0)
        await_true(lambda: has_requests(socket_number))
        other = Daemon(socket_number)
        answer, asked = asking.result()
        other.kill()
    assert answer != process
    assert asked == 1


def has_requests(socket_number: int) -> bool:
    return bool(select.select([socket_number], [], [], 0)[0])


def test_a_request_that_no_pool_accepts_fails_in_limited_time_and_disturbs_no_state_server(socket_number, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(pool, "MAX_ACCEPT_S", 0.05)
        with pytest.raises(TimeoutError, match="no process has accepted a request"):
            pool.connection("a", 0, 0)
    assert has_requests(socket_number)
    other = Daemon(socket_number)
    assert other.ask("a", 0)[1] == 1, "the first request reached no state server"
    other.kill()


def test_a_worker_on_a_cluster_whose_request_no_pool_accepts_ends_the_daemon(monkeypatch):
    killed = []
    monkeypatch.setattr(os, "kill", lambda *arguments: killed.append(arguments))
    monkeypatch.setattr(pool, "MAX_ACCEPT_S", 0.05)
    monkeypatch.setattr(PoolSocket, "daemon", os.getppid())
    inside, outside = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    monkeypatch.setattr(PoolSocket, "outside", outside)
    with inside, outside, pytest.raises(TimeoutError):
        pool.connection("a", 0, 0)
    assert killed == [(os.getppid(), signal.SIGTERM)]


@pytest.mark.usefixtures("socket_number")
def test_a_request_fails_in_limited_time_where_the_socket_is_full_and_no_pool_reads_it(monkeypatch):
    monkeypatch.setattr(pool, "MAX_WAIT_S", 0.05)
    with pytest.raises(OSError):  # noqa: PT011 - the limit of requests in a socket, or that of descriptors in sockets
        fill_the_socket()


def fill_the_socket() -> None:
    with socket.socket() as one:
        while True:
            pool._send([b"0 0 a"], [one.fileno()])  # noqa: SLF001


def test_a_named_socket_inside_of_another_leaves_the_name_of_the_outer_one(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)  # Spark's session of other tests may have one
    with pool.named_socket():
        outer = os.environ[VARIABLE]
        with pool.named_socket():
            assert os.environ[VARIABLE] != outer
        assert os.environ[VARIABLE] == outer
    assert VARIABLE not in os.environ


def test_a_folder_whose_path_is_too_long_for_a_socket_gives_none(tmp_path, monkeypatch):
    long = tmp_path / ("x" * pool.MAX_PATH)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    monkeypatch.delenv(VARIABLE, raising=False)  # Spark's session of other tests may have one
    with pool.named_socket() as bound:
        assert bound is None
        assert not pool.reachable()
