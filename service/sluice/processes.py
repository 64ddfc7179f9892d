"""Programs that the service starts and that must not outlive it; how the service is told to end, and ends for sure."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

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


class LastResort:
    """Ends this process, and the processes that it started, when an orderly end takes too long.

    Nothing that hangs in the process can stop it: it runs in a thread, and it ends the process by `os._exit`.
    """

    def __init__(self, seconds: float, end: Callable[[int, str], None] | None = None) -> None:
        """`seconds` is what an orderly end may take from `arm` on. `end` gets the exit code and a message."""
        self._seconds = seconds
        self._end = end or end_at_once
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._exit_code, self._message = 0, ""

    def arm(self, exit_code: int = 0, message: str = "") -> None:
        """The time starts with the first call. A later call only replaces exit code 0 by a failure's."""
        with self._lock:
            if self._exit_code == 0:
                self._exit_code, self._message = exit_code, message
            if self._timer is None:
                self._timer = threading.Timer(self._seconds, self._fire)
                self._timer.daemon = True
                self._timer.start()

    def disarm(self) -> None:
        with self._lock:
            timer, self._timer = self._timer, None
            self._exit_code, self._message = 0, ""
        if timer is not None:
            timer.cancel()

    @contextmanager
    def ending(self) -> Iterator[None]:
        """What follows the block is an orderly end: the time starts when the block is left, by an error or not."""
        try:
            yield
        except BaseException as error:
            self.arm(getattr(error, "exit_code", 1), str(error))
            raise
        self.arm()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.disarm()

    def _fire(self) -> None:
        self._end(self._exit_code, self._message or f"the end took longer than {self._seconds:.0f} seconds")


def end_at_once(exit_code: int, message: str) -> None:
    """Kills the processes that this one started, directly or not, and ends this one."""
    with suppress(OSError):
        os.write(2, f"sluice: {message}\n".encode())
    for pid in descendants(os.getpid()):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    os._exit(exit_code)


def end_soon(seconds: float, exit_code: int = 70) -> None:
    """Ends this process after `seconds`, whatever it does then."""
    timer = threading.Timer(seconds, os._exit, (exit_code,))
    timer.daemon = True
    timer.start()


def descendants(pid: int) -> list[int]:
    """The processes that a process started, directly or not, parents first. Linux only; elsewhere there are none."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError, ValueError):  # it may end while its file is read
            parent = int(stat.read_text().rsplit(")", 1)[1].split()[1])
            parents.setdefault(parent, []).append(int(stat.parent.name))
    found = [pid]
    for one in found:
        found.extend(parents.get(one, ()))
    return found[1:]


@contextmanager
def told_to_end(resort: LastResort | None = None) -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set. They arm `resort`, even while the main thread hangs in a call of C code.

    Python calls a signal's handler in the main thread only, between two instructions; the file descriptor that
    `set_wakeup_fd` names gets the signal's number at once.
    """
    told = threading.Event()
    numbers = (signal.SIGTERM, signal.SIGINT)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def listen() -> None:
        while arrived := os.read(reading, 64):
            if not {*numbers}.isdisjoint(arrived):
                if resort is not None:
                    resort.arm()
                told.set()
        os.close(reading)

    threading.Thread(target=listen, name="sluice-signals", daemon=True).start()
    before = {number: signal.signal(number, lambda *_: told.set()) for number in numbers}
    descriptor = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield told
    finally:
        signal.set_wakeup_fd(descriptor)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(writing)
