"""The process that forks the keepers of buckets, and leads every task to the one it needs.

It is forked from Spark's daemon once everything is imported and compiled, so keepers are ready at once. Each worker
that the daemon forks has the door to it: a task makes a pair of sockets and sends one of them through the door, with
the name of the bucket; the nursery hands it to the bucket's keeper. Nothing has a place in the file system, and all of
them end with the daemon.

Any of these processes may be killed. The parent of the nursery is a supervisor, which does nothing else. It then
forks another nursery, which goes on with what waits at the same door. If the supervisor was killed too, a task that
finds the door closed ends the daemon. Spark then starts a new daemon and repeats the task.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress

from sluice.processes import name_process

#: queries whose keepers are kept; a service has one for each of its stages, tests run many, one after the other
QUERIES = 32
#: seconds after which the nursery sees that the daemon has died
INTERVAL = 1.0
#: seconds after which the supervisor sees that the nursery or the daemon has died
PAUSE = 0.1
#: bytes of a message through the door
MOST = 4096

Keep = Callable[[socket.socket], None]


class PoolSocket:
    """This process's way to the nursery."""

    way: socket.socket | None = None
    #: the process that forks the workers
    daemon: int = 0


def start_pool(keep: Keep) -> None:
    """Forks it. `keep` is what a keeper does with its end of a pair, until the other end is closed."""
    inside, outside = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    daemon = os.getpid()
    sys.stdout.flush()
    if not os.fork():
        outside.close()
        supervisor = os.getpid()
        _stay(lambda: _supervise(daemon, lambda: Pool(inside, supervisor, keep).run()))
    inside.close()
    PoolSocket.way, PoolSocket.daemon = outside, daemon


def _supervise(daemon: int, work: Callable[[], None]) -> None:
    """Does the work in a forked process, and in another one when that dies, as long as the daemon lives."""
    name_process("sluice-pool")
    while os.getppid() == daemon:
        pid = os.fork()
        if not pid:
            _stay(work)
        while not os.waitpid(pid, os.WNOHANG)[0]:
            if os.getppid() != daemon:
                os.kill(pid, signal.SIGKILL)
            time.sleep(PAUSE)


def connection(query: str, bucket: int) -> socket.socket:
    """To the keeper of a bucket of a query, which is forked if there is none."""
    if PoolSocket.way is None:
        msg = "spark.python.daemon.module must be sluice.spark.daemon"
        raise RuntimeError(msg)
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            socket.send_fds(PoolSocket.way, [f"{bucket} {query}".encode()], [theirs.fileno()])
        except OSError:
            if os.getppid() == PoolSocket.daemon:
                os.kill(PoolSocket.daemon, signal.SIGTERM)
            raise
    return ours


def received_connection(control: socket.socket) -> socket.socket | None:
    """The next connection; None when there will be no more."""
    data, numbers, _, _ = socket.recv_fds(control, 1, 1)
    return socket.socket(fileno=numbers[0]) if data and numbers else None


class Pool:
    """`door` is where tasks knock; it ends with its parent process."""

    def __init__(self, door: socket.socket, parent: int, keep: Keep) -> None:
        self._door, self._parent, self._keep = door, parent, keep
        #: by query, the least recently asked for first, and bucket: our end of the keeper's control
        self._keepers: OrderedDict[str, dict[str, socket.socket]] = OrderedDict()

    def run(self) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for keepers
        while os.getppid() == self._parent:
            if select.select([self._door], [], [], INTERVAL)[0]:
                name, numbers, _, _ = socket.recv_fds(self._door, MOST, 1)
                with socket.socket(fileno=numbers[0]) as task, suppress(OSError):  # the task will ask again
                    self._lead(name.decode(), task)

    def _lead(self, name: str, task: socket.socket) -> None:
        bucket, _, query = name.partition(" ")
        keepers = self._keepers.setdefault(query, {})
        self._keepers.move_to_end(query)
        try:
            socket.send_fds(keepers[bucket], [b"!"], [task.fileno()])
        except (KeyError, OSError):  # there is none yet, or it died
            if bucket in keepers:
                keepers.pop(bucket).close()
            self._forget()
            keepers[bucket] = self._fork(task)
            socket.send_fds(keepers[bucket], [b"!"], [task.fileno()])

    def _fork(self, task: socket.socket) -> socket.socket:
        ours, theirs = socket.socketpair()
        if not os.fork():
            # What others wait for us to close must not stay open in a keeper.
            for one in (ours, task, self._door, *(s for some in self._keepers.values() for s in some.values())):
                one.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            gc.collect()
            name_process("sluice-bucket")
            _stay(lambda: self._keep(theirs))
        theirs.close()
        return ours

    def _forget(self) -> None:
        """Lets the keepers of queries go that have not been asked for longest."""
        while len(self._keepers) > QUERIES:
            for keeper in self._keepers.popitem(last=False)[1].values():
                keeper.close()


def _stay(work: Callable[[], None]) -> None:
    """What a forked process does, and nothing after it. Whom to end is Spark's to say, to the daemon."""
    code = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)  # what the daemon writes to its standard output is read by Spark
        work()
        code = 0
    except BaseException:  # noqa: BLE001 - told, and in the exit code
        traceback.print_exc()
    finally:
        os._exit(code)
