"""The fork server: it imports all modules and compiles all kernels once, and forks the processes that use them.

    the service --> fork server --> pool (state/server/pool.py) --> state servers
                                --> Spark's daemon, one for each daemon.py --> Spark's Python workers

The service starts it beside Java (fork_server_process.py), so the state servers of a first batch do not wait for
Spark's Python processes, and the loaded code is in memory once. If the pool ends, the fork server forks another one.

    python -m sluice.spark.workers.fork_server POOL DAEMONS

The arguments are the file descriptors of the pool socket and of the socket for requests of daemons. The standard input
is a socket: the fork server writes one byte to it when it has loaded and forked the pool. All these processes end when
the other end is closed, which happens however the service ends.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from typing import NoReturn

from sluice.processes import forked_processes_end_with_their_parents, name_process

LOGGER = logging.getLogger("sluice.spark")
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

        load()
        self._keep_pool()
        with suppress(OSError):  # the service has ended
            os.write(sys.stdin.fileno(), b"!")
        while True:
            self._keep_pool()
            ready = select.select([sys.stdin, self._daemons], [], [], PAUSE)[0]
            if sys.stdin in ready:
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


def main() -> None:
    # Signals to the group of the service's processes are for the service, which ends the others in order.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    name_process("sluice-fork")
    forked_processes_end_with_their_parents()
    pool, daemons = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    ForkServer(pool, daemons).run()


if __name__ == "__main__":
    main()
