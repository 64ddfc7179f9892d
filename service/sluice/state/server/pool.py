"""The pool: the process that forks the state servers of buckets and connects each client to the server it needs.

The pool is forked after all modules are imported and all kernels are compiled, so a new state server can work at once.
A client is a Spark task or the service's own process. It creates a pair of connected sockets and sends one of them,
with the number of the bucket and the name of the query, through the pool socket. The pool accepts the connection with
one byte and passes it on to the bucket's state server. The client waits for the byte for a limited time. It then waits
as long as the state server works: if that process dies, the connection ends.

On a single machine the fork server (spark/workers/fork_server.py) forks the pool, and forks it anew after its death.
The pool socket has a name in a folder that only the service's user can open; the environment variable VARIABLE has the
name. The service binds it and keeps it open: requests that are sent while there is no pool wait in it for the next one.

On a cluster the daemon of the Python workers of each executor starts a supervisor, whose only work is to fork the pool.
The workers inherit the pool socket. If pool and supervisor are dead, a worker cannot write to it, and ends the daemon.
Spark then starts a new daemon and repeats the task.

All these processes end when the service or the daemon ends.

The name of a query has two parts, "CHECKPOINT/START". The first request of a new start ends the state servers of
earlier starts of the same checkpoint. `end_query` ends the servers of a query that will not start again. A request
that a start sends after its end, from a task or a thread that goes on, is refused. An inspection (bucket_inspection.py)
starts no state server, and does not count as a request.

On a cluster a bucket may move to another executor. A state server that gets no request while other buckets of its query
get requests for MAX_IDLE_BATCHES further batches is ended, so that its memory is free. Its state is in the checkpoint.

The pool forks readers (read_request.py) in the same way: as if they were the state servers of one more query, READERS.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import tempfile
import time
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sluice.files import readable
from sluice.processes import environment_variable, name_process, run_and_end

#: maximum number of queries whose state servers stay alive. A service has one query for each stage of each pipeline.
QUERIES = 256
#: number of batches without a request after which a state server is ended, if other buckets of its query are requested
MAX_IDLE_BATCHES = 10
#: seconds between two checks of the pool whether its parent process is still alive
INTERVAL = 1.0
#: seconds between two checks of the supervisor whether the pool and the daemon are still alive
PAUSE = 0.1
#: the longest wait, in seconds, for room in the pool socket: without a pool, nothing takes requests out of it
MAX_WAIT_S = 60.0
#: the longest wait, in seconds, for the pool to accept a connection. At the first start of a new version the pool comes
#: after the kernels are compiled, which takes minutes
MAX_ACCEPT_S = 1800.0
#: the longest wait, in seconds, for the end of state servers that were killed
MAX_END_S = 5.0
#: maximum number of bytes of a message in the pool socket
MAX_MESSAGE_BYTES = 4096

#: environment variable with the path of the pool socket; without it the socket has no name
VARIABLE = "SLUICE_POOL_SOCKET"
#: maximum length of its path: the maximum length of the address of a Unix socket
MAX_PATH = 100
#: the version in an inspection request; the versions of batches are not negative
INSPECTION = -1

#: the version in a request whose connection stays open for further requests, which the pool does not see: the state
#: server counts as requested in all later batches
KEPT = 1 << 62

#: in place of the name of a query: the readers of all queries
READERS = "readers"

#: the main function of a state server
Work = Callable[[socket.socket], None]


class PoolSocket:
    """The end of a pool socket without a name that this process and the workers forked from it use. One per process."""

    outside: socket.socket | None = None
    #: process id of the daemon that forks the workers
    daemon: int = 0


def start_pool(work: Work) -> None:
    """Forks the supervisor, which forks the pool. Their socket has no name.

    `work` is the main function of a state server. Its argument is the server's end of a socket pair, and it returns
    when the other end is closed.
    """
    inside, outside = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    outside.settimeout(MAX_WAIT_S)
    daemon = os.getpid()
    sys.stdout.flush()
    if not os.fork():
        outside.close()
        supervisor = os.getpid()
        _run_forked(lambda: _supervise(daemon, lambda: Pool(inside, supervisor, work).run()))
    inside.close()
    PoolSocket.outside, PoolSocket.daemon = outside, daemon


@contextmanager
def named_socket() -> Iterator[socket.socket | None]:
    """A pool socket with a name, in a folder of this user. None if the folder's path is too long for a socket.

    Contexts may be nested: at its end a context names the socket that was named before.
    """
    with tempfile.TemporaryDirectory(prefix="sluice-", ignore_cleanup_errors=True) as folder, ExitStack() as stack:
        path = str(Path(folder, "pool"))
        if len(path) >= MAX_PATH:
            yield None
            return
        bound = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        bound.bind(path)
        stack.enter_context(environment_variable(VARIABLE, path))
        yield bound


def run_pool(bound: socket.socket, parent: int, work: Work) -> None:
    """Makes this process, a child of process `parent`, the pool of a socket with a name. It never returns."""
    _run_forked(lambda: Pool(bound, parent, work).run())


def reachable() -> bool:
    """Whether this process can send requests: there is a pool on this machine, or there will be one."""
    return PoolSocket.outside is not None or VARIABLE in os.environ


def _supervise(daemon: int, work: Callable[[], None]) -> None:
    """Runs `work` in a forked process, and forks a new one whenever that process has ended, until the daemon ends."""
    name_process("sluice-pool")
    while os.getppid() == daemon:
        pid = os.fork()
        if not pid:
            _run_forked(work)
        while not os.waitpid(pid, os.WNOHANG)[0]:
            if os.getppid() != daemon:
                os.kill(pid, signal.SIGKILL)
            time.sleep(PAUSE)


def connection(query: str, bucket: int, version: int) -> socket.socket:
    """A new connection to the state server of a bucket of a query. The pool forks the server if there is none.

    With READERS as the query it is a connection to the reader of this number; the version is then without effect.

    `version` is the version of the state that the request is about, the number of the batch; or KEPT.

    Raises OSError if there is no pool, and no process that will start one, or if no pool accepts the connection in
    time; in a worker on a cluster it then ends the daemon. Raises EOFError if the pool refuses the connection or dies,
    and RuntimeError in a process that can reach no pool.
    """
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            _send([f"{bucket} {version} {query}".encode()], [theirs.fileno()])
        _await_acceptance(ours)
    except BaseException:
        ours.close()
        raise
    return ours


def _await_acceptance(ours: socket.socket) -> None:
    ours.settimeout(MAX_ACCEPT_S)
    try:
        accepted = ours.recv(1)
    except TimeoutError:
        _end_daemon()
        msg = f"no process has accepted a request to a state server for {MAX_ACCEPT_S:.0f} seconds"
        raise TimeoutError(msg) from None
    if not accepted:
        msg = "the pool of state servers has refused a request, or has ended"
        raise EOFError(msg)
    ours.settimeout(None)


def send_inspection(query: str, bucket: int, theirs: socket.socket, seconds: float) -> None:
    """Sends the inspection request of a bucket; the answer comes through `theirs`, which has the question already.

    Raises OSError if the pool has no socket with a name, or takes no request for so many seconds.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as pool:
        pool.settimeout(seconds)
        pool.connect(os.environ.get(VARIABLE, ""))
        socket.send_fds(pool, [f"{bucket} {INSPECTION} {query}".encode()], [theirs.fileno()])


