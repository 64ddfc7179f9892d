"""The fork server: it imports all modules and compiles all kernels once, and forks the processes that use them.

    the service --> fork server --> pool (state/server/pool.py) --> state servers
                                --> Spark's daemon, one for each daemon.py --> Spark's Python workers

The service forks it from its own process, once it has imported the modules (fork_server_process.py). So the modules
are imported once and are in memory once, and the state servers of a first batch do not wait for Spark's Python
processes. If the pool ends, the fork server forks another one. If the fork server ends, the service, which has threads
by then, starts another one as a program:

    python -m sluice.spark.workers.fork_server POOL DAEMONS

The arguments are the file descriptors of the pool socket and of the socket for requests of daemons. The standard input
is a socket. The fork server waits for a line on it, which names the pipelines (`kernel_warm_up.to_text`), and writes
one byte to it when it has loaded and forked the pool. All these processes end when the other end is closed, which
happens however the service ends.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import socket
import sys
from contextlib import suppress
from typing import NoReturn

from sluice.files import readable
from sluice.processes import (
    GROUP_SIGNALS,
    close_files_except,
    forked_processes_end_with_their_parents,
    name_process,
    run_and_end,
)

LOGGER = logging.getLogger("sluice.spark")
#: the file descriptor of the standard input
CONTROL = 0
#: seconds between two checks whether the pool is still alive
PAUSE = 0.1
#: the longest wait, in seconds, for the next bytes of a request for a daemon, which is sent as a whole
MAX_REQUEST_S = 5.0


class ForkServer:
    def __init__(self, pool: socket.socket, daemons: socket.socket) -> None:
        self._pool_socket, self._daemons = pool, daemons
        self._pool = 0

    def run(self) -> None:
        """Loads, then forks until the standard input is closed."""
        from sluice.spark.workers.loaded_modules import load  # noqa: PLC0415 - takes seconds

        with open(CONTROL, closefd=False) as lines:
            pipelines = lines.readline()
        if not pipelines.endswith("\n"):  # the service has ended
            return
        load(pipelines.rstrip())
        self._keep_pool()
        with suppress(OSError):  # the service has ended
            os.write(CONTROL, b"!")
        while True:
            self._keep_pool()
            ready = readable(PAUSE, CONTROL, self._daemons.fileno())
            if CONTROL in ready:
                return
            if ready:
                with self._daemons.accept()[0] as connection:
                    self._fork_daemon(connection)

    def _keep_pool(self) -> None:
        """Forks the pool if there is none."""
        from sluice.state.server.pool import run_pool  # noqa: PLC0415
        from sluice.state.server.state_server import serve  # noqa: PLC0415

        while self._pool and (ended := os.waitpid(-1, os.WNOHANG)[0]):
            if ended == self._pool:
                self._pool = 0
        if not self._pool:
            server = os.getpid()
            self._pool = os.fork()
            if not self._pool:
                self._daemons.close()
                name_process("sluice-pool")
                run_pool(self._pool_socket, server, serve)

    def _fork_daemon(self, connection: socket.socket) -> None:
        """Forks a daemon with the standard streams, the arguments and the environment of the requesting process.

        Without effect if that process dies before its request is complete, or if no process can be forked: the
        connection ends, and Spark starts another one.
        """
        connection.settimeout(MAX_REQUEST_S)
        streams: list[int] = []
        try:
            streams = [*socket.recv_fds(connection, 1, 3)[1]]
            with connection.makefile("rb") as file:
                question = json.loads(file.read())
            forked = os.fork()
        except (OSError, ValueError) as error:
            LOGGER.warning("no daemon for Spark was forked: %s", error)
            forked = -1
        if forked == 0:
            for closed in (self._pool_socket, self._daemons):
                closed.close()
            for stream, number in enumerate(streams):
                os.dup2(number, stream)
            _be_daemon(question["arguments"], question["environment"], question["path"])
        for number in streams:
            os.close(number)


def _be_daemon(arguments: list[str], environment: dict[str, str], path: list[str]) -> NoReturn:
    from pyspark.daemon import manager  # noqa: PLC0415

    sys.argv[:], sys.path[:] = arguments, path
    os.environ.clear()
    os.environ.update(environment)
    try:
        manager()
    finally:
        os._exit(1)


def forked(pool: int, daemons: int, control: int, stderr: int) -> int:
    """Forks a fork server from this process, which has loaded the modules. Returns its process id.

    `control` becomes its standard input, and `stderr` its standard output and error; it has no other files of this
    process but the sockets `pool` and `daemons`. Raises OSError if no process can be forked.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()

    def work() -> None:
        gc.freeze()  # garbage of this process must stay: the end of a Kafka client, whose threads are not here, crashes
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number, stream in enumerate((control, stderr, stderr)):
            os.dup2(stream, number)
        sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__
        close_files_except(pool, daemons)
        _serve(pool, daemons)

    before = signal.pthread_sigmask(signal.SIG_BLOCK, GROUP_SIGNALS)  # until the handlers of this process are replaced
    try:
        pid = os.fork()
        if not pid:
            run_and_end(work)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def _serve(pool: int, daemons: int) -> None:
    name_process("sluice-fork")
    forked_processes_end_with_their_parents()
    ForkServer(socket.socket(fileno=pool), socket.socket(fileno=daemons)).run()


if __name__ == "__main__":
    run_and_end(lambda: _serve(*map(int, sys.argv[1:])))
