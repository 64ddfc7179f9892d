"""The state server of a bucket: a process that holds the state of one bucket (a slice of the key space) in memory.

Spark may run the task of a bucket in any of its Python workers, and may end a worker at any time. So the worker does
not hold the state: it sends the rows of its task to the state server (request.py), which runs the operators on them
and answers with the outputs. The server handles one task at a time. The process may be killed at any time as well:
another one reads the same state from the checkpoint.
"""

from __future__ import annotations

import pickle
import socket
import traceback
from contextlib import suppress

from sluice.api import call_limit, class_loader
from sluice.batch.commit import commit_part, split_parted
from sluice.batch.packed_rows import COUNTS, Packed
from sluice.batch.query_plan import Plan
from sluice.batch.spool import Spool, in_memory
from sluice.checkpoint import checkpoint_folder, checkpoint_identity
from sluice.checkpoint.checkpoint_store import StoreError, put_bytes
from sluice.columns.saved_columns import StateError
from sluice.engine.stream.items import Items
from sluice.kafka.batch_report import Report
from sluice.ops.log_lines import configure_as_parent
from sluice.state.bucket import Bucket, BucketResult
from sluice.state.bucket_batch import Batch
from sluice.state.bucket_inspection import Inspections, held_back
from sluice.state.bucket_outputs import outgoing, report_of
from sluice.state.message import Message
from sluice.state.server import pool
from sluice.state.server.read_request import READ, Reads
from sluice.state.server.request import DONE, FAILED, UNREADABLE

#: timeout of a connection in seconds: how long the server waits for the next bytes of a task
MESSAGE_TIMEOUT_S = 60.0


def serve(control: socket.socket) -> None:
    """Receives connections through `control` and answers the requests on them, until `control` is closed.

    The last connection with a request for the bucket stays open, because its client may send further ones
    (`request.Connections`), until a request comes on another one. A process that reads records (read_request.py) also
    ends when it has no request for some time.
    """
    configure_as_parent()  # damage to the files of the state is logged
    bucket: Bucket | None = None
    kept: socket.socket | None = None
    inspections, reads = Inspections(), Reads()
    while (connection := pool.received_connection(control, reads.patience, kept)) is not None:
        stays = False
        with suppress(EOFError, OSError):  # the client has closed it, or has ended; Spark repeats a task
            connection.settimeout(MESSAGE_TIMEOUT_S)
            with connection.makefile("rb") as file:
                request = Message.read(file)
            if request.numbers[1] == pool.INSPECTION:
                inspections.answer(connection, bucket, bytes(request.bodies[0]))
            elif request.numbers[1] == READ:
                reads.answer(connection, request)
            else:
                bucket = _served(connection, request, bucket)
                stays = True
        if not stays:
            connection.close()
            kept = None if connection is kept else kept
            continue
        if kept is not None and connection is not kept:
            kept.close()
        kept = connection
        if bucket is not None:
            with suppress(OSError):  # for instance a full disk: the next batch fails with the same error and reports it
                bucket.maintain()
    if kept is not None:
        kept.close()


def _served(connection: socket.socket, request: Message, bucket: Bucket | None) -> Bucket | None:
    number, version, *kinds = request.numbers
    plan, *packed = request.bodies
    try:
        bucket = bucket or _started(plan, number)
        with call_limit.of_batch(version):
            answer = _fed(bucket, version, list(zip(kinds, packed, strict=True)))
    except StateError as error:
        answer = Message((UNREADABLE,), [str(error).encode()])
        if bucket is not None:
            _note_unreadable(bucket.plan, str(error))
    except Exception:  # noqa: BLE001 - the answer carries the error to the task, which raises it
        answer = Message((FAILED,), [traceback.format_exc().encode()])
    answer.write(connection.sendall)
    return bucket


def _started(pickled: bytes | memoryview, number: int) -> Bucket:
    plan: Plan = pickle.loads(pickled)  # noqa: S301 - only tasks of this service send plans
    class_loader.forget_others(plan.modules)
    bucket = Bucket(plan, number)  # this loads users' classes
    class_loader.require_same(plan.modules)
    return bucket


def _note_unreadable(plan: Plan, why: str) -> None:
    """Lets the next start look at the states of the buckets, and restore them if they cannot be read. Without its
    identity the checkpoint is lost: the next start restores it, unless there are files in it.
    """
    with suppress(OSError, StoreError):  # the disk is full or broken: the start then fails as this batch does
        if checkpoint_identity.FILE in plan.store.list(checkpoint_identity.FILE):
            put_bytes(plan.store, checkpoint_folder.UNREADABLE, why.encode())


def _fed(bucket: Bucket, version: int, rows: list[Packed]) -> Message:
    """Applies the rows of a batch to the bucket. The answer holds the packed outputs and the reports of all parts."""
    plan = bucket.plan
    outputs: list[Packed] = []
    with Spool(plan.checkpoint, version, plan.returned) as spool:

        def part_made(part: Batch, items: dict[str, Items]) -> None:
            outputs.extend(map(spool.stored, outgoing(bucket.plan, items, part, bucket.number)))
            operators = report_of(bucket.plan.pipeline.operators, part.inputs | items, {})
            outputs.append((COUNTS, Report(operators=operators).to_json()))

        fed = bucket.feed(version, list(in_memory(plan.checkpoint, rows)), part_made)
        if fed is None:
            return Message((DONE,), [])
        outputs.extend(map(spool.stored, outgoing(bucket.plan, fed.made, fed.batch, bucket.number)))
    outputs.append((COUNTS, _report(bucket, fed).to_json()))
    outputs = _without_part(bucket, version, outputs)
    return Message((DONE, *(kind for kind, _ in outputs)), [body for _, body in outputs])


def _without_part(bucket: Bucket, batch: int, outputs: list[Packed]) -> list[Packed]:
    """Writes the bucket's part of the batch, if the buckets write (`commit_part`). Returns the other rows of its
    outputs, with the counts of what it has written.
    """
    plan = bucket.plan
    if not plan.parted:
        return outputs
    parted, others = split_parted(plan, outputs)
    report = commit_part(plan, bucket.number, batch, parted)
    return [*others, (COUNTS, report.to_json())] if parted else others


def _report(bucket: Bucket, fed: BucketResult) -> Report:
    """The report for the ledger: counts of the last part of the batch, and the state of the bucket after the batch."""
    plan, clock = bucket.plan, fed.batch.clock.end
    sizes = {"read": fed.read, "written": fed.written, "held": fed.held}
    operators = report_of(plan.pipeline.operators, fed.batch.inputs | fed.made, bucket.sizes())
    for name, count in bucket.left_out().items():
        operators[name]["left_out"] = count
    watermarks, due, final = bucket.watermarks(), bucket.due(), bucket.ended()
    return Report(
        operators=operators, state=sizes, watermarks=watermarks, clock=clock, due=due, final=final, **held_back(bucket)
    )  # fmt: skip
