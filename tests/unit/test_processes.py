from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sluice.kafka.kafka_errors import LedgerError
from sluice.processes import ChildProcess, ExitDeadline, descendants, processors
from tests.recovery.harness.waiting import PATIENCE, wait_until


def shell(script: str, folder: Path) -> ChildProcess:
    """Returns once the script has written `ready`."""
    log = folder / "log"
    process = ChildProcess(["/bin/sh", "-c", script], folder=folder, log=log)
    await_true(lambda: "ready" in log.read_text())
    return process


def await_true(condition: Callable[[], object]) -> None:
    wait_until(condition, "it comes true", interval=0.01)


def running(number: int) -> bool:
    """Nor is it a zombie, even if no process collects orphans."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may end while its file is read
        return False


def test_it_has_the_exit_code_and_what_was_printed(tmp_path: Path) -> None:
    process = shell("echo ready; echo oops >&2; exit 7", tmp_path)
    await_true(lambda: process.exit_code is not None)
    process.kill()
    assert process.exit_code == 7
    assert (tmp_path / "log").read_text() == "ready\noops\n"


def test_told_to_end_it_may_clean_up(tmp_path: Path) -> None:
    process = shell("trap 'echo clean; exit 0' TERM; echo ready; while :; do sleep 0.01; done", tmp_path)
    process.terminate(PATIENCE)
    assert process.exit_code == 0
    assert (tmp_path / "log").read_text() == "ready\nclean\n"


def test_it_is_killed_if_it_does_not_listen(tmp_path: Path) -> None:
    process = shell("trap '' TERM; echo ready; while :; do sleep 0.01; done", tmp_path)
    process.terminate(0.1)
    assert process.exit_code == -9


def test_its_children_go_with_it(tmp_path: Path) -> None:
    process = shell(f"sleep 600 & echo $! > {tmp_path}/child; echo ready; wait", tmp_path)
    process.kill()
    number = int((tmp_path / "child").read_text())
    await_true(lambda: not running(number))


def test_it_is_killed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second time its number may be that of another process group."""
    process = shell("echo ready; sleep 600", tmp_path)
    process.kill()
    monkeypatch.setattr("os.killpg", lambda *_: pytest.fail("another process group was killed"))
    process.kill()
    assert process.exit_code == -9


