"""Compares the records that a service has written with the results of repeating its last batches.

The batches are repeated from the checkpoint and the input topics, without Spark and without writing anything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Message

from sluice.batch.commit import BatchResult
from sluice.batch.inputs_again import Arrived, input_again
from sluice.batch.packed_rows import Packed, split_pass_through
from sluice.batch.query_plan import Plan
from sluice.checkpoint import checkpoint_identity
from sluice.checkpoint.checkpoint_folder import store_of
from sluice.checkpoint.checkpoint_identity import CheckpointError
from sluice.checkpoint.checkpoint_store import CheckpointStore
from sluice.checkpoint.offset_log import PLANNED, batches_in, before_all, known, last_planned
from sluice.columns.saved_columns import StateError
from sluice.kafka import ledger, topics
from sluice.kafka.batch_report import Planned
from sluice.kafka.batch_writer import within
from sluice.kafka.range_reader import Offsets, ends, headers_of, tail
from sluice.kafka.records import Records
from sluice.model.kafka_properties import require_servers
from sluice.model.spec import Pipeline
from sluice.state.bucket import Bucket
from sluice.state.bucket_outputs import outgoing
from sluice.state.checksummed_blocks import LOGGER, DamagedError

#: a record: `key`, `value`, `headers` and `timestamp`
Row = dict[str, Any]

#: maximum number of attempts to read the output topics and the ledger at one moment while a service writes
MAX_ATTEMPTS = 50
#: maximum number of attempts to find the state before a batch that was written, beside a service that goes on
MAX_SEARCHES = 5


class Difference(NamedTuple):
    """The first record of a topic partition that differs.

    `offset` and `found` are None if the topic partition lacks the record `expected`.
    """

    batch: int
    topic: str
    partition: int
    offset: int | None
    expected: dict[str, Any]
    found: dict[str, Any] | None


class ComparisonReport(NamedTuple):
    """The result of comparing the batches from `first` to `last` (both inclusive), which write `records` records."""

    pipeline: str
    first: int
    last: int
    records: int
    differences: list[Difference]


class BatchOutputs(NamedTuple):
    """The records that a batch writes to a topic partition."""

    batch: int
    rows: pa.RecordBatch


#: by topic and topic partition: the outputs of each batch, in the order of the batches
Outputs = Mapping[tuple[str, int], list[BatchOutputs]]


def verify(pipeline: Pipeline) -> ComparisonReport:
    """Repeats as many of the last batches as the checkpoint still has, and compares their records with the topics.

    The service may run meanwhile. Raises CheckpointError if no batch can be repeated, and ServersError if the pipeline
    names no broker.
    """
    require_servers(pipeline.settings.kafka, f"pipeline {pipeline.name}")
    plan = _plan(pipeline)
    for left in reversed(range(MAX_SEARCHES)):
        last, written = _position(plan)
        log = _log(plan.store)
        try:
            first, repetition = _oldest(plan, log, last)
        except CheckpointError:
            if not left or (last_planned(plan.store) or 0) <= last:  # else the service went on meanwhile
                raise
        else:
            break
    outputs = defaultdict(list)
    before = log[first - 1] if first else before_all(plan.store)
    for number in range(first, last + 1):
        for records in repetition.records(before, log[number]):
            for partition, rows in _by_partition(records):
                outputs[records.topic, partition].append(BatchOutputs(number, rows))
        before = log[number]
    differences = [
        difference
        for topic_partition in sorted(outputs)
        if (difference := _difference(plan, outputs, topic_partition, written[topic_partition]))
    ]
    count = sum(batch_outputs.rows.num_rows for several in outputs.values() for batch_outputs in several)
    return ComparisonReport(pipeline.name, first, last, count, differences)


def _plan(pipeline: Pipeline) -> Plan:
    store = store_of(pipeline)
    identity = checkpoint_identity.read_identity(store, pipeline)
    pipeline = checkpoint_identity.in_stored_order(pipeline, store)
    return Plan.of(pipeline, identity, topics.known(pipeline))


def _position(plan: Plan) -> tuple[int, Offsets]:
    """The number of the last batch that was written, and the end offsets of the output topics after it.

    Raises CheckpointError if Kafka has no ledger of this checkpoint, or if in all MAX_ATTEMPTS attempts the topics
    changed, or a batch was in parts.
    """
    settings, name = plan.pipeline.settings, plan.pipeline.name
    read = {stream.name for stream in plan.inputs}
    topic_partitions = [
        (str(plan.pipeline.streams[stream].topic), number)
        for stream, count in plan.topic_partitions.items() if stream not in read for number in range(count)
    ]  # fmt: skip
    with topics.reach(settings.kafka) as requests:
        for _ in range(MAX_ATTEMPTS):
            before = ends(requests, topic_partitions)
            position = ledger.read_position(settings.kafka, name)
            if position is None or position.query_id != plan.query:
                message = f"checkpoint {plan.checkpoint}: Kafka has no ledger of it; is this the right cluster?"
                raise CheckpointError(message)
            batch = position.next_batch
            parts = ledger.part_positions(settings.kafka, name, plan.buckets) if position.start else []
            in_parts = ledger.ahead(parts, plan.query, batch)
            if not in_parts and ends(requests, topic_partitions) == before:
                return batch - 1, before
    if in_parts:
        message = (
            f"checkpoint {plan.checkpoint}: some buckets have written batch {batch}, and others have not: start the "
            "service, which finishes it"
        )
        raise CheckpointError(message)
    message = f"the outputs changed during each of {MAX_ATTEMPTS} attempts to read them, because the service is writing"
    raise CheckpointError(message)


def _log(store: CheckpointStore) -> dict[int, Planned]:
    """The plans in Spark's log, by batch.

    All are read at once, before any batch is repeated: with each batch of a running service, Spark removes the oldest
    one. One that is removed after it was listed is left out.
    """
    plans = {number: known(store, number) for number in batches_in(store, PLANNED)}
    return {number: plan for number, plan in plans.items() if plan is not None}


def _oldest(plan: Plan, log: Mapping[int, Planned], last: int) -> tuple[int, BatchReplay]:
    """The first batch up to `last` from which all batches can be repeated, and the state of the buckets before it.

    Raises CheckpointError if there is none.
    """
    damages = list[str]()
    for first in sorted(number for number in log if number <= last):
        if not log.keys() >= set(range(max(0, first - 1), last + 1)):
            continue
        try:
            return first, BatchReplay(plan, first)
        except DamagedError as error:
            LOGGER.warning("batch %d cannot be repeated: %s", first, error)
            damages.append(str(error))
        except (StateError, FileNotFoundError):  # the service removed the file because it is not needed any more
            continue
    if damages:
        raise CheckpointError(damages[-1])
    message = f"checkpoint {plan.checkpoint}: it no longer records batch {last}, the last one that was written"
    raise CheckpointError(message)


def _by_partition(records: Records) -> Iterator[tuple[int, pa.RecordBatch]]:
    partition = records.columns.column("partition").to_numpy()
    for number in np.unique(partition).tolist():
        yield number, records.columns.filter(pa.array(partition == number))


def _difference(plan: Plan, outputs: Outputs, topic_partition: tuple[str, int], end: int) -> Difference | None:
    """The first difference in a topic partition, which ends at offset `end`; None if there is none."""
    several = outputs[topic_partition]
    messages = tail(
        plan.pipeline.settings.kafka,
        topic_partition,
        end,
        sum(batch_outputs.rows.num_rows for batch_outputs in several),
    )
    expected = [(batch_outputs.batch, row) for batch_outputs in several for row in batch_outputs.rows.to_pylist()]
    messages = [None] * (len(expected) - len(messages)) + messages
    for (batch, row), message in zip(expected, messages, strict=True):
        if message is None:
            return Difference(batch, *topic_partition, None, _shown(row), None)
        if not _same(row, message):
            return Difference(batch, *topic_partition, message.offset(), _shown(row), _shown(_row(message)))
    return None


def _same(row: Row, message: Message) -> bool:
    written_row = _row(message)
    if message.timestamp()[0] == TIMESTAMP_LOG_APPEND_TIME:  # the broker has replaced the timestamp by its own time
        written_row["timestamp"] = row["timestamp"]
    return all((row[name] or None) == (value or None) for name, value in written_row.items())


def _row(message: Message) -> Row:
    return {
        "key": message.key(), "value": message.value(), "timestamp": message.timestamp()[1],
        "headers": headers_of(message),
    }  # fmt: skip


def _shown(row: Row) -> dict[str, Any]:
    """The record as JSON values, with texts in place of bytes."""
    headers = [[name, _text(value)] for name, value in row["headers"] or ()]
    return {"key": _text(row["key"]), "value": _text(row["value"]), "timestamp": row["timestamp"], "headers": headers}


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="backslashreplace")


class BatchReplay:
    """The state of all buckets of a service before a batch. Each call of `records` repeats the next batch on it.

    Nothing is written to the checkpoint or to Kafka.
    """

    def __init__(self, plan: Plan, batch: int) -> None:
        """Raises StateError or FileNotFoundError if the checkpoint does not have the state before `batch` any more."""
        self._plan = plan
        self._buckets = [Bucket(plan, number) for number in range(plan.buckets)]
        for bucket in self._buckets:
            bucket.at(batch)

    def records(self, before: Planned, batch: Planned) -> Iterator[Records]:
        """The records that `batch` writes. `before` is the batch before it, at whose offsets it starts."""
        return self._records(*input_again(self._plan, before, batch), batch.time)

    def _records(self, plan: Plan, arrived: Arrived, at: int) -> Iterator[Records]:
        rows = [row for number, packed in sorted(arrived.items()) for row in self._outputs_of(plan, number, packed)]
        result = BatchResult(plan, rows, at=at)
        return within(dict(plan.limits), result.records(), result.too_large)

    def _outputs_of(self, plan: Plan, number: int, arrived: list[Packed]) -> Iterator[Packed]:
        """The packed outputs of a bucket for a batch, computed as the service computes them."""
        passing, rest = split_pass_through(plan.topic_partitions, arrived)
        yield from passing
        for part, outputs in self._buckets[number].try_rows(rest):
            yield from outgoing(plan, outputs, part, number)
