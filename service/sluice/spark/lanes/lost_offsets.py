"""Counts the records that Kafka has deleted before a batch could read them (`on_data_loss: continue`).

Spark's source then reads what is left, and says so in the log of Java only. The direct lane reads no such batch. So the
Spark lane compares the offsets of each of its batches with the oldest ones that Kafka has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from confluent_kafka.admin import AdminClient

from sluice.batch.envelope import COUNTS, Packed
from sluice.batch.query_plan import Plan
from sluice.checkpoint.offset_log import before_batch, planned
from sluice.kafka.batch_report import Counts, Report
from sluice.kafka.client_log import LOGGER
from sluice.kafka.range_reader import Offsets, beginnings
from sluice.kafka.requests import Requests


def lost_offsets(plan: Plan, batch: int, requests: Requests[AdminClient]) -> list[Packed]:
    """The counts of the offsets of the batch that are lost, as packed rows. Logs a warning for each topic partition.

    Without `on_data_loss: continue` there are none: Spark's source fails. Called before the batch is read; records that
    Kafka deletes after that and before they are read are not counted.
    """
    if plan.pipeline.settings.on_data_loss == "fail":
        return []
    before, now = before_batch(plan.store, batch).offsets, planned(plan.store, batch).offsets
    wanted = [place for place, end in now.items() if before.get(place, end) != end]
    oldest = beginnings(requests, wanted) if wanted else {}
    lost: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for topic, number, count in _lost(before, now, oldest):
        lost[topic][str(number)] = count
    return [(COUNTS, Report(lost=Counts(lost)).to_json())] if lost else []


def _lost(before: Offsets, now: Offsets, oldest: Offsets) -> Iterator[tuple[str, int, int]]:
    """Topic, topic partition and number of offsets of each loss."""
    for (topic, number), first in sorted(oldest.items()):
        start, end = before[topic, number], now[topic, number]
        if end < start:
            LOGGER.warning(
                "topic %s, topic partition %d: it ends at offset %d, and was read up to offset %d: its newest records "
                "are lost, as after the election of a leader that lacked them. The service goes on at its end",
                topic, number, end, start,
            )  # fmt: skip
        elif first > start:
            count = min(first, end) - start
            LOGGER.warning(
                "topic %s, topic partition %d: %d offsets are lost, from %d on: Kafka deleted their records before "
                "they were read. The service goes on at offset %d (on_data_loss: continue)",
                topic, number, count, start, start + count,
            )  # fmt: skip
            yield topic, number, count