def _send(question: list[bytes], answer: list[int]) -> None:
    """Sends a request to the pool. `answer` is the file descriptor of the socket for the answer."""
    if PoolSocket.outside is None:
        _send_by_name(question, answer)
        return
    try:
        socket.send_fds(PoolSocket.outside, question, answer)
    except OSError:
        _end_daemon()
        raise


def _end_daemon() -> None:
    """In a worker on a cluster, ends the daemon, which forked this process: Spark starts another one."""
    if os.getppid() == PoolSocket.daemon:
        os.kill(PoolSocket.daemon, signal.SIGTERM)


def _send_by_name(question: list[bytes], answer: list[int]) -> None:
    """Sends a request to the pool socket that has a name."""
    path = os.environ.get(VARIABLE)
    if not path:
        msg = "spark.python.daemon.module must be sluice.spark.workers.daemon"
        raise RuntimeError(msg)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as pool:
        pool.settimeout(MAX_WAIT_S)
        pool.connect(path)
        socket.send_fds(pool, question, answer)


def end_query(checkpoint: str) -> None:
    """Ends the state servers of all starts of this checkpoint. `checkpoint` is the id that `Plan.query` has.

    Does nothing where no pool can be reached: on a cluster the pools are on other machines. There the state servers end
    with a new start of the checkpoint or with the service.
    """
    if reachable():
        with suppress(OSError):  # the pool has died, and its state servers with it
            _send([checkpoint.encode()], [])


def received_connection(
    control: socket.socket, seconds: float | None = None, kept: socket.socket | None = None
) -> socket.socket | None:
    """The connection with the next request: a new one that the pool passes through `control`, or `kept`, on which an
    earlier request came.

    None when the pool has closed `control`, and if no request comes for so many seconds; None: the wait has no limit.
    """
    # `select.select` refuses the high numbers that files have in a pool of many state servers
    poll = select.poll()
    for connection in (control,) if kept is None else (control, kept):
        poll.register(connection, select.POLLIN)
    ready = [number for number, _ in poll.poll(None if seconds is None else seconds * 1000)]
    if control.fileno() not in ready:
        return kept if ready else None
    data, numbers, _, _ = socket.recv_fds(control, 1, 1)
    return socket.socket(fileno=numbers[0]) if data and numbers else None


