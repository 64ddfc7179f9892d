"""Starts the fork server of a service, starts it again if it has ended, and ends it with the service.

The first one is forked from the service's process, before that has opened connections or its checkpoint. Its only other
threads are then those that copy the output of programs (masking.py). Later it has many, so the next ones are programs
of their own, which take a second longer and share no memory with the service.

Without a fork server nothing of a batch can be done, and requests wait. So if none comes up for MAX_DOWN_S seconds,
for instance because memory is short or the disk is full, the service ends.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from sluice.ops.log_lines import in_form
from sluice.processes import end_at_once, environment_variable
from sluice.spark.masking import filtered_pipe
from sluice.spark.workers.daemon import VARIABLE
from sluice.spark.workers.fork_server import forked
from sluice.state.server.pool import named_socket

LOGGER = logging.getLogger("sluice.spark")
MODULE = "sluice.spark.workers.fork_server"
#: seconds between the end of a fork server and the start of the next one
PAUSE = 1.0
#: the seconds without a fork server that came up after which the service ends, and its exit code then
MAX_DOWN_S, EXIT_CODE = 60.0, 3
#: maximum seconds until a fork server has come up. The kernels of a new version take minutes
MAX_LOAD_S = 1800.0
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
def fork_server(sockets: Sockets | None, *, fork: bool) -> Iterator[ForkServerProcess | None]:
    """A fork server that runs while the context is open: forked from this process, or a program of its own.

    Without sockets there is none, and Spark's daemon loads its modules itself.
    """
    if sockets is None:
        yield None
        return
    server = ForkServerProcess(sockets, fork=fork)
    try:
        yield server
    finally:
        server.end()


def _end_service(message: str) -> None:
    end_at_once(EXIT_CODE, in_form(message, plain=f"sluice: {message}"))


class Process(Protocol):
    """A child process."""

    def kill(self) -> None:
        """Has no effect if the process has ended."""

    def wait(self) -> int:
        """Waits until it has ended, and returns its exit code; minus the number of the signal that killed it."""


class Forked:
    """A child process that was forked from this one."""

    def __init__(self, pid: int) -> None:
        self._pid, self._lock = pid, threading.Lock()
        self._exit_code: int | None = None

    def kill(self) -> None:
        with self._lock:  # once the process is waited for, another one may have its number
            if self._exit_code is None:
                os.kill(self._pid, signal.SIGKILL)

    def wait(self) -> int:
        os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        with self._lock:
            if self._exit_code is None:
                self._exit_code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
            return self._exit_code


class Started(NamedTuple):
    """A fork server, and the socket whose other end is its standard input."""

    process: Process
    control: socket.socket

    def begin(self, pipelines: str) -> None:
        """Lets it load what these pipelines need."""
        with suppress(OSError):  # it has ended
            self.control.sendall(f"{pipelines}\n".encode())

    def wait(self) -> tuple[bool, int]:
        """Waits until it has ended. Returns whether it had come up, and its exit code."""
        with self.control:
            self.control.settimeout(MAX_LOAD_S)
            try:
                came_up = bool(self.control.recv(1))
            except OSError:  # it takes too long
                came_up = False
                self.process.kill()
            return came_up, self.process.wait()


class ForkServerProcess:
    """A fork server, which a thread starts again whenever it has ended."""

    def __init__(
        self, sockets: Sockets, give_up: Callable[[str], object] = _end_service,
        now: Callable[[], float] = time.monotonic, *, fork: bool = False,
    ) -> None:  # fmt: skip
        """Starts one, which waits for `begin`. With `fork` it is forked from this process, which has its modules.

        If none comes up for MAX_DOWN_S seconds of the clock `now`, `give_up` is called with a message, and none is
        started any more.
        """
        self._sockets, self._give_up, self._now = sockets, give_up, now
        self._stderr = filtered_pipe()
        self._ending = threading.Event()
        #: why there is none at the moment
        self._trouble = ""
        self._pipelines = ""
        self._server = self._started(self._forked if fork else self._executed)
        self._thread = threading.Thread(target=self._keep, name="sluice-fork-server", daemon=True)

    def begin(self, pipelines: str) -> None:
        """Lets it load what these pipelines need (a text of `kernel_warm_up.to_text`), and fork. To be called once."""
        self._pipelines = pipelines
        if self._server is not None:
            self._server.begin(pipelines)
        self._thread.start()

    def end(self) -> None:
        """Ends the fork server, and with it all that it forked."""
        self._ending.set()
        self._kill()
        if self._thread.ident is not None:
            self._thread.join()
        elif self._server is not None:
            self._server.wait()
        os.close(self._stderr)

    def _started(self, start: Callable[[int], Process]) -> Started | None:
        """A new fork server; None if no process can be started. The argument of `start` is its standard input."""
        ours = None
        try:
            ours, theirs = socket.socketpair()
            with theirs:
                process = start(theirs.fileno())
        except OSError as error:
            self._trouble = str(error)
            if ours is not None:
                ours.close()
            return None
        return Started(process, ours)

    def _forked(self, control: int) -> Process:
        return Forked(forked(*self._sockets, control, self._stderr))

    def _executed(self, control: int) -> Process:
        return subprocess.Popen(
            [sys.executable, "-m", MODULE, *map(str, self._sockets)],
            stdin=control, stdout=self._stderr, stderr=self._stderr, pass_fds=self._sockets,
        )  # fmt: skip

    def _kill(self) -> None:
        if self._server is not None:
            self._server.process.kill()

    def _keep(self) -> None:
        #: since when there is none that came up
        down: float | None = None
        while True:
            came_up = self._wait()
            if self._ending.is_set():
                return
            now = self._now()
            if came_up or down is None:
                down = now
            if now - down >= MAX_DOWN_S:
                self._give_up(
                    "the fork server, from which state servers and Spark's Python processes are forked, could not be "
                    f"started for {MAX_DOWN_S:.0f} seconds ({self._trouble})"
                )
                return
            LOGGER.warning("there is no fork server, and it is started again: %s", self._trouble)
            self._ending.wait(PAUSE)
            self._server = self._started(self._executed)
            if self._server is not None:
                self._server.begin(self._pipelines)
            if self._ending.is_set():
                self._kill()

    def _wait(self) -> bool:
        """Waits until the fork server has ended. Returns whether it had come up."""
        if self._server is None:
            return False
        came_up, code = self._server.wait()
        self._trouble = f"it has ended with exit code {code}"
        return came_up
