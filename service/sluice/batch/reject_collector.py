"""Collects the records of a batch that cannot be decoded and the tuples that operators reject, for the dead letters.

A dead letter contains the bytes of the original record. An operator that rejects a tuple (because it is late, for
instance) has only the topic partition and the offset of its record, so this module reads that record from Kafka
again. For a tuple that an operator made, it reads the record that caused it; for a join, the newer one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Message

from sluice.batch.packed_rows import Body, pack, topic_partition_of, unpack
from sluice.kafka.client import LOGGER
from sluice.kafka.kafka_errors import HeaderNameError, UnavailableError
from sluice.kafka.range_reader import headers_of, read
from sluice.model.spec import Stream
from sluice.wire.dead_letter_record import DeadLetter, Reason, word_of
from sluice.wire.received_records import Rejects

#: seconds of attempts to read rejected records again; the transaction of their batch is open meanwhile
READ_AGAIN_S = 10.0


class RejectCollector(Rejects):
    """Collects the rejected records of a batch with their reasons, and packs them for the dead letters."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        super().__init__(batch.num_rows)
        self._batch = batch

    def keep(self, word: Reason) -> None:
        """Drops the reasons that do not begin with this word: their records stay rejected, without a dead letter."""
        self.reasons = {row: why for row, why in self.reasons.items() if word_of(why) == word}

    def packed(self, stream: Stream, ordinals: np.ndarray) -> bytes:
        """The rejected records as a packed row. `ordinals` has the ordinal of each record of the batch."""
        rows = sorted(self.reasons)
        taken = self._batch.take(pa.array(rows, pa.int64()))
        columns = {
            "ordinal": pa.array(ordinals[rows]),
            "reason": pa.array([self.reasons[row] for row in rows], pa.string()),
            "timestamp": pc.cast(pc.cast(taken.column("timestamp"), pa.timestamp("ms", "UTC"), safe=False), pa.int64()),
            "partition": pa.array(topic_partition_of(ordinals[rows]).astype(np.int32)),
            **{name: taken.column(name) for name in ("offset", "key", "value", "headers")},
        }
        return pack(pa.RecordBatch.from_pydict(columns), {"stream": stream.name, "topic": str(stream.topic)})


def dead_letters(packed: Iterable[Body], size: int) -> Iterator[list[DeadLetter]]:
    """The dead letters of these packed rows, in order of their ordinals, in lists of about `size` bytes each."""
    sources = [unpack(body) for body in packed]
    if not sources:
        return
    counts = [batch.num_rows for batch, _ in sources]
    order = np.argsort(np.concatenate([batch.column("ordinal").to_numpy() for batch, _ in sources]), kind="stable")
    owner = np.repeat(np.arange(len(sources)), counts)
    row = np.concatenate([np.arange(count) for count in counts])
    share = np.array([batch.nbytes / max(batch.num_rows, 1) for batch, _ in sources])
    part = np.cumsum(share[owner[order]]) // size
    for rows_of_part in np.split(order, np.flatnonzero(np.diff(part)) + 1):
        yield _letters(sources, owner[rows_of_part], row[rows_of_part])


def _letters(
    sources: Sequence[tuple[pa.RecordBatch, Mapping[str, str]]], owner: np.ndarray, row: np.ndarray
) -> list[DeadLetter]:
    """The dead letters in order: number i is row `row[i]` of source `owner[i]`."""
    by_index: dict[int, DeadLetter] = {}
    for number in np.unique(owner).tolist():
        batch, metadata = sources[number]
        of_source = np.flatnonzero(owner == number)
        taken = batch.take(pa.array(row[of_source])).to_pylist()
        by_index |= {index: _letter(fields, metadata) for index, fields in zip(of_source.tolist(), taken, strict=True)}
    return [by_index[index] for index in range(len(owner))]


def _letter(row: dict[str, Any], metadata: Mapping[str, str]) -> DeadLetter:
    del row["ordinal"]
    headers = [(header["key"], header["value"]) for header in row.pop("headers") or ()]
    original = "refused" not in metadata
    row.setdefault("made", False)
    return DeadLetter(stream=metadata["stream"], topic=metadata["topic"], headers=headers, original=original, **row)


def read_again(kafka: Mapping[str, str], letters: Sequence[DeadLetter]) -> tuple[list[DeadLetter], bool]:
    """The dead letters, in which the original records replace rejected tuples, and whether Kafka could be read.

    Reads these records from Kafka again, for some READ_AGAIN_S without progress. A tuple that an operator made stays a
    tuple in JSON; it gets the key and the timestamp of the record that caused it. A tuple whose record cannot be read,
    or that a timer caused (offset -1), stays as it is.
    """
    refused = {
        (letter.topic, letter.partition, letter.offset)
        for letter in letters
        if not letter.original and letter.offset >= 0
    }
    records: dict[tuple[str, int, int], Message] = {}

    def keep(message: Message) -> None:
        if (origin := (message.topic(), message.partition(), message.offset())) in refused:
            records[origin] = message

    starts: dict[tuple[str, int], int] = {}
    ends: dict[tuple[str, int], int] = {}
    for topic, partition, offset in refused:
        place = topic, partition
        starts[place] = min(offset, starts.get(place, offset))
        ends[place] = max(offset + 1, ends.get(place, 0))
    readable = True
    try:
        read(kafka, starts, ends, keep, retry_s=READ_AGAIN_S)
    except UnavailableError as error:
        readable = False
        LOGGER.warning("dead letters contain tuples in JSON, because their records cannot be read again: %s", error)
    letters = [_as_it_was(letter, records.get((letter.topic, letter.partition, letter.offset))) for letter in letters]
    return letters, readable


def _as_it_was(letter: DeadLetter, record: Message | None) -> DeadLetter:
    if letter.original or record is None:
        return letter
    try:
        headers, timestamp = headers_of(record), record.timestamp()[1]
    except HeaderNameError as error:
        LOGGER.warning("a dead letter contains the tuple in JSON, because its record cannot be read again: %s", error)
        return letter
    if letter.made:
        return replace(letter, key=record.key(), timestamp=timestamp)
    return replace(letter, key=record.key(), value=record.value(), headers=headers, timestamp=timestamp, original=True)
