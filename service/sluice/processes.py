"""Child processes that end with the service, the signals that end the service, and a bound on the time of its end."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn, Self

#: A shell script that executes a program. When the service's end of the script's standard input closes, which happens
#: however the service ends, a background process kills the program and removes its folder ($0).
CHILD_SCRIPT = """
exec 3<&0
{ read -r _ <&3; kill -9 $$; sleep 1; rm -rf "$0"; } >/dev/null 2>&1 &
exec 3<&- </dev/null
exec "$@"
"""


#: A shell script that waits until the other end of its standard input closes, then at most $2 half seconds for process
#: $1 to end, and then kills it and removes the file $3, if one is given.
WATCH_SCRIPT = """
read -r _
n=0
while [ "$n" -lt "$2" ] && kill -0 "$1"; do sleep 0.5; n=$((n + 1)); done
kill -9 "$1"
[ -z "$3" ] || rm -f "$3"
"""
#: The signals that a terminal or a supervisor sends to the whole group of the service's processes. They are for the
#: service, which ends the others in order.
GROUP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: the highest file descriptor of the standard streams
STDERR = 2
#: options of prctl(2): the signal that a process gets when its parent ends, and the name that `ps` shows
PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15


def processors(limits: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """The number of processors that this process may use, at least 1.

    `limits` is the file in which Linux (cgroup v2) has the share of processor time of a container.
    """
    count = len(os.sched_getaffinity(0))
    with suppress(OSError, ValueError):
        quota, period = limits.read_text().split()
        count = min(count, -(-int(quota) // int(period)))
    return max(count, 1)


def end_with_this_process(pid: int, seconds: float, file: str = "") -> None:
    """Makes sure that process `pid` ends at most `seconds` after this process, however this process ends. `file` is
    removed then: one that the process would leave if it was killed.

    A shell in a session of its own waits for the end of this process. It kills the other process if that still runs
    `seconds` later.
    """
    process = subprocess.Popen(
        ["/bin/sh", "-c", WATCH_SCRIPT, "sluice-watch", str(pid), str(round(seconds * 2)), file],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    _watching.append(process)


#: the watching shells that this process started: the references keep the pipes to their standard inputs open
_watching: list[subprocess.Popen[bytes]] = []


def close_files_except(*kept: int) -> None:
    """Closes all file descriptors of this process but the standard streams and the given ones."""
    for number in [int(file.name) for file in Path("/dev/fd").iterdir()]:  # with the one that the list itself needed
        if number > STDERR and number not in kept:
            with suppress(OSError):
                os.close(number)


def run_and_end(work: Callable[[], None]) -> NoReturn:
    """Runs `work` and ends this process, without the `atexit` functions, with exit code 1 if there is an error.

    The process ignores the signals GROUP_SIGNALS.
    """
    code = 1
    try:
        for group_signal in GROUP_SIGNALS:
            signal.signal(group_signal, signal.SIG_IGN)
        work()
        code = 0
    except BaseException:  # noqa: BLE001 - the error is printed, and the exit code reports it
        traceback.print_exc()
    finally:
        os._exit(code)


def forked_processes_end_with_their_parents() -> None:
    """From now on, each process that this process or its children fork is killed when its parent ends.

    Has an effect only on Linux. The parent must fork from its main thread.
    """
    parents: list[int] = []

    def before() -> None:
        parents[:] = [os.getpid()]

    def in_child() -> None:
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parents[0]:  # the parent ended before the call of prctl
            os._exit(1)

    os.register_at_fork(before=before, after_in_child=in_child)


@contextmanager
def environment_variable(name: str, value: str) -> Iterator[None]:
    """Sets a variable for the processes that start inside the context. At its end the variable is what it was."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name, None)
        if before is not None:
            os.environ[name] = before


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Disables the collection of garbage cycles inside the block, for work that makes many objects and no cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def collect_garbage_rarely() -> None:
    """Lets garbage collection begin after 100,000 new objects, and no longer after 700.

    A batch makes a Python object for each record and hardly any cycles: with Python's defaults a fifth of the time in
    which records are read, and a quarter of the time in which kernels are compiled, is spent on the search for cycles.
    """
    gc.set_threshold(100_000, 20, 100)


def name_process(name: str) -> None:
    """Sets the name that `ps` and `top` show for this process, of at most 15 bytes. Has an effect only on Linux."""
    _prctl(PR_SET_NAME, ctypes.c_char_p(name.encode()))


def _prctl(option: int, value: object) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value)


