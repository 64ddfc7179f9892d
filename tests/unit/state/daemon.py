"""A daemon with a pool whose state servers report themselves: `python daemon.py [SOCKET]`.

SOCKET is the file descriptor of a pool socket that has a name; the pool is then a child of the daemon.

Commands on the standard input: `ask SERVICE BUCKET VERSION` prints the number of the process of the state server and
how often it was asked, or `0 0` if the request is refused; `work` does so in a forked process; `end CHECKPOINT` ends
state servers; `kill N ...` kills processes; `supervisor` and `pool` print numbers of processes.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

from sluice.state.server.pool import connection, end_query, received_connection, run_pool, start_pool


def serve(control):
    asked = 0
    while (task := received_connection(control)) is not None:
        asked += 1
        with task:
            task.sendall(f"{os.getpid()} {asked}".encode())


def ask(service: str, bucket: str, version: str = "0") -> str:
    try:
        with connection(service, int(bucket), int(version)) as task, task.makefile("rb") as file:
            return file.read().decode()
    except EOFError:
        return "0 0"


def kill(*numbers: str) -> str:
    for number in numbers:
        os.kill(int(number), signal.SIGKILL)
    while any(map(_runs, numbers)):
        pass
    return "killed"


def _runs(number: str) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def end(checkpoint: str) -> str:
    end_query(checkpoint)
    return "ended"


def work(service: str, bucket: str) -> str:
    """Asks in a process of its own, as Spark's workers do."""
    pid = os.fork()
    if not pid:
        try:
            ask(service, bucket)
        finally:
            os._exit(0)
    return "works"


def supervisor() -> str:
    return _child(os.getpid())


def pool() -> str:
    return _child(os.getpid() if NAMED else int(supervisor()))


def _child(number: int) -> str:
    return Path(f"/proc/{number}/task/{number}/children").read_text().strip()


NAMED = sys.argv[1:]
if not NAMED:
    start_pool(serve)
elif not os.fork():
    run_pool(socket.socket(fileno=int(*NAMED)), os.getppid(), serve)
for line in sys.stdin:
    command, *arguments = line.split()
    known = {"ask": ask, "work": work, "end": end, "kill": kill, "pool": pool, "supervisor": supervisor}
    print(known[command](*arguments), flush=True)  # noqa: T201
