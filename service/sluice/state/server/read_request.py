"""The request of the service's own process to a reader: a process that reads and routes records of a batch.

The service's own process reads small batches itself. It would be too slow for large ones: of these each of several
readers reads some topic partitions, and the service passes the packed rows on to the state servers. The pool forks the
readers as it forks state servers (pool.py). All queries share them, so that there is one for each processor, however
many pipelines have large batches. A reader does one request after the other, and ends after IDLE_S without any.
"""

from __future__ import annotations

import pickle
import socket
import traceback
from collections.abc import Mapping
from contextlib import closing
from typing import NamedTuple
from zlib import crc32

from sluice.batch.packed_rows import Packed
from sluice.batch.partition_router import joined, route_places
from sluice.batch.query_plan import Plan
from sluice.batch.spool import Spool
from sluice.kafka.following_reader import FollowingReader, RecordsNotReadError
from sluice.kafka.kafka_errors import HeaderNameError
from sluice.kafka.librdkafka.column_consumer import Place
from sluice.processes import processors, without_garbage_collection
from sluice.state.message import Message
from sluice.state.server import pool
from sluice.state.server.request import DONE, FAILED, ask

#: in place of the version in a request: the request is for a reader
READ = -2
#: the first number of an answer, besides the numbers of request.py: the records cannot be read here
NOT_READ = 3
#: seconds without a record after which records cannot be read here
TIMEOUT_S = 10.0
#: seconds without a request after which a reader ends
IDLE_S = 30.0
#: bytes that each Kafka client of a reader reads ahead
AHEAD = 8 << 20
#: the most Kafka clients of a reader: one for each query that it has read for last
MOST_CLIENTS = 4


class Ranges(NamedTuple):
    """The records of a batch that one reader reads.

    batch    the number of the batch
    time     when the batch was planned, in nanoseconds since 1970
    starts   by topic partition: the offset of the first record (inclusive)
    ends     by topic partition: the offset behind the last record; the same topic partitions
    held     the most bytes of packed rows that the answer has; further ones are in files (spool.py)
    """

    batch: int
    time: int
    starts: Mapping[Place, int]
    ends: Mapping[Place, int]
    held: int


def readers_of(plan: Plan) -> int:
    """The number of readers that share the work for a query: one for each processor, and no more than it has topic
    partitions to read.
    """
    return min(processors(), max(1, len(plan.places)))


def read(plan: Plan, reader: int, ranges: Ranges) -> list[tuple[int, Packed]]:
    """The packed rows of these records, each with the number of its bucket.

    `reader` is a number below `readers_of(plan)`. Queries with few topic partitions have different readers.

    Raises RecordsNotReadError if Spark's source must read the records, and StateServerError if the work failed. Raises
    OSError or EOFError if no reader could be reached, or if several died while they worked.
    """
    number = (crc32(plan.query.encode()) + reader) % processors()
    question = Message((number, READ), [plan.pickled, pickle.dumps(ranges)])
    answer = ask(pool.READERS, number, 0, question)
    status, *numbers = answer.numbers
    if status == NOT_READ:
        raise RecordsNotReadError(bytes(answer.bodies[0]).decode())
    return [
        (bucket, (kind, body)) for bucket, kind, body in zip(numbers[::2], numbers[1::2], answer.bodies, strict=True)
    ]


class Reads:
    """The reads of a reader, one after the other, with a Kafka client for each query."""

    def __init__(self) -> None:
        #: by the name of the query's start, least recently used first
        self._clients: dict[str, FollowingReader] = {}

    @property
    def patience(self) -> float | None:
        """The seconds without a request after which this process ends; None: it is no reader, and stays."""
        return IDLE_S if self._clients else None

    def answer(self, connection: socket.socket, request: Message) -> None:
        plan, ranges = (pickle.loads(body) for body in request.bodies)  # noqa: S301 - only the service sends requests
        self._answer(plan, ranges).write(connection.sendall)

    def _answer(self, plan: Plan, ranges: Ranges) -> Message:
        try:
            with (
                without_garbage_collection(),
                closing(self._client(plan).read(ranges.starts, ranges.ends)) as records,
                Spool(plan.checkpoint, ranges.batch, ranges.held) as spool,
            ):
                routed = route_places(plan, ranges.time, joined(records, plan.bounds.piece))
                rows = [(bucket, spool.stored(row)) for bucket, row in routed]
        except (RecordsNotReadError, HeaderNameError) as error:
            return Message((NOT_READ,), [str(error).encode()])
        except Exception:  # noqa: BLE001 - the answer carries the error to the service, which raises it
            return Message((FAILED,), [traceback.format_exc().encode()])
        return Message((DONE, *(n for bucket, (kind, _) in rows for n in (bucket, kind))), [row[1] for _, row in rows])

    def _client(self, plan: Plan) -> FollowingReader:
        name = plan.server_name
        client = self._clients.pop(name, None) or FollowingReader.of(plan.pipeline.settings.kafka, TIMEOUT_S, AHEAD)
        self._clients[name] = client
        if len(self._clients) > MOST_CLIENTS:
            self._clients.pop(next(iter(self._clients))).close()
        return client
