"""The request of a Spark task to the state server of its bucket: the rows of a batch; the answer has their outputs."""

from __future__ import annotations

import pickle

from sluice.batch.envelope import Packed
from sluice.batch.query_plan import Plan
from sluice.checkpoint.checkpoint_identity import CheckpointError
from sluice.state.message import Message
from sluice.state.server import pool

#: the first number of an answer: success, an exception, or a state that cannot be read
DONE, FAILED, UNREADABLE = range(3)
#: maximum number of attempts: a task fails if this many state servers died while they worked for it
MAX_ATTEMPTS = 3


class StateServerError(Exception):
    """The work failed in the state server or the reader. The message is the stack trace from there."""


def request(plan: Plan, bucket: int, version: int, rows: list[Packed]) -> list[Packed]:
    """Applies the rows to the bucket's state of `version`, which becomes that of `version` + 1. Returns the outputs.

    Raises CheckpointError if the state of `version` is missing or damaged, and StateServerError if the work failed.
    Raises OSError or EOFError if no state server could be reached, or if several died while they worked.
    """
    question = Message(
        (bucket, version, *(kind for kind, _ in rows)),
        [pickle.dumps(plan), *(packed for _, packed in rows)],
    )
    answer = ask(plan.server_name, bucket, version, question)
    status, *kinds = answer.numbers
    if status == UNREADABLE:
        raise CheckpointError(bytes(answer.bodies[0]).decode())
    return list(zip(kinds, answer.bodies, strict=True))


def ask(query: str, number: int, version: int, question: Message) -> Message:
    """The answer of a state server, or of a reader, to a question about a batch. See `pool.connection`.

    Raises StateServerError if the work failed there, and OSError or EOFError as `request` does.
    """
    for left in reversed(range(MAX_ATTEMPTS)):
        try:
            answer = _answer(query, number, version, question)
            break
        except (EOFError, ConnectionError):  # it died; a new state server rebuilds the state from the checkpoint
            if not left:
                raise
    if answer.numbers[0] == FAILED:
        raise StateServerError(bytes(answer.bodies[0]).decode())
    return answer


def _answer(query: str, number: int, version: int, question: Message) -> Message:
    with pool.connection(query, number, version) as connection:
        question.write(connection.sendall)
        with connection.makefile("rb") as file:
            return Message.read(file)