def test_if_this_process_is_killed_the_folder_of_its_child_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    program = (
        "import os, signal, time; from pathlib import Path; from sluice.processes import ChildProcess\n"
        f"ChildProcess(['sleep', '600'], folder=Path({str(folder)!r}), log=Path({str(tmp_path / 'log')!r}))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program], check=False)
    await_true(lambda: not folder.exists())


def test_the_exit_deadline_ends_with_the_code_of_the_first_failure() -> None:
    ended: list[tuple[int, str]] = []
    fired = threading.Event()
    exit_deadline = ExitDeadline(0.05, lambda code, message: (ended.append((code, message)), fired.set())[0])
    exit_deadline.arm()
    exit_deadline.arm(3, "no broker answers")
    exit_deadline.arm(6, "a batch failed")
    assert fired.wait(PATIENCE)
    assert ended == [(3, "no broker answers")]


def test_an_end_in_order_disarms_the_deadline() -> None:
    fired = threading.Event()
    with ExitDeadline(0.05, lambda *_: fired.set()) as exit_deadline:
        exit_deadline.arm(3, "no broker answers")
    assert not fired.wait(0.3)


def test_the_exit_deadline_reports_the_error_that_left_the_block() -> None:
    ended: list[tuple[int, str]] = []
    fired = threading.Event()
    exit_deadline = ExitDeadline(0.01, lambda code, message: (ended.append((code, message)), fired.set())[0])
    with pytest.raises(LedgerError), exit_deadline.ending():
        raise LedgerError("the ledger is foreign")
    assert fired.wait(PATIENCE)
    assert ended == [(4, "the ledger is foreign")]


HANGING = """
import subprocess, sys
from ctypes import CDLL
from sluice.processes import ExitDeadline, stop_signals
child = subprocess.Popen(["/bin/sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE, text=True)
grandchild = child.stdout.readline().strip()
with ExitDeadline(0.5) as exit_deadline, stop_signals(exit_deadline):
    {arm}
    print("ready", child.pid, grandchild, flush=True)
    while True:
        CDLL(None).poll(None, 0, 60_000)  # Python calls no handler of a signal while C code waits
"""


def hanging(arm: str = "") -> tuple[subprocess.Popen[str], list[int]]:
    """A process whose main thread is in a call of C code, and the processes that it started."""
    program = HANGING.format(arm=arm)
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout
    return process, [int(pid) for pid in process.stdout.readline().split()[1:]]


def test_sigterm_ends_a_process_that_hangs_and_all_that_it_started() -> None:
    process, started = hanging()
    assert descendants(process.pid) == started
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert said == "sluice: the end took longer than 0 seconds\n"
    assert 0.4 < time.monotonic() - began < 10
    await_true(lambda: not any(map(running, started)))


def test_a_process_that_failed_and_hangs_ends_with_the_failures_code() -> None:
    process, started = hanging('exit_deadline.arm(3, "no broker answers")')
    _, said = process.communicate(timeout=PATIENCE)
    assert (process.returncode, said) == (3, "sluice: no broker answers\n")
    await_true(lambda: not any(map(running, started)))


def test_the_descendants_of_a_process_are_found() -> None:
    with subprocess.Popen(["/bin/sh", "-c", "sleep 600 & wait"]) as parent:
        await_true(lambda: len(descendants(parent.pid)) == 1)
        (child,) = descendants(parent.pid)
        assert {parent.pid, child} <= {*descendants(os.getpid())}
        os.kill(child, signal.SIGKILL)


def test_a_watched_process_ends_some_time_after_this_process_and_leaves_no_file(tmp_path: Path) -> None:
    left = tmp_path / "socket of a watched process"
    left.touch()
    program = (
        "import os, signal, subprocess; from sluice.processes import end_with_this_process\n"
        "process = subprocess.Popen(['/bin/sh', '-c', 'echo ready; exec sleep 600'], stdout=subprocess.PIPE)\n"
        "process.stdout.readline(); print(process.pid, flush=True)\n"
        f"end_with_this_process(process.pid, 0.5, {str(left)!r})\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, stdout=subprocess.PIPE, text=True)
    await_true(lambda: not running(int(done.stdout)))
    await_true(lambda: not left.exists())


def test_forked_processes_end_with_their_parents() -> None:
    program = (
        "import os, signal, time; from sluice.processes import forked_processes_end_with_their_parents\n"
        "forked_processes_end_with_their_parents()\n"
        "child = os.fork() or (os.fork(), time.sleep(600))\n"
        "time.sleep(0.5)\n"
        "found = open('/proc/%d/task/%d/children' % (child, child)).read()\n"
        "print(child, found, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, stdout=subprocess.PIPE, text=True)
    numbers = [int(number) for number in done.stdout.split()]
    assert len(numbers) == 2
    await_true(lambda: not any(map(running, numbers)))


@pytest.mark.parametrize(
    ("limits", "expected"),
    [("max 100000", 8), ("200000 100000", 2), ("150000 100000", 2), ("50000 100000", 1), ("900000 100000", 8), ("", 8)],
)
def test_processors_are_those_of_the_container(tmp_path, monkeypatch, limits, expected):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)))
    (tmp_path / "cpu.max").write_text(limits)
    assert processors(tmp_path / "cpu.max") == expected


def test_without_a_limit_processors_are_those_that_the_process_may_use(tmp_path, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 3, 5})
    assert processors(tmp_path / "none") == 3


#: a process gets a signal, another one while it cleans up, and others in Python's own end
SIGNALLED = """
import os, signal
from sluice.processes import signals_end_at_once
def get(*numbers):
    for number in numbers:
        os.kill(os.getpid(), number)
try:
    with signals_end_at_once():
        try:
            {cause}
        finally:
            get(signal.SIGTERM)
            print("cleaned up", flush=True)
finally:
    get(signal.SIGTERM, signal.SIGINT)
    print("ended", flush=True)
"""


def test_signals_after_the_first_neither_interrupt_the_end_nor_change_the_exit_code() -> None:
    program = SIGNALLED.format(cause="get(signal.SIGTERM)")
    done = subprocess.run([sys.executable, "-c", program], check=False, stdout=subprocess.PIPE, text=True)
    assert (done.returncode, done.stdout) == (0, "cleaned up\nended\n")


#: a signal comes while Python calls a weak reference back, whose errors it ignores
CALLED_BACK = """
import os, signal, weakref
from sluice.processes import signals_end_at_once, stop_signals
class Module: ...
def forget(_):
    os.kill(os.getpid(), signal.SIGTERM)
    os.getpid()
with signals_end_at_once():
    module = Module()
    reference = weakref.ref(module, forget)
    del module
    with stop_signals() as stop_requested:
        print(stop_requested.is_set(), flush=True)
"""


def test_a_signal_whose_exit_python_ignores_ends_the_service_when_it_runs() -> None:
    done = subprocess.run([sys.executable, "-c", CALLED_BACK], check=False, capture_output=True, text=True)
    assert "Exception ignored in: <function forget" in done.stderr
    assert (done.returncode, done.stdout) == (0, "True\n")