class ChildProcess:
    """A child program that ends with this process, however this process ends (CHILD_SCRIPT).

    The program runs in a session of its own: Ctrl-C in the terminal reaches only this process, which then ends the
    program in order.
    """

    def __init__(
        self, command: Sequence[str], folder: Path, log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """Starts the program; its output is appended to the file `log`.

        `folder` has the program's data. It is removed if this process ends without having ended the program, and kept
        by `terminate` and `kill`. `environment` has variables to add to the variables of this process.
        """
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", CHILD_SCRIPT, str(folder), *command],
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
        """The exit code of the program, None while it runs."""
        return self._process.poll()

    def terminate(self, seconds: float) -> None:
        """Sends SIGTERM, and SIGKILL to the process group when the program has ended or after `seconds`."""
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        self.kill()

    def kill(self) -> None:
        """Sends SIGKILL to the program's process group, once: afterwards another group may have its number."""
        if self._process.stdin is None or self._process.stdin.closed:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process.stdin.close()


class ExitDeadline:
    """Ends this process and all processes that it started if its orderly end takes too long.

    It works even if another thread of the process hangs: it runs in a thread of its own and calls `os._exit`.
    """

    def __init__(self, seconds: float, end: Callable[[int, str], None] | None = None) -> None:
        """`seconds`: the longest orderly end after `arm`. `end` is called with the exit code and a message."""
        self._seconds = seconds
        self._end = end or (lambda code, message: end_at_once(code, f"sluice: {message}"))
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._exit_code, self._message = 0, ""

    def arm(self, exit_code: int = 0, message: str = "") -> None:
        """Starts the time, at the first call. A later call only replaces an exit code of 0 and its message."""
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
        """Arms when the block ends, by an error or not: the code after the block is the orderly end."""
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


def end_at_once(exit_code: int, line: str) -> None:
    """Writes the line to stderr, kills all descendants of this process, and ends this process."""
    with suppress(OSError):
        os.write(2, f"{line}\n".encode())
    for pid in descendants(os.getpid()):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    os._exit(exit_code)


def descendants(pid: int) -> list[int]:
    """The descendants of a process, parents before their children. The list is empty on systems other than Linux."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError, ValueError):  # the process may end while its file is read
            parent = int(stat.read_text().rsplit(")", 1)[1].split()[1])
            parents.setdefault(parent, []).append(int(stat.parent.name))
    pids = [pid]
    for process in pids:
        pids.extend(parents.get(process, ()))
    return pids[1:]


#: the signals that end the service in order
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
#: set by a signal that ends this process at once (`signals_end_at_once`)
_END_REQUESTED = threading.Event()


@contextmanager
def _handling(handler: Callable[..., object]) -> Iterator[None]:
    """Inside the context `handler` handles the signals STOP_SIGNALS. At its end the previous handlers are restored."""
    before = {number: signal.signal(number, handler) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


@contextmanager
def signals_end_at_once() -> Iterator[None]:
    """SIGTERM and SIGINT raise SystemExit with the exit code 0: nothing has begun that would have to end in order.

    After the first of them, and from the end of the context on, they have no effect: the exit code is decided, and what
    is left is the end of the process. Python's own end, which runs the `atexit` functions of all modules, takes a
    tenth of a second, and a signal that has its default effect then would replace the exit code.

    Python ignores an error in a callback, for instance that of a weak reference while a module is imported, and so the
    SystemExit of a signal that comes then. `stop_signals` makes up for it.
    """

    def end(*_: object) -> None:
        _ignore_stop_signals()
        _END_REQUESTED.set()
        raise SystemExit(0)

    for number in STOP_SIGNALS:
        signal.signal(number, end)
    try:
        yield
    finally:
        _ignore_stop_signals()


def _ignore_stop_signals() -> None:
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def stop_signals(exit_deadline: ExitDeadline | None = None) -> Iterator[threading.Event]:
    """Yields an event that SIGTERM and SIGINT set. The signals also arm `exit_deadline`.

    Both happen even while the main thread hangs in a call of C code. Python runs a signal's handler only in the main
    thread, between two instructions, but writes the signal's number to the file descriptor of `set_wakeup_fd` at once.
    A thread reads that descriptor. The previous handlers are restored at the end of the block.

    The event is set from the beginning if a signal had to end this process already (`signals_end_at_once`).
    """
    stop_requested = threading.Event()
    if _END_REQUESTED.is_set():
        stop_requested.set()
        if exit_deadline is not None:
            exit_deadline.arm()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def listen() -> None:
        while arrived := os.read(reading, 64):
            if not {*STOP_SIGNALS}.isdisjoint(arrived):
                if exit_deadline is not None:
                    exit_deadline.arm()
                stop_requested.set()
        os.close(reading)

    threading.Thread(target=listen, name="sluice-signals", daemon=True).start()
    try:
        with _handling(lambda *_: stop_requested.set()):
            descriptor = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
            try:
                yield stop_requested
            finally:
                signal.set_wakeup_fd(descriptor)
    finally:
        os.close(writing)
