"""An inspection of a state server: a request of the service's own process, which is answered between two batches.

The service sends one of a pair of connected sockets through the socket of the pool that has a name (pool.py), and the
pool passes it on to the state server.

An inspection cannot disturb a batch: a state server answers in a forked copy of itself, which has the memory of
the moment of the fork, has at most INSPECTION_S seconds, and writes at most MAX_ANSWER bytes, which fit into the
socket. While one inspection runs, the server refuses others. A question is in the socket before the socket is passed
on, so the server never waits for it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from sluice.state.bucket import Bucket
from sluice.state.bucket_inspection import inspect_bucket
from sluice.state.message import Message
from sluice.state.server.pool import INSPECTION, send_inspection

#: maximum seconds of the copy that answers
INSPECTION_S = 3
#: maximum bytes of an answer
MAX_ANSWER = 128 << 10
#: seconds that the service waits for an answer beyond INSPECTION_S: the batch that runs ends first
MAX_DELAY_S = 1.0
#: niceness of the copy: batches get the CPU first
NICE = 5


class Inspections:
    """The inspections of a state server: at most one at a time."""

    def __init__(self) -> None:
        self._pid = 0

    def answer(self, connection: socket.socket, bucket: Bucket | None, question: bytes) -> None:
        """Answers in a forked copy and returns at once. Does nothing without a bucket, or while another copy runs."""
        if self._pid and not os.waitpid(self._pid, os.WNOHANG)[0]:
            return
        self._pid = 0
        if bucket is None:
            return
        self._pid = os.fork()
        if not self._pid:
            _answer(connection, bucket, question)


def _answer(connection: socket.socket, bucket: Bucket, question: bytes) -> None:
    """Writes the answer and ends the process. A larger answer than MAX_ANSWER is written without its windows."""
    try:
        signal.alarm(INSPECTION_S)
        kept = connection.fileno()
        os.closerange(3, kept)  # a copy that stays open would hide a close by the original
        os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))
        os.nice(NICE)
        found = inspect_bucket(bucket, json.loads(question))
        body = json.dumps(found, separators=(",", ":"), default=str).encode()
        if len(body) > MAX_ANSWER:
            found["windows"], found["too_large"] = [], True
            body = json.dumps(found, separators=(",", ":")).encode()
        connection.settimeout(INSPECTION_S)
        Message((), [body]).write(connection.sendall)
    finally:
        os._exit(0)


def inspect(query: str, bucket: int, question: Mapping[str, Any]) -> dict[str, Any] | None:
    """The answer of a bucket's state server. None if there is no such server yet, or if it does not answer in time."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs, suppress(OSError):
            Message((bucket, INSPECTION), [json.dumps(question).encode()]).write(ours.sendall)
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * MAX_ANSWER)
            send_inspection(query, bucket, theirs, MAX_DELAY_S)
        ours.settimeout(INSPECTION_S + MAX_DELAY_S)
        with suppress(OSError, EOFError, ValueError), ours.makefile("rb") as file:
            (body,) = Message.read(file).bodies
            return json.loads(bytes(body))  # type: ignore[no-any-return]
    return None
