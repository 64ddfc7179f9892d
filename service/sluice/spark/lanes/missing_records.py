"""Names the records of inputs that the service cannot read: an open transaction hides them, or Kafka has deleted them.

Hidden: a reader of committed records sees nothing behind the first record of an open transaction, and its lag is 0. So
each LOOK_S `HeldBack` compares the end for such a reader with the end of the log.

Deleted (`on_data_loss: continue`): Spark's source then reads what is left, and writes about it to the log of Java
alone. The direct lane reads no such batch. So the Spark lane compares the offsets of each of its batches with the
oldest ones that Kafka has (`lost_offsets`).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from sluice.batch.packed_rows import COUNTS, Packed
from sluice.batch.query_plan import Plan
from sluice.checkpoint.offset_log import before_batch, planned
from sluice.kafka.batch_report import Counts, Report
from sluice.kafka.client import LOGGER
from sluice.kafka.range_reader import Offsets, beginnings
from sluice.kafka.requests import REQUEST, Requests

#: seconds between two looks, and the seconds for which the end must stand still
LOOK_S, HELD_S = 10.0, 20.0
#: the answers to a request, by topic partition
Answers = Mapping[TopicPartition, Any]


class Held(NamedTuple):
    """The end of a topic partition for readers of committed records, since when it is there in seconds, and whether the
    log says so.
    """

    end: int
    since: float
    logged: bool


class HeldBack:
    """Logs which of these topic partitions an open transaction holds back, and when it does not any more."""

    def __init__(self, places: Sequence[tuple[str, int]], clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds."""
        self._places, self._clock = [TopicPartition(*place) for place in places], clock
        self._held: dict[tuple[str, int], Held] = {}
        self._asked: tuple[Answers, Answers] | None = None
        self._due = clock() + LOOK_S

    def look(self, client: AdminClient) -> None:
        """Sends two requests if LOOK_S have passed since the last ones, and looks at their answers in a later call."""
        if self._asked is None:
            if self._places and self._clock() >= self._due:
                levels = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
                committed, all_records = (_ends(client, self._places, level) for level in levels)
                self._asked = committed, all_records
        elif all(answer.done() for answers in self._asked for answer in answers.values()):
            asked, self._asked, self._due = self._asked, None, self._clock() + LOOK_S
            try:
                committed_ends, ends = map(_offsets, asked)
            except KafkaException:  # the next look may get an answer
                return
            for place, end in ends.items():
                self._compare(place, committed_ends[place], end)

    def _compare(self, place: tuple[str, int], committed: int, end: int) -> None:
        before = self._held.get(place)
        if not 0 <= committed < end:
            self._held.pop(place, None)
        elif before is None or before.end != committed:
            self._held[place] = Held(committed, self._clock(), logged=False)
        elif not before.logged and self._clock() >= before.since + HELD_S:
            self._held[place] = before._replace(logged=True)
            LOGGER.warning(
                "topic %s, topic partition %d: an open transaction of a producer hides the records from offset %d on, "
                "%d offsets so far. They are read when the producer commits or aborts it, or when the broker aborts it "
                "(transaction.timeout.ms of the producer); kafka-transactions.sh find-hanging and abort end one that "
                "its producer has left",
                *place, committed, end - committed,
            )  # fmt: skip
            return
        if before is not None and before.logged and self._held.get(place) != before:
            LOGGER.info(
                "topic %s, topic partition %d: the transaction that hid the records from offset %d on has ended",
                *place, before.end,
            )  # fmt: skip


def _ends(client: AdminClient, places: Sequence[TopicPartition], level: IsolationLevel) -> Answers:
    specs = dict.fromkeys(places, OffsetSpec.latest())
    answers: Answers = client.list_offsets(specs, isolation_level=level, request_timeout=REQUEST)
    return answers


def _offsets(answers: Answers) -> Offsets:
    return {(place.topic, place.partition): answer.result().offset for place, answer in answers.items()}


def lost_offsets(plan: Plan, batch: int, requests: Requests[AdminClient]) -> list[Packed]:
    """The counts of the offsets of the batch that are lost, as packed rows. Logs a warning for each topic partition.

    Without `on_data_loss: continue` there are none: Spark's source fails. Called before the batch is read; records that
    Kafka deletes after that and before they are read are not counted.
    """
    if plan.pipeline.settings.on_data_loss == "fail":
        return []
    before, now = before_batch(plan.store, batch).offsets, planned(plan.store, batch).offsets
    advanced = [place for place, end in now.items() if before.get(place, end) != end]
    oldest = beginnings(requests, advanced) if advanced else {}
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
