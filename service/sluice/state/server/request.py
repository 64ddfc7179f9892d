"""The question that a Spark task puts to the keeper of its bucket: what comes out of these rows?"""

from __future__ import annotations

import pickle

from sluice.batch.envelope import Packed
from sluice.batch.query_plan import Plan
from sluice.checkpoint.checkpoint_identity import CheckpointError
from sluice.state.message import Message
from sluice.state.server import pool

#: the first number of an answer
DONE, FAILED, UNREADABLE = range(3)
#: keepers that may die under one task before it fails
TRIES = 3


class StateServerError(Exception):
    """The work failed; the message is the keeper's own account of it."""


def request(plan: Plan, bucket: int, version: int, rows: list[Packed]) -> list[Packed]:
    """Feeds the rows to the bucket at `version`, which then is at the next one; what goes out.

    Raises CheckpointError where the state of that version is missing or damaged.
    """
    question = Message(
        (bucket, version, *(holds for holds, _ in rows)),
        [pickle.dumps(plan), *(packed for _, packed in rows)],
    )
    for left in reversed(range(TRIES)):
        try:
            answer = _answer(f"{plan.query}/{plan.start}", bucket, question)
            break
        except (EOFError, ConnectionError):  # it died; another one will make the state again
            if not left:
                raise
    kind, *holds = answer.numbers
    if kind == FAILED:
        raise StateServerError(bytes(answer.bodies[0]).decode())
    if kind == UNREADABLE:
        raise CheckpointError(bytes(answer.bodies[0]).decode())
    return list(zip(holds, answer.bodies, strict=True))


def _answer(service: str, bucket: int, question: Message) -> Message:
    with pool.connection(service, bucket) as connection:
        question.write(connection.sendall)
        with connection.makefile("rb") as file:
            return Message.read(file)
