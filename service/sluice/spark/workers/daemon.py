"""The program that Spark starts as the daemon of its Python workers.

On a single machine it requests a daemon from the fork server (fork_server.py), passes its standard streams on to that
daemon, and waits for its end. Spark reads and writes the streams of this process, and ends this process to end the
daemon. This process imports next to nothing. On a cluster it is the daemon itself.
"""

from __future__ import annotations

import json
import os
import socket
import sys

#: environment variable with the path of the fork server's socket; without it there is no fork server
VARIABLE = "SLUICE_FORK_SERVER"
#: the longest wait, in seconds, for a fork server that starts
MAX_WAIT_S = 60.0


def forked_daemon(path: str) -> int:
    """Requests a daemon from the fork server and waits until the daemon ends. Returns its exit code."""
    question = {"arguments": sys.argv, "environment": dict(os.environ), "path": sys.path}
    with socket.socket(socket.AF_UNIX) as server:
        server.settimeout(MAX_WAIT_S)
        server.connect(path)
        socket.send_fds(server, [b"!"], [0, 1, 2])
        server.sendall(json.dumps(question).encode())
        server.shutdown(socket.SHUT_WR)
        server.settimeout(None)
        server.recv(1)  # the daemon writes nothing; its end closes the socket
    return 1


def daemon() -> None:
    """Makes this process the daemon. It never returns."""
    from pyspark.daemon import manager  # noqa: PLC0415 - a process that uses the fork server needs none of it

    from sluice.batch.kernel_warm_up import VARIABLE as PIPELINES  # noqa: PLC0415
    from sluice.processes import forked_processes_end_with_their_parents  # noqa: PLC0415
    from sluice.spark.workers.loaded_modules import load  # noqa: PLC0415
    from sluice.state.server.pool import start_pool  # noqa: PLC0415
    from sluice.state.server.state_server import serve  # noqa: PLC0415

    load(os.environ.get(PIPELINES, ""))
    forked_processes_end_with_their_parents()
    start_pool(serve)
    manager()


if __name__ == "__main__":
    if server := os.environ.get(VARIABLE):
        sys.exit(forked_daemon(server))
    daemon()
