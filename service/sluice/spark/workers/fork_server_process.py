"""Starts the fork server of a service, starts it again if it has ended, and ends it with the service."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from sluice.processes import environment_variable
from sluice.spark.masking import filtered_pipe
from sluice.spark.workers.daemon import VARIABLE
from sluice.state.server.pool import named_socket

LOGGER = logging.getLogger("sluice.spark")
MODULE = "sluice.spark.workers.fork_server"
#: seconds between the end of a fork server and the start of the next one
PAUSE = 1.0
#: requests for a daemon that may wait while the fork server starts
BACKLOG = 16


class Sockets(NamedTuple):
    """The file descriptors of the pool socket and of the socket that takes Spark's requests for daemons."""

    pool: int
    daemons: int


@contextmanager
def named_sockets() -> Iterator[Sockets | None]:
    """The sockets of a fork server. Programs that start inside the context find their names in the environment.

    They belong to this process: requests that come while there is no fork server wait for the next one. None if there
    is no room for the path of a socket.
    """
    with named_socket() as pool:
        if pool is None:
            yield None
            return
        path = str(Path(pool.getsockname()).with_name("forks"))
        with socket.socket(socket.AF_UNIX) as daemons, environment_variable(VARIABLE, path):
            daemons.bind(path)
            daemons.listen(BACKLOG)
            yield Sockets(pool.fileno(), daemons.fileno())


@contextmanager
def fork_server(sockets: Sockets | None) -> Iterator[None]:
    """A fork server that runs while the context is open. What it needs of the pipelines is in the environment.

    Without sockets there is none, and Spark's daemon loads its modules itself.
    """
    if sockets is None:
        yield
        return
    server = ForkServerProcess(sockets)
    try:
        yield
    finally:
        server.end()


class ForkServerProcess:
    """A fork server, which a thread starts again whenever it has ended."""

    def __init__(self, sockets: Sockets) -> None:
        self._sockets = sockets
        self._stderr = filtered_pipe()
        self._ending = threading.Event()
        self._process = self._started()
        self._thread = threading.Thread(target=self._keep, name="sluice-fork-server", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Ends the fork server, and with it all that it forked."""
        self._ending.set()
        self._process.kill()
        self._thread.join()
        os.close(self._stderr)

    def _started(self) -> subprocess.Popen[bytes]:
        numbers = map(str, self._sockets)
        return subprocess.Popen(
            [sys.executable, "-m", MODULE, *numbers],
            stdin=subprocess.PIPE, stdout=self._stderr, stderr=self._stderr, pass_fds=self._sockets,
        )  # fmt: skip

    def _keep(self) -> None:
        while True:
            with self._process as process:  # closes the pipe to its standard input
                code = process.wait()
            if self._ending.is_set():
                return
            LOGGER.warning("the fork server has ended, and is started again", extra={"exit_code": code})
            self._ending.wait(PAUSE)
            self._process = self._started()
            if self._ending.is_set():
                self._process.kill()
