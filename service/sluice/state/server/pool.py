"""The pool: the process that forks the state servers of buckets and connects each Spark task to the server it needs.

The pool is forked from Spark's Python daemon after all modules are imported and all kernels are compiled, so a new
state server can work at once. Every worker that the daemon forks inherits the pool socket. A task creates a pair of
connected sockets and sends one of them, with the number of the bucket and the name of the query, through the pool
socket. The pool passes it on to the bucket's state server. All these processes end when the daemon ends.

The name of a query has two parts, "CHECKPOINT/START". The first request of a new start ends the state servers of
earlier starts of the same checkpoint: no request comes for them any more. `end_query` ends those of a query that will
not start again.

On a cluster a bucket may move to another executor. A state server that gets no request while other buckets of its query
get requests for UNASKED further batches is ended, so that its memory is free. Its state is in the checkpoint.

The service's own process is no child of the daemon. It sends its requests to a second socket, which has a name in a
folder that only the service's user can open. The environment variable VARIABLE names it to both. An inspection
(inspection_request.py) comes through it, too: it starts no state server, and does not count as a request.

Any of these processes may be killed. The parent of the pool is a supervisor, whose only work is to fork a new pool
when the pool has died. The new pool reads the requests that are still queued in the same pool socket. If the supervisor
was killed as well, a task cannot write to the pool socket, and it ends the daemon. Spark then starts a new daemon and
repeats the task.
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
import traceback
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sluice.processes import name_process

#: maximum number of queries whose state servers stay alive. A service has one query for each stage of each pipeline.
QUERIES = 256
#: number of batches without a request after which a state server is ended, if other buckets of its query are requested
UNASKED = 10
#: seconds between two checks of the pool whether its parent process is still alive
INTERVAL = 1.0
#: seconds between two checks of the supervisor whether the pool and the daemon are still alive
PAUSE = 0.1
#: maximum number of bytes of a message in the pool socket
MAX_MESSAGE_BYTES = 4096

#: environment variable with the path of the pool's second socket; without it there is none
VARIABLE = "SLUICE_POOL_SOCKET"
#: maximum length of its path: that of the address of a Unix socket
MAX_PATH = 100
#: the version in the request of a look; the versions of batches are not negative
LOOK = -1

#: the main function of a state server
Work = Callable[[socket.socket], None]


class PoolSocket:
    """The end of the pool socket that this process and the workers forked from it use. One per process."""

    outside: socket.socket | None = None
    #: process id of the daemon that forks the workers
    daemon: int = 0


def start_pool(work: Work) -> None:
    """Forks the supervisor, which forks the pool.

    `work` is the main function of a state server. Its argument is the server's end of a socket pair, and it returns
    when the other end is closed.
    """
    inside, outside = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    sockets = [inside, *_named()]
    daemon = os.getpid()
    sys.stdout.flush()
    if not os.fork():
        outside.close()
        supervisor = os.getpid()
        _stay(lambda: _supervise(daemon, lambda: Pool(sockets, supervisor, work).run()))
    for one in sockets:
        one.close()
    PoolSocket.outside, PoolSocket.daemon = outside, daemon


@contextmanager
def named_socket() -> Iterator[None]:
    """Gives the pools that are started inside the context a second socket, in a folder of this user.

    Contexts may be nested: at its end a context names the socket that was named before.
    """
    before = os.environ.get(VARIABLE)
    with tempfile.TemporaryDirectory(prefix="sluice-", ignore_cleanup_errors=True) as folder:
        path = str(Path(folder, "pool"))
        if len(path) < MAX_PATH:
            os.environ[VARIABLE] = path
        try:
            yield
        finally:
            os.environ.pop(VARIABLE, None)
            if before is not None:
                os.environ[VARIABLE] = before


def _named() -> list[socket.socket]:
    """The pool's second socket, if the environment names one. The socket of an earlier daemon loses its name."""
    path = os.environ.get(VARIABLE)
    if not path:
        return []
    with suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108
    named = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    named.bind(path)
    return [named]


def reachable() -> bool:
    """Whether this process can send requests: a worker can, the service's own process when the pool runs."""
    return PoolSocket.outside is not None or os.path.exists(os.environ.get(VARIABLE, ""))  # noqa: PTH110


def _supervise(daemon: int, work: Callable[[], None]) -> None:
    """Runs `work` in a forked process, and forks a new one whenever that process has ended, until the daemon ends."""
    name_process("sluice-pool")
    while os.getppid() == daemon:
        pid = os.fork()
        if not pid:
            _stay(work)
        while not os.waitpid(pid, os.WNOHANG)[0]:
            if os.getppid() != daemon:
                os.kill(pid, signal.SIGKILL)
            time.sleep(PAUSE)


def connection(query: str, bucket: int, version: int) -> socket.socket:
    """A new connection to the state server of a bucket of a query. The pool forks the server if there is none.

    `version` is the version of the state that the request is about: the number of the batch.

    Raises OSError if the pool and its supervisor are dead; in a worker it then ends the daemon. Raises RuntimeError in
    a process that can reach no pool.
    """
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            _send([f"{bucket} {version} {query}".encode()], [theirs.fileno()])
    except BaseException:
        ours.close()
        raise
    return ours


