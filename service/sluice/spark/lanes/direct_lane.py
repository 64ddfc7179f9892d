"""The direct lane: processes of the service do the work of a batch, without a job of Spark.

    offset log --> records of the batch --------------------> packed rows --> state servers --> transaction
                   `RecordFeed`, in this process              batch/          state/server/     batch/commit.py
                   state/server/read_request.py, in readers

Spark plans, logs and commits the batch as always. The lane does the work in between, and may begin it before Spark
calls (batch_lanes.py). The packed rows are made by the functions that the tasks of Spark call, and the same state
servers apply them, so both lanes give equal outputs. The service's own process reads records ahead (`RecordFeed`), so
that they are there for a small batch.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pyarrow as pa

from sluice.batch.kernel_warm_up import in_this_process, of_routing
from sluice.batch.packed_rows import Packed, split_pass_through
from sluice.batch.partition_router import arrived_rows, to_buckets
from sluice.batch.query_plan import Plan
from sluice.checkpoint.offset_log import before_batch, planned
from sluice.kafka.batch_report import Planned
from sluice.kafka.following_reader import FollowingReader, RecordsNotReadError
from sluice.kafka.kafka_errors import HeaderNameError
from sluice.kafka.librdkafka.column_consumer import Place
from sluice.kafka.range_reader import Offsets
from sluice.model.spec import Pipeline
from sluice.ops.batch_progress import Observe, Step, StepTimer, ignored
from sluice.state.server import pool
from sluice.state.server.read_request import Ranges, read, readers_of
from sluice.state.server.request import Connections

LOGGER = logging.getLogger("sluice")

#: begins to apply packed rows to the state of a bucket: plan, number of the bucket, number of the batch, rows -> a
#: function that waits for the outputs
Apply = Callable[[Plan, int, int, list[Packed]], Callable[[], list[Packed]]]
#: reads and routes records: plan, number of the reader, what it reads
Read = Callable[[Plan, int, Ranges], list[tuple[int, Packed]]]


#: seconds of a wait for records that Spark's source has seen already
TIMEOUT_S = 2.0
#: bytes that the client reads ahead
AHEAD = 4 << 20
#: bytes of records of one batch that this process holds at once
MAX_BYTES = 16 << 20
#: factor of the expected size of records after each batch that was expected to be too large and so was not read
DECAY = 0.99


def load_early(pipeline: Pipeline) -> None:
    """Lets a thread load the compiled kernels that the lane of this pipeline needs, for which the first batch would
    wait for 0.3 s.
    """
    threading.Thread(target=in_this_process, args=(of_routing(pipeline),), name="sluice-kernels", daemon=True).start()


class DirectLane:
    """Does the work of batches of one query."""

    def __init__(
        self, plan: Plan, feed: RecordFeed, apply: Apply | None = None, read: Read = read, observe: Observe = ignored,
        *, all_read: Callable[[], object] = lambda: None,
    ) -> None:  # fmt: skip
        """`all_read` is called when the records of a batch were read, and before its outputs are computed."""
        self._all_read = all_read
        self._plan, self._feed, self._read, self._observe = plan, feed, read, observe
        self._connections = Connections()
        self._apply = apply or self._connections.begin
        self._most = plan.pipeline.settings.direct_records
        self._readers = readers_of(plan)
        self._threads = ThreadPoolExecutor(self._readers, thread_name_prefix="sluice-direct")
        #: the number of offsets of the last batch that the lane could read
        self.offsets = 0

    def outputs(self, batch: int) -> list[Packed] | None:
        """The packed outputs of the batch.

        None if something that the lane needs is missing. Then Spark must do the work: a bucket that has applied the
        batch already answers its task as it answers a task that Spark repeats.
        """
        before, now = before_batch(self._plan.store, batch), planned(self._plan.store, batch)
        if not self._readable(before, now):
            return None
        self.offsets = sum(end - before.offsets[place] for place, end in now.offsets.items())
        try:
            timer = StepTimer(self._observe)
            arrived = self._arrived(before, now, batch)
            self._all_read()
            timer.ended(Step.READ)
            outputs = self._made(batch, arrived)
            timer.ended(Step.COMPUTE)
        except (RecordsNotReadError, HeaderNameError, OSError, EOFError) as error:
            LOGGER.info("a batch is run as a job of Spark: %s", error, extra={"batch": batch})
            return None
        return outputs

    def rest(self) -> None:
        """Lets the Kafka client request nothing until the next batch. No batch is in progress."""
        self._feed.rest()

    def close(self) -> None:
        """Ends the threads of the lane, its Kafka client, and its connections. The query has ended."""
        self._threads.shutdown(wait=False)
        self._feed.close()
        self._connections.close()

    def _readable(self, before: Planned, now: Planned) -> bool:
        """Whether the batch has no new topic partitions and none that was made anew, and the pool runs."""
        if before.offsets.keys() != now.offsets.keys() or not pool.reachable():
            return False
        return all(before.offsets[place] <= end for place, end in now.offsets.items())

    def _arrived(self, before: Planned, now: Planned, batch: int) -> Mapping[int, list[Packed]]:
        """The packed rows of each bucket that has any.

        This process reads a batch with at most `direct_records` offsets and probably not too many bytes, which takes
        less time than requests to readers. Markers of transactions have offsets, too, so there may be fewer records.
        """
        if self.offsets <= self._most and self._feed.fits(self.offsets):
            try:
                return arrived_rows(self._plan, before, now, self._feed.take(before.offsets, now.offsets))
            except TooManyBytesError as error:
                LOGGER.debug("%s", error)
        return to_buckets(self._plan, before, now, self._read_by_readers(before, now, batch))

    def _read_by_readers(self, before: Planned, now: Planned, batch: int) -> Iterator[tuple[int, Packed]]:
        """The packed rows, each with the number of its bucket. Each reader has the same topic partitions each time."""
        places, held = sorted(now.offsets), self._plan.bounds.held // self._readers
        work = []
        for reader in range(self._readers):
            of_reader = places[reader :: self._readers]
            starts, ends = ({place: planned.offsets[place] for place in of_reader} for planned in (before, now))
            if starts != ends:
                ranges = Ranges(batch, now.time, starts, ends, held)
                work.append(self._threads.submit(self._read, self._plan, reader, ranges))
        for future in work:
            yield from future.result()

    def _made(self, batch: int, arrived: Mapping[int, list[Packed]]) -> list[Packed]:
        work = [self._begun(number, batch, arrived.get(number, [])) for number in range(self._plan.buckets)]
        return [row for passing, outputs in work for row in (*passing, *outputs())]

    def _begun(self, number: int, batch: int, rows: list[Packed]) -> tuple[list[Packed], Callable[[], list[Packed]]]:
        """The rows that bypass the bucket, and a function that waits for the outputs of the bucket."""
        passing, rest = split_pass_through(self._plan.topic_partitions, rows)
        return passing, self._apply(self._plan, number, batch, rest)


class TooManyBytesError(Exception):
    """The records of a batch have more bytes than this process holds at once."""


class RecordFeed:
    """Takes the records of one batch after the other into memory."""

    def __init__(self, reader: FollowingReader) -> None:
        self._reader = reader
        #: the mean size of the records of the last batch that had too many bytes
        self._expected_size = 0.0

    @classmethod
    def of(cls, kafka: Mapping[str, str]) -> RecordFeed:
        """The feed from the brokers of a `kafka:` block."""
        return cls(FollowingReader.of(kafka, TIMEOUT_S, AHEAD))

    def fits(self, records: int) -> bool:
        """Whether a batch of so many records probably has at most MAX_BYTES.

        The mean size of the records of the last batch that had more decides, so that a stream of large records is not
        read here in vain for each batch. As records may become smaller, its weight shrinks with each batch that does
        not fit.
        """
        if records * self._expected_size <= MAX_BYTES:
            return True
        self._expected_size *= DECAY
        return False

    def take(self, starts: Offsets, ends: Offsets) -> dict[Place, pa.RecordBatch]:
        """The records from the start (inclusive) to the end (exclusive) of each topic partition, in order of offsets.

        Both have the same topic partitions. Topic partitions without records are left out. Raises TooManyBytesError if
        the records have more than MAX_BYTES, and RecordsNotReadError if they cannot be read here.
        """
        batches: defaultdict[Place, list[pa.RecordBatch]] = defaultdict(list)
        size = 0
        with closing(self._reader.read(starts, ends)) as read:
            for place, records in read:
                batches[place].append(records)
                size += records.nbytes
                if size > MAX_BYTES:
                    self._expected_size = size / sum(map(len, batches.values()))
                    message = f"the records of a batch have more than {MAX_BYTES} bytes"
                    raise TooManyBytesError(message)
        return {place: parts[0] if len(parts) == 1 else pa.concat_batches(parts) for place, parts in batches.items()}

    def rest(self) -> None:
        """Lets the Kafka client request nothing until the next `take`."""
        self._reader.rest()

    def close(self) -> None:
        """Closes the Kafka client, and frees what it has read ahead; the next `take` makes a new one."""
        self._reader.close()
