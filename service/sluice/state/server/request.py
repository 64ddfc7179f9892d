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
    """The work failed in the state server. The message is the stack trace from there."""


def request(plan: Plan, bucket: int, version: int, rows: list[Packed]) -> list[Packed]:
    """Applies the rows to the bucket's state of `version`, which becomes that of `version` + 1. Returns the outputs.

    Raises CheckpointError if the state of `version` is missing or damaged, and StateServerError if the work failed.
    Raises OSError or EOFError if no state server could be reached, or if several died while they worked.
    """
    question = Message(
        (bucket, version, *(kind for kind, _ in rows)),
        [pickle.dumps(plan), *(packed for _, packed in rows)],
    )
    for left in reversed(range(MAX_ATTEMPTS)):
        try:
            answer = _answer(plan.server_name, bucket, version, question)
            break
        except (EOFError, ConnectionError):  # the state server died; a new one rebuilds the state from the checkpoint
            if not left:
                raise
    status, *kinds = answer.numbers
    if status == FAILED:
        raise StateServerError(bytes(answer.bodies[0]).decode())
    if status == UNREADABLE:
        raise CheckpointError(bytes(answer.bodies[0]).decode())
    return list(zip(kinds, answer.bodies, strict=True))


def _answer(service: str, bucket: int, version: int, question: Message) -> Message:
    with pool.connection(service, bucket, version) as connection:
        question.write(connection.sendall)
        with connection.makefile("rb") as file:
            return Message.read(file)
