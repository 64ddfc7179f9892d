"""The Kafka records in the events of a replay: their topic partitions, their tuples and marks, their dead letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sluice.columns.arrow_types import HEADERS
from sluice.engine.stream.items import CLEAR, FINAL, TUPLE, WATERMARK, WINDOW, Items
from sluice.engine.stream.mark_conditions import standing
from sluice.model.spec import Stream

#: stands for the topic partition of a tuple or record whose key decides
UNKNOWN = -1


class Recorded(NamedTuple):
    """A Kafka record in an event: its location in the file for messages, the number and the time of the event, its
    content.

    time   the timestamp of the record, which may be earlier than the clock; nanoseconds since 1970
    """

    location: str
    number: int
    at: int
    source: int
    value: bytes | None
    key: bytes | None
    headers: list[tuple[str, bytes | None]]
    time: int


class RejectedRecord(NamedTuple):
    """A record that could not be decoded: the number and the time of its event, and the dead letter as printed."""

    number: int
    at: int
    letter: dict[str, Any]


class Spread:
    """Chooses the topic partition of each tuple or record of a stream.

    A key goes to the topic partition that Kafka's Java client and Sluice choose for it (murmur2). Tuples without a key
    go to the topic partitions in turn.
    """

    def __init__(self, stream: Stream, registry: Mapping[str, str], partitions: int) -> None:
        self._stream, self._registry, self._partitions = stream, registry, partitions
        self._turn = 0

    def tuples(self, source: np.ndarray, tuples: pa.RecordBatch, keys: Sequence[bytes | None]) -> np.ndarray:
        """The topic partitions of tuples.

        source   the topic partition that the event of each tuple names, else UNKNOWN
        keys     the key that the event names; None: the key is computed by the stream's `key`
        """
        encoded = None
        if self._stream.key is not None:
            from sluice.wire.record_codec import Records  # noqa: PLC0415 - formats import Avro, which takes 0.2 s

            encoded = Records.of(self._stream, self._registry).encode_keys(tuples)
        from_tuples = encoded.to_pylist() if encoded is not None else [None] * len(keys)
        return self.records(source, [key or from_tuple for key, from_tuple in zip(keys, from_tuples, strict=True)])

    def records(self, source: np.ndarray, keys: Sequence[bytes | None]) -> np.ndarray:
        """The topic partitions of records with these keys. `source` has the one that an event names, or UNKNOWN."""
        from sluice.columns.key_bytes import partition_for  # noqa: PLC0415 - numba loads or compiles its kernel

        keyed = np.array([key is not None for key in keys], np.bool_)
        chosen = np.zeros(len(keys), np.int64)
        if keyed.any():
            chosen[keyed] = partition_for(pa.array([k for k in keys if k is not None], pa.binary()), self._partitions)
        free = np.flatnonzero(~keyed & (source == UNKNOWN))
        chosen[free] = (self._turn + np.arange(len(free))) % self._partitions
        self._turn += len(free)
        return np.where(source == UNKNOWN, chosen, source)


#: the parts of a record that a dead letter shows
PARTS = ("value", "key")


def decoded(
    stream: Stream, registry: Mapping[str, str], records: Sequence[Recorded], spread: Spread | None
) -> tuple[Items, list[RejectedRecord]]:
    """The items of these records in their order, and the dead letters of the unusable records.

    A tuple that carries a mark in a header precedes this mark.

    `registry` has the properties of the schema registry. `spread` chooses topic partitions that the events do not name.
    """
    from sluice.wire.received_records import Rejects, received  # noqa: PLC0415 - formats import Avro, which takes 0.2 s
    from sluice.wire.record_codec import Records  # noqa: PLC0415

    rejects = Rejects(len(records))
    columns = [pa.array([getattr(record, name) for record in records], pa.binary()) for name in PARTS]
    columns.append(pa.array([record.headers or None for record in records], HEADERS))
    batch = pa.RecordBatch.from_arrays(columns, names=[*PARTS, "headers"])
    times = np.array([record.time for record in records], np.int64)
    kind, watermark, carries_mark, tuples, _ = received(Records.of(stream, registry), batch, times, rejects)
    is_tuple = ((kind == TUPLE) | carries_mark) & rejects.accepted
    behind = np.zeros(len(records), np.bool_)
    behind[is_tuple] = standing(stream, tuples)[1]
    is_mark = np.isin(kind, (WINDOW, FINAL, WATERMARK, CLEAR)) & (rejects.accepted | carries_mark)
    is_mark &= ~(carries_mark & behind & (kind == WINDOW))
    at_row, location = np.nonzero(np.stack([is_tuple, is_mark], axis=1))
    kinds_of = np.where(location == 0, TUPLE, kind[at_row])
    source = np.array([record.source for record in records], np.int64)
    if spread is not None:
        source = spread.records(source, [record.key for record in records])
    event, at = (np.array([getattr(record, field) for record in records], np.int64) for field in ("number", "at"))
    items = Items(
        event[at_row], at[at_row], kinds_of.astype(np.int8), source[at_row].astype(np.int32),
        np.full(len(at_row), -1, np.int32), pa.array([], pa.binary()), tuples,
        np.where(location == 0, 0, watermark[at_row]),
    )  # fmt: skip
    return items, [_rejected(stream, records[row], why) for row, why in sorted(rejects.reasons.items())]


def _rejected(stream: Stream, record: Recorded, why: str) -> RejectedRecord:
    letter = {"stream": stream.name, "topic": stream.topic, "location": record.location, "reason": why}
    parts = {name: _text(getattr(record, name)) for name in PARTS if getattr(record, name) is not None}
    return RejectedRecord(record.number, record.at, {"dead_letter": letter | parts})


def _text(content: bytes) -> str:
    return content.decode(errors="replace")
