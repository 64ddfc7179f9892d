"""The request to the state server of a bucket: the rows of a batch; the answer has their outputs.

A task of Spark and the service's own process send requests, the latter through connections that it keeps.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress

from sluice.batch.packed_rows import Packed
from sluice.batch.query_plan import Plan
from sluice.checkpoint.checkpoint_identity import UnreadableStateError
from sluice.state.message import Message
from sluice.state.server import pool

#: the first number of an answer: success, an exception, or a state that cannot be read
DONE, FAILED, UNREADABLE = range(3)
#: the longest silence of a state server or a reader that works, in seconds: a batch may take long, and the first one
#: compiles kernels
MAX_ANSWER_S = 1800.0
#: maximum number of attempts: a task fails if this many state servers died while they worked for it
MAX_ATTEMPTS = 3


class StateServerError(Exception):
    """The work failed in the state server or the reader. The message is the stack trace from there."""


class Connections:
    """Connections to the state servers of a query, which stay open between the requests. Used by one thread.

    A new connection takes two more changes between processes, through the pool, which prolong a small batch.
    """

    def __init__(self) -> None:
        #: by bucket: connections without a request, and connections whose answers were not read yet, or will never be
        self._open: dict[int, socket.socket] = {}
        self._waiting: dict[int, socket.socket] = {}

    def begin(self, plan: Plan, bucket: int, version: int, rows: list[Packed]) -> Callable[[], list[Packed]]:
        """Sends a request, as `request` does. Returns a function that waits for the outputs, and raises its errors.

        So one thread can let several state servers work at once. A server reads all of a request before it answers.
        """
        question = _question(plan, bucket, version, rows)
        self._give_up(bucket)
        connection = self._asked(plan, bucket, question)
        if connection is not None:
            self._waiting[bucket] = connection

        def outputs() -> list[Packed]:
            if connection is not None:
                with suppress(EOFError, ConnectionError):  # it died, now or since the last request
                    answer = _answer(connection, plan.server_name, bucket)
                    self._open[bucket] = self._waiting.pop(bucket)
                    return _outputs(answer)
            return _outputs(ask(plan.server_name, bucket, version, question))

        return outputs

    def _asked(self, plan: Plan, bucket: int, question: Message) -> socket.socket | None:
        """The connection on which the question was sent, None if the state server or the pool has died."""
        connection = self._open.pop(bucket, None)
        try:
            connection = connection or pool.connection(plan.server_name, bucket, pool.KEPT)
            _send(connection, question, plan.server_name, bucket)
        except (EOFError, ConnectionError):
            if connection is not None:
                connection.close()
            return None
        return connection

    def _give_up(self, bucket: int) -> None:
        """Closes the connection of a bucket on which an answer was not read: the batch or the state server failed."""
        if bucket in self._waiting:
            self._waiting.pop(bucket).close()

    def close(self) -> None:
        for connection in (*self._open.values(), *self._waiting.values()):
            connection.close()
        self._open.clear()
        self._waiting.clear()


def request(plan: Plan, bucket: int, version: int, rows: list[Packed]) -> list[Packed]:
    """Applies the rows to the bucket's state of `version`, which becomes `version` + 1. Returns the outputs.

    Raises UnreadableStateError if the state of `version` is missing or damaged, and StateServerError if the work failed
    or a state server hangs. Raises OSError or EOFError if no state server could be reached, or if several died while
    they worked.
    """
    return _outputs(ask(plan.server_name, bucket, version, _question(plan, bucket, version, rows)))


def _question(plan: Plan, bucket: int, version: int, rows: list[Packed]) -> Message:
    kinds = (kind for kind, _ in rows)
    return Message((bucket, version, *kinds), [plan.pickled, *(packed for _, packed in rows)])


def _outputs(answer: Message) -> list[Packed]:
    status, *kinds = answer.numbers
    if status == UNREADABLE:
        message = f"{bytes(answer.bodies[0]).decode()}; the next start restores the checkpoint"
        raise UnreadableStateError(message)
    return list(zip(kinds, answer.bodies, strict=True))


def _hung(query: str, number: int) -> Exception:
    """The error for a process that does not answer. State servers are ended, and the next start gets new ones; in place
    of a reader Spark reads the records.
    """
    if query == pool.READERS:
        return TimeoutError(f"reader {number} has not answered for {MAX_ANSWER_S:.0f} seconds")
    pool.end_query(query.partition("/")[0])
    return StateServerError(
        f"the state server of bucket {number} has not answered for {MAX_ANSWER_S:.0f} seconds, and is ended: it hangs, "
        "perhaps because a disk or a file system does not answer"
    )


def ask(query: str, number: int, version: int, question: Message) -> Message:
    """The answer of a state server, or of a reader, to a question about a batch. See `pool.connection`.

    Raises StateServerError if the work failed there, and OSError or EOFError as `request` does.
    """
    for left in reversed(range(MAX_ATTEMPTS)):
        try:
            with pool.connection(query, number, version) as connection:
                _send(connection, question, query, number)
                answer = _answer(connection, query, number)
            break
        except (EOFError, ConnectionError):  # it died; a new state server rebuilds the state from the checkpoint
            if not left:
                raise
    return answer


def _send(connection: socket.socket, question: Message, query: str, number: int) -> None:
    connection.settimeout(MAX_ANSWER_S)
    try:
        question.write(connection.sendall)
    except TimeoutError as error:
        connection.close()
        raise _hung(query, number) from error


def _answer(connection: socket.socket, query: str, number: int) -> Message:
    try:
        with connection.makefile("rb") as file:
            answer = Message.read(file)
    except TimeoutError as error:
        connection.close()
        raise _hung(query, number) from error
    if answer.numbers[0] == FAILED:
        raise StateServerError(bytes(answer.bodies[0]).decode())
    return answer
