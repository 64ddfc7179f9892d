"""The direct lane: the service's own process does the work of a small batch, without a job of Spark.

    offset log --> records of the batch --> packed rows --> state servers --> transaction
                   record_feed.py           batch/          state/server/    batch/commit.py

Spark plans, logs and commits the batch as always. The lane does the work in between, and may begin it before Spark
calls (early_work.py). The packed rows are made by the functions that the tasks of Spark call, and the same state
servers apply them, so both lanes give equal outputs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import Message

from sluice.batch.envelope import Packed, split_pass_through
from sluice.batch.kernel_warm_up import in_this_process, of_routing
from sluice.batch.partition_router import arrived_rows
from sluice.batch.query_plan import Plan
from sluice.checkpoint.offset_log import before_batch, planned
from sluice.kafka.kafka_errors import HeaderNameError
from sluice.kafka.partition_reader import RecordsNotReadError
from sluice.kafka.planned_batch import Planned
from sluice.spark.lanes.record_feed import RecordFeed
from sluice.state.server import pool
from sluice.state.server.request import request

LOGGER = logging.getLogger("sluice")

#: applies packed rows to the state of a bucket: plan, number of the bucket, number of the batch, rows
Apply = Callable[[Plan, int, int, list[Packed]], list[Packed]]


class DirectLane:
    """Does the work of small batches of one query."""

    def __init__(self, plan: Plan, feed: RecordFeed, apply: Apply = request) -> None:
        self._plan, self._feed, self._apply = plan, feed, apply
        self._most = plan.pipeline.settings.direct_records
        self._threads = ThreadPoolExecutor(plan.buckets, thread_name_prefix="sluice-direct")
        # Loading compiled kernels takes a second, which Spark needs for the first batch anyway.
        kernels = of_routing(plan.pipeline)
        threading.Thread(target=in_this_process, args=(kernels,), name="sluice-kernels", daemon=True).start()

    def outputs(self, batch: int) -> list[Packed] | None:
        """The packed outputs of the batch.

        None if the batch is not small, or if something that the lane needs is missing. Then Spark must do the work: a
        bucket that has applied the batch already answers its task as it answers a task that Spark repeats.
        """
        before, now = before_batch(self._plan.store, batch), planned(self._plan.store, batch)
        if not self._small(before, now):
            return None
        try:
            records = self._feed.take(before.offsets, now.offsets)
            return self._made(before, now, batch, records)
        except (RecordsNotReadError, HeaderNameError, OSError, EOFError) as error:
            LOGGER.info("a small batch is run as a job of Spark: %s", error, extra={"batch": batch})
            return None

    def close(self) -> None:
        """Ends the threads and the Kafka client of the lane. The query has ended."""
        self._threads.shutdown(wait=False)
        self._feed.close()

    def _made(
        self, before: Planned, now: Planned, batch: int, records: Mapping[tuple[str, int], Sequence[Message]]
    ) -> list[Packed]:
        arrived = arrived_rows(self._plan, before, now, records)
        work = [
            self._threads.submit(self._of_bucket, number, batch, arrived.get(number, []))
            for number in range(self._plan.buckets)
        ]
        return [row for done in work for row in done.result()]

    def _small(self, before: Planned, now: Planned) -> bool:
        """Whether the batch has at most `direct_records` offsets and probably not too many bytes, and no new topic
        partitions, and the pool runs.

        Markers of transactions have offsets, too, so there may be fewer records.
        """
        if before.offsets.keys() != now.offsets.keys() or not pool.reachable():
            return False
        spans = [end - before.offsets[place] for place, end in now.offsets.items()]
        return min(spans, default=0) >= 0 and sum(spans) <= self._most and self._feed.fits(sum(spans))

    def _of_bucket(self, number: int, batch: int, rows: list[Packed]) -> list[Packed]:
        through, rest = split_pass_through(self._plan.topic_partitions, rows)
        return [*through, *self._apply(self._plan, number, batch, rest)]
