"""The process that keeps a bucket's state at hand, and answers what Spark's tasks ask of it (ask.py).

Spark gives a bucket's task to any of its Python workers, and may end them when it likes. So the state lives in a
process of its own, which does the work of one task after the other. It holds nothing that the checkpoint does not have,
so it may be killed at any time.
"""

from __future__ import annotations

import pickle
import socket
import traceback
from contextlib import suppress

from sluice.batch.bucket_batch import Batch
from sluice.batch.envelope import COUNTS, Packed
from sluice.batch.operator_stats import report_of
from sluice.batch.outgoing import outgoing
from sluice.batch.spool import Spool, in_memory
from sluice.columns.tables import StateError
from sluice.engine.stream.items import Items
from sluice.kafka.batch_report import Report
from sluice.ops.log_lines import configure
from sluice.state.bucket import Bucket, BucketResult
from sluice.state.message import Message
from sluice.state.server import pool
from sluice.state.server.request import DONE, FAILED, UNREADABLE

#: seconds that a task may take to say what it wants
PATIENCE = 60.0


def serve(control: socket.socket) -> None:
    """Answers one connection after the other, as they come through `control`, until that is closed."""
    configure()  # what is wrong with the files of the state is logged
    bucket: Bucket | None = None
    while (connection := pool.received_connection(control)) is not None:
        with connection, suppress(EOFError, OSError):  # if the task is gone, it is gone
            connection.settimeout(PATIENCE)
            bucket = _served(connection, bucket)
        if bucket is not None:
            with suppress(OSError):  # a full disk: the next batch fails of it, and tells
                bucket.settle()


def _served(connection: socket.socket, bucket: Bucket | None) -> Bucket | None:
    with connection.makefile("rb") as file:
        question = Message.read(file)
    number, version, *holds = question.numbers
    plan, *packed = question.bodies
    try:
        bucket = bucket or Bucket(pickle.loads(plan), number)  # noqa: S301 - a task of this service sent it
        answer = _fed(bucket, version, list(zip(holds, packed, strict=True)))
    except StateError as error:
        answer = Message((UNREADABLE,), [str(error).encode()])
    except Exception:  # noqa: BLE001 - whatever it is, the task tells it
        answer = Message((FAILED,), [traceback.format_exc().encode()])
    answer.write(connection.sendall)
    return bucket


def _fed(bucket: Bucket, version: int, rows: list[Packed]) -> Message:
    """What comes of a batch."""
    plan = bucket.plan
    made: list[Packed] = []
    with Spool(plan.checkpoint, version, plan.returned) as spool:

        def part_made(part: Batch, items: dict[str, Items]) -> None:
            made.extend(map(spool.handed, outgoing(bucket.plan, items, part, bucket.number)))
            operators = report_of(bucket.plan.pipeline.operators, part.inputs | items, {})
            made.append((COUNTS, Report(operators=operators).to_json()))

        fed = bucket.feed(version, list(in_memory(plan.checkpoint, rows)), part_made)
        if fed is None:
            return Message((DONE,), [])
        made.extend(map(spool.handed, outgoing(bucket.plan, fed.made, fed.batch, bucket.number)))
    made.append((COUNTS, _report(bucket, fed).to_json()))
    return Message((DONE, *(holds for holds, _ in made)), [body for _, body in made])


def _report(bucket: Bucket, fed: BucketResult) -> Report:
    """What the ledger says of the last part of a batch, and of the bucket after it."""
    plan, clock = bucket.plan, fed.batch.clock.end
    sizes = {"read": fed.read, "written": fed.written, "held": fed.held}
    operators = report_of(plan.pipeline.operators, fed.batch.inputs | fed.made, bucket.sizes())
    watermarks, due, final = bucket.watermarks(), bucket.due(), bucket.ended()
    return Report(operators=operators, state=sizes, watermarks=watermarks, clock=clock, due=due, final=final)
