"""A daemon with a nursery whose keepers tell who they are: `python daemon.py`, with commands on its standard input.

`ask SERVICE BUCKET` prints the number of the keeper's process and how often it was asked; `kill N` kills process N;
`nursery` prints the number of the nursery's.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from sluice.state.server.pool import connection, handed, open_nursery


def keep(control):
    asked = 0
    while (task := handed(control)) is not None:
        asked += 1
        with task:
            task.sendall(f"{os.getpid()} {asked}".encode())


def ask(service: str, bucket: str) -> str:
    with connection(service, int(bucket)) as task, task.makefile("rb") as file:
        return file.read().decode()


def kill(number: str) -> str:
    os.kill(int(number), signal.SIGKILL)
    while Path(f"/proc/{number}").exists():
        pass
    return "killed"


def nursery() -> str:
    return Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().strip()


open_nursery(keep)
for line in sys.stdin:
    command, *arguments = line.split()
    print({"ask": ask, "kill": kill, "nursery": nursery}[command](*arguments), flush=True)  # noqa: T201