def send_look(query: str, bucket: int, theirs: socket.socket, seconds: float) -> None:
    """Sends a look at a bucket, which is answered through `theirs`. The question is in that socket already.

    Raises OSError if the pool has no socket with a name, or takes no request for so many seconds.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as pool:
        pool.settimeout(seconds)
        pool.connect(os.environ.get(VARIABLE, ""))
        socket.send_fds(pool, [f"{bucket} {LOOK} {query}".encode()], [theirs.fileno()])


def _send(question: list[bytes], answer: list[int]) -> None:
    """Sends a request to the pool. `answer` is the file descriptor of the socket for the answer."""
    if PoolSocket.outside is None:
        _send_by_name(question, answer)
        return
    try:
        socket.send_fds(PoolSocket.outside, question, answer)
    except OSError:
        if os.getppid() == PoolSocket.daemon:
            os.kill(PoolSocket.daemon, signal.SIGTERM)
        raise


def _send_by_name(question: list[bytes], answer: list[int]) -> None:
    """Sends a request to the pool's second socket."""
    path = os.environ.get(VARIABLE)
    if not path:
        msg = "spark.python.daemon.module must be sluice.spark.daemon"
        raise RuntimeError(msg)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as pool:
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


def received_connection(control: socket.socket) -> socket.socket | None:
    """The next connection that the pool passes through `control`. None when the pool has closed `control`."""
    data, numbers, _, _ = socket.recv_fds(control, 1, 1)
    return socket.socket(fileno=numbers[0]) if data and numbers else None


@dataclass(slots=True)
class StateServer:
    """A state server as the pool sees it: the pool's end of its control socket, and the version of the last request."""

    control: socket.socket
    version: int


class Pool:
    """The work of the pool process. `sockets` are its sockets. The pool ends when its parent process has ended."""

    def __init__(self, sockets: Sequence[socket.socket], parent: int, work: Work) -> None:
        self._sockets, self._parent, self._work = sockets, parent, work
        #: by query (least recently used first) and by bucket
        self._servers: OrderedDict[str, dict[str, StateServer]] = OrderedDict()

    def run(self) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no code waits for the state servers, so the kernel reaps them
        while os.getppid() == self._parent:
            for ready in select.select(self._sockets, [], [], INTERVAL)[0]:
                name, numbers, _, _ = socket.recv_fds(ready, MAX_MESSAGE_BYTES, 1)
                if not numbers:
                    self._end(name.decode())
                    continue
                with socket.socket(fileno=numbers[0]) as task, suppress(OSError):  # the task repeats its request
                    self._pass_request(name.decode(), task)

    def _pass_request(self, name: str, task: socket.socket) -> None:
        bucket, number, query = name.split(" ", 2)
        version = int(number)
        if version == LOOK:
            self._pass_look(self._servers.get(query, {}).get(bucket), task)
            return
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
            self._forget()
            servers[bucket] = StateServer(self._fork(task), version)
            socket.send_fds(servers[bucket].control, [b"!"], [task.fileno()])
        for other in [one for one, server in servers.items() if server.version < version - UNASKED and one != bucket]:
            servers.pop(other).control.close()

    @staticmethod
    def _pass_look(server: StateServer | None, asking: socket.socket) -> None:
        """Passes the connection of a look to the state server. Without one it is closed, which is the answer.

        It never waits: where too many requests are queued already, the look is not answered.
        """
        if server is not None:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [asking.fileno()]))]
            server.control.sendmsg([b"!"], rights, socket.MSG_DONTWAIT)

    def _controls(self) -> Iterator[socket.socket]:
        return (server.control for servers in self._servers.values() for server in servers.values())

    def _fork(self, task: socket.socket) -> socket.socket:
        ours, theirs = socket.socketpair()
        if not os.fork():
            # Other processes wait for the end of these sockets, so a state server must not keep copies of them open.
            for one in (ours, task, *self._sockets, *self._controls()):
                one.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            gc.collect()
            name_process("sluice-bucket")
            _stay(lambda: self._work(theirs))
        theirs.close()
        return ours

    def _end(self, checkpoint: str) -> None:
        """Ends the state servers of all starts of this checkpoint."""
        for query in [query for query in self._servers if query.partition("/")[0] == checkpoint]:
            self._close(self._servers.pop(query))

    def _forget(self) -> None:
        """Ends the state servers of the least recently used queries until QUERIES queries are left."""
        while len(self._servers) > QUERIES:
            self._close(self._servers.popitem(last=False)[1])

    @staticmethod
    def _close(servers: dict[str, StateServer]) -> None:
        for server in servers.values():
            server.control.close()


def _stay(work: Callable[[], None]) -> None:
    """Runs `work` in a forked process and then exits; it never returns.

    The process ignores SIGINT, SIGTERM and SIGHUP: Spark ends the daemon, and the end of the daemon ends this process.
    """
    code = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)  # Spark reads the daemon's standard output, so no other text may get into it
        work()
        code = 0
    except BaseException:  # noqa: BLE001 - the error is printed, and the exit code reports it
        traceback.print_exc()
    finally:
        os._exit(code)
