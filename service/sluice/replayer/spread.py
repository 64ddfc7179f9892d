"""Spreads the events of a replay over topic partitions by their keys, as Kafka's clients do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sluice.model.spec import Stream

#: the topic partition of a tuple or record whose key decides
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
        """The topic partitions of tuples. `source` has those that their events name, else UNKNOWN; `keys` the keys that
        their events name. Without the latter, the key is that of the stream's `key`.
        """
        encoded = None
        if self._stream.key is not None:
            from sluice.wire.record_codec import Records  # noqa: PLC0415 - formats import Avro, which takes 0.2 s

            encoded = Records.of(self._stream, self._registry).encode_keys(tuples)
        made = encoded.to_pylist() if encoded is not None else [None] * len(keys)
        return self.records(source, [given or own for given, own in zip(keys, made, strict=True)])

    def records(self, source: np.ndarray, keys: Sequence[bytes | None]) -> np.ndarray:
        """The topic partitions of records with these keys. `source` has those that their events name, else UNKNOWN."""
        from sluice.columns.key_bytes import partition_for  # noqa: PLC0415 - numba loads or compiles its kernel

        keyed = np.array([key is not None for key in keys], np.bool_)
        chosen = np.zeros(len(keys), np.int64)
        if keyed.any():
            chosen[keyed] = partition_for(pa.array([k for k in keys if k is not None], pa.binary()), self._partitions)
        free = np.flatnonzero(~keyed & (source == UNKNOWN))
        chosen[free] = (self._turn + np.arange(len(free))) % self._partitions
        self._turn += len(free)
        return np.where(source == UNKNOWN, chosen, source)
