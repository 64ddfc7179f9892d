"""The process that keeps a bucket's state at hand, and the question that a Spark task puts to it.

Spark gives a bucket's task to any of its Python workers, and may end them when it likes. So the state lives in a
process of its own, which does the work of one task after the other. It holds nothing that the checkpoint does not have,
so it may be killed at any time.
"""

from __future__ import annotations

import socket
import traceback
from contextlib import suppress
from typing import Any

from pyspark.serializers import CloudPickleSerializer

from service.kafka.report import Report
from service.spark.measures import report_of
from service.spark.outgoing import outgoing
from service.spark.packed import COUNTS, Packed
from service.spark.plan import Plan
from service.spark.state import nursery
from service.spark.state.bucket import Bucket, Fed
from service.spark.state.message import Message

#: the plan goes to the keeper as Spark brings it to its workers
SERIALIZER: Any = CloudPickleSerializer()
#: the first number of an answer
DONE, NOTHING, FAILED = range(3)
#: keepers that may die under one task before it fails
TRIES = 3
#: seconds that a task may take to say what it wants
PATIENCE = 60.0


class KeeperError(Exception):
    """The work failed; the message is the keeper's own account of it."""


# ---- in the task -----------------------------------------------------------------------------------------------------


def ask(plan: Plan, bucket: int, version: int, clock: int, rows: list[Packed]) -> tuple[int, int, list[Packed]] | None:
    """Feeds the rows to the bucket at `version` with its `clock`: its next version, its clock then, what goes out.

    None where nothing was there that could move the clock.
    """
    question = Message(
        (bucket, version, clock, *(holds for holds, _ in rows)),
        [SERIALIZER.dumps(plan), *(packed for _, packed in rows)],
    )
    for left in reversed(range(TRIES)):
        try:
            answer = _answer(f"{plan.query}/{plan.start}", bucket, question)
            break
        except (EOFError, ConnectionError):  # it died; another one will make the state again
            if not left:
                raise
    kind, *numbers = answer.numbers
    if kind == FAILED:
        raise KeeperError(answer.bodies[0].decode())
    if kind == NOTHING:
        return None
    version, clock, *holds = numbers
    return version, clock, list(zip(holds, answer.bodies, strict=True))


def _answer(service: str, bucket: int, question: Message) -> Message:
    with nursery.connection(service, bucket) as connection:
        question.write(connection.sendall)
        with connection.makefile("rb") as file:
            return Message.read(file)


# ---- in the keeper ---------------------------------------------------------------------------------------------------


def keep(control: socket.socket) -> None:
    """Answers one connection after the other, as they come through `control`, until that is closed."""
    bucket: Bucket | None = None
    while (connection := nursery.handed(control)) is not None:
        with connection, suppress(EOFError, OSError):  # if the task is gone, it is gone
            connection.settimeout(PATIENCE)
            bucket = _served(connection, bucket)
        if bucket is not None:
            with suppress(OSError):  # a full disk: the next batch fails of it, and tells
                bucket.settle()


def _served(connection: socket.socket, bucket: Bucket | None) -> Bucket | None:
    with connection.makefile("rb") as file:
        question = Message.read(file)
    number, version, clock, *holds = question.numbers
    plan, *packed = question.bodies
    try:
        bucket = bucket or Bucket(SERIALIZER.loads(plan), number)
        fed = bucket.feed(version, clock, list(zip(holds, packed, strict=True)))
        answer = Message((NOTHING,), []) if fed is None else _told(bucket, number, fed)
    except Exception:  # noqa: BLE001 - whatever it is, the task tells it
        answer = Message((FAILED,), [traceback.format_exc().encode()])
    answer.write(connection.sendall)
    return bucket


def _told(bucket: Bucket, number: int, fed: Fed) -> Message:
    plan, clock = bucket.plan, fed.batch.clock.end
    rows = list(outgoing(plan, fed.made, fed.batch, number))
    sizes = {"read": fed.read, "written": fed.written, "held": fed.held}
    operators = report_of(plan.pipeline.operators, fed.batch.inputs | fed.made, bucket.sizes())
    watermarks, final = bucket.watermarks(), bucket.ended()
    report = Report(operators=operators, state=sizes, watermarks=watermarks, clock=clock, final=final)
    rows.append((COUNTS, report.to_json()))
    return Message((DONE, fed.version, clock, *(holds for holds, _ in rows)), [body for _, body in rows])