@dataclass(slots=True)
class StateServer:
    """The pool's data of a state server: its process, the pool's end of its control socket, and the version of the last
    request.
    """

    pid: int
    control: socket.socket
    version: int

    def kill(self) -> None:
        """Kills the process if it has not ended: otherwise another process may have its number."""
        try:
            ended = not self.control.recv(1, socket.MSG_DONTWAIT)  # it writes nothing; its end closes the socket
        except OSError as error:
            ended = not isinstance(error, BlockingIOError)
        if not ended:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def close(self, seconds: float) -> None:
        """Waits until the process has ended, for at most so many seconds, and closes the control socket."""
        with self.control, suppress(OSError):
            self.control.settimeout(seconds)
            self.control.recv(1)


class Pool:
    """The work of the pool process. `inside` is its socket. The pool ends when its parent process has ended."""

    def __init__(self, inside: socket.socket, parent: int, work: Work) -> None:
        self._inside, self._parent, self._work = inside, parent, work
        #: by query (least recently used first) and by bucket
        self._servers: OrderedDict[str, dict[str, StateServer]] = OrderedDict()
        #: the queries whose state servers were ended because the query will not start again, the last ones
        self._ended: deque[str] = deque(maxlen=QUERIES)

    def run(self) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no code waits for the state servers, so the kernel reaps them
        while os.getppid() == self._parent:
            if not readable(INTERVAL, self._inside.fileno()):
                continue
            name, numbers, _, _ = socket.recv_fds(self._inside, MAX_MESSAGE_BYTES, 1)
            if not numbers:
                self._end(name.decode())
                continue
            with socket.socket(fileno=numbers[0]) as task, suppress(OSError):  # the task repeats its request
                self._pass_request(name.decode(), task)

    def _pass_request(self, name: str, task: socket.socket) -> None:
        bucket, number, query = name.split(" ", 2)
        version = int(number)
        if version == INSPECTION:
            self._pass_inspection(self._servers.get(query, {}).get(bucket), task)
            return
        if query in self._ended:
            return  # the caller closes the connection
        task.sendall(b"!")  # an error if the client has given up
        if query not in self._servers:
            self._end(query.partition("/")[0])
        servers = self._servers.setdefault(query, {})
        self._servers.move_to_end(query)
        try:
            socket.send_fds(servers[bucket].control, [b"!"], [task.fileno()])
            servers[bucket].version = version
        except (KeyError, OSError):  # the bucket has no state server yet, or its server has died
            if bucket in servers:
                servers.pop(bucket).control.close()
            self._end_surplus()
            servers[bucket] = self._forked(task, version, "sluice-reader" if query == READERS else "sluice-bucket")
            socket.send_fds(servers[bucket].control, [b"!"], [task.fileno()])
        if version == KEPT:
            return
        for other in [
            idle for idle, server in servers.items() if server.version < version - MAX_IDLE_BATCHES and idle != bucket
        ]:
            servers.pop(other).control.close()

    @staticmethod
    def _pass_inspection(server: StateServer | None, connection: socket.socket) -> None:
        """Passes the connection of an inspection on to the state server. Without one, the caller closes it unanswered.

        Never waits: if too many requests are queued already, the inspection gets no answer.
        """
        if server is not None:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [connection.fileno()]))]
            server.control.sendmsg([b"!"], rights, socket.MSG_DONTWAIT)

    def _controls(self) -> Iterator[socket.socket]:
        return (server.control for servers in self._servers.values() for server in servers.values())

    def _forked(self, task: socket.socket, version: int, name: str) -> StateServer:
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if not pid:
            # Other processes wait for the end of these sockets, so a state server must not keep copies of them open.
            for end in (ours, task, self._inside, *self._controls()):
                end.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            gc.collect()
            name_process(name)
            _run_forked(lambda: self._work(theirs))
        theirs.close()
        return StateServer(pid, ours, version)

    def _end(self, checkpoint: str) -> None:
        """Ends the state servers of all starts of this checkpoint.

        They are killed, and the pool waits for their ends: a state server that is still at work (on a snapshot, for a
        task that was given up) would do it beside its successor, with a second copy of the state in memory.
        """
        ended = [query for query in self._servers if query.partition("/")[0] == checkpoint]
        servers = [server for query in ended for server in self._servers.pop(query).values()]
        self._ended.extend(ended)
        for server in servers:
            server.kill()
        deadline = time.monotonic() + MAX_END_S
        for server in servers:
            server.close(max(0.0, deadline - time.monotonic()))

    def _end_surplus(self) -> None:
        """Ends the state servers of the least recently used queries until QUERIES queries are left."""
        while len(self._servers) > QUERIES:
            self._close(self._servers.popitem(last=False)[1])

    @staticmethod
    def _close(servers: dict[str, StateServer]) -> None:
        for server in servers.values():
            server.control.close()


def _run_forked(work: Callable[[], None]) -> None:
    """Runs `work` in a forked process without standard input, and then exits; it never returns.

    The process ignores SIGINT, SIGTERM and SIGHUP: it ends when its parent ends.
    """

    def alone() -> None:
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)  # Spark reads the daemon's standard output, so no other text may get into it
        work()

    run_and_end(alone)
