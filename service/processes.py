"""Programs that we start, and that must not outlive us; and how we are told to end."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

#: Becomes the program. When our end of its standard input closes, however we died, kills it and removes its folder.
TETHER = """
exec 3<&0
{ read -r _ <&3; kill -9 $$; sleep 1; rm -rf "$0"; } >/dev/null 2>&1 &
exec 3<&- </dev/null
exec "$@"
"""


#: Waits until the other end of its standard input closes, then so many half seconds for the process to end by itself,
#: and kills it.
WATCH = """
read -r _
n=0
while [ "$n" -lt "$2" ] && kill -0 "$1"; do sleep 0.5; n=$((n + 1)); done
kill -9 "$1"
"""
#: of prctl(2): the signal that a process gets when its parent ends, and the name that `ps` shows
PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15


def end_with_us(pid: int, seconds: float) -> None:
    """Kills the process `seconds` after this process has ended, however this one ended, if it runs then still.

    A shell in a session of its own waits for that. It ends itself at once where the other process has ended.
    """
    process = subprocess.Popen(
        ["/bin/sh", "-c", WATCH, "sluice-watch", str(pid), str(round(seconds * 2))],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    _watching.append(process)


#: the watchers of this process: while they are referenced, our ends of their standard inputs stay open
_watching: list[subprocess.Popen[bytes]] = []


def forked_processes_end_with_their_parents() -> None:
    """From now on each process that this one forks, and that those fork, is killed when its parent ends.

    Only Linux can do this; elsewhere nothing changes. The parent must fork from its main thread.
    """
    parents: list[int] = []

    def before() -> None:
        parents[:] = [os.getpid()]

    def in_child() -> None:
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parents[0]:  # the parent ended before the kernel was told
            os._exit(1)

    os.register_at_fork(before=before, after_in_child=in_child)


def name_process(name: str) -> None:
    """Gives this process the name that `ps` and `top` show, of at most 15 bytes. Only on Linux."""
    _prctl(PR_SET_NAME, ctypes.c_char_p(name.encode()))


def _prctl(option: int, value: object) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value)


class Tethered:
    """A program in a session of its own, so that Ctrl-C in the terminal reaches us alone and we end things in order."""

    def __init__(
        self, command: Sequence[str], folder: Path, log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """`folder` is what the program leaves behind; it stays when we end the program, and goes when we are killed."""
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", TETHER, str(folder), *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def terminate(self, seconds: float) -> None:
        """SIGTERM, and SIGKILL if it takes longer than `seconds`."""
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        self.kill()

    def kill(self) -> None:
        """SIGKILL to all of its process group, at once."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdin:
            self._process.stdin.close()


@contextmanager
def told_to_end() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set."""
    told = threading.Event()
    before = {number: signal.signal(number, lambda *_: told.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
