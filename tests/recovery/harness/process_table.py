"""The processes of a service, as Linux lists them: what each of them does, and how much memory it has."""

from __future__ import annotations

import os
import signal
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    pid: int
    name: str
    parent: int
    group: int
    state: str
    arguments: tuple[str, ...]


def processes(session: int) -> list[Process]:
    """The processes of a session that have not ended. Children of a process that died stay in its session."""
    found = (_process(int(folder.name), session) for folder in Path("/proc").glob("[0-9]*"))
    return [one for one in found if one and one.state not in "ZX"]


def _process(pid: int, session: int) -> Process | None:
    """None if the process has ended or belongs to another session."""
    try:
        head, tail = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)
        state, parent, group, own = tail.split()[:4]
        if int(own) != session:
            return None
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return None
    return Process(pid, head.partition("(")[2], int(parent), int(group), state, tuple(arguments))


#: what the processes of a service do
ROLES = ("driver", "jvm", "fork server", "daemon", "worker", "pool", "state", "reader")
DAEMON = "sluice.spark.workers.daemon"
#: the beginning of the names of the fork server and of all that it forks
FORKED = "sluice-"


def by_role(session: int) -> dict[str, list[int]]:
    """The processes of a service on a single machine by what they do.

    driver       `sluice run`, which also writes the batches to Kafka
    jvm          Spark
    fork server  forks the pool, also after its death, and the daemon (spark/workers/fork_server.py)
    pool         forks the state servers and the readers (state/server/pool.py)
    state        keeps the state of one bucket (state/server/state_server.py)
    reader       reads records of large batches (state/server/read_request.py)
    daemon       forks Spark's Python workers, once there are any; the process that asked for it has this role, too
    worker       runs Spark's tasks
    """
    everything = processes(session)
    found: dict[str, list[int]] = {role: [] for role in ROLES}
    found["driver"] = [one.pid for one in everything if one.pid == session]
    found["jvm"] = [one.pid for one in everything if one.arguments[0].endswith("java")]
    forked = [one for one in everything if one.name.startswith(FORKED)]
    pids = {one.pid for one in forked}
    servers = {one.pid for one in forked if one.parent not in pids}
    first = [one for one in forked if one.parent in servers]
    # A daemon makes a process group for its workers.
    pools, daemons = ({one.pid for one in first if (one.group == one.pid) is leads} for leads in (False, True))
    found["fork server"], found["pool"] = sorted(servers), sorted(pools)
    of_pool = [one for one in forked if one.parent in pools]
    found["reader"] = [one.pid for one in of_pool if one.name == "sluice-reader"]
    found["state"] = [one.pid for one in of_pool if one.name != "sluice-reader"]
    found["worker"] = [one.pid for one in forked if one.parent in daemons]
    found["daemon"] = sorted(daemons | {one.pid for one in everything if DAEMON in one.arguments})
    return found


def send_signal(pids: Sequence[int], number: signal.Signals = signal.SIGKILL) -> None:
    """To each of these that has not ended."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """SIGSTOP now, SIGCONT at the end."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        send_signal([pid], signal.SIGCONT)


@contextmanager
def peak_memory(listed: Callable[[], Sequence[Process]]) -> Iterator[dict[str, int]]:
    """The greatest memory in bytes that each of the listed processes has had, read twice a second.

    Memory is what a process holds in RAM beside the contents of files.
    """
    most: dict[str, int] = defaultdict(int)
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.5):
            for one in listed():
                name = f"{one.pid} {one.name}"
                most[name] = max(most[name], _anonymous(one.pid))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield most
    finally:
        over.set()
        looking.join()


def _anonymous(pid: int) -> int:
    """Bytes of memory of a process that are in no file; 0 if it has ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return 0
