"""Decodes the Kafka records of a replay as the service does: tuples, marks in headers, and dead letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from sluice.columns.arrow_types import HEADERS
from sluice.engine.stream.items import FINAL, TUPLE, WATERMARK, WINDOW, Items
from sluice.engine.stream.mark_conditions import standing
from sluice.model.spec import Stream
from sluice.replayer.spread import Recorded, RejectedRecord, Spread
from sluice.wire.received_records import Rejects, received
from sluice.wire.record_codec import Records

#: the parts of a record that a dead letter shows
PARTS = ("value", "key")


def decoded(
    stream: Stream, registry: Mapping[str, str], records: Sequence[Recorded], spread: Spread | None
) -> tuple[Items, list[RejectedRecord]]:
    """The items of these records in their order, and the dead letters of those that cannot be used. A tuple that
    carries a mark in a header precedes this mark.

    `registry` has the properties of the schema registry. `spread` chooses topic partitions that the events do not name.
    """
    rejects = Rejects(len(records))
    columns = [pa.array([getattr(one, name) for one in records], pa.binary()) for name in PARTS]
    columns.append(pa.array([one.headers or None for one in records], HEADERS))
    batch = pa.RecordBatch.from_arrays(columns, names=[*PARTS, "headers"])
    times = np.array([one.time for one in records], np.int64)
    kind, watermark, carries_mark, tuples = received(Records.of(stream, registry), batch, times, rejects)
    is_tuple = ((kind == TUPLE) | carries_mark) & rejects.accepted
    behind = np.zeros(len(records), np.bool_)
    behind[is_tuple] = standing(stream, tuples)[1]
    is_mark = np.isin(kind, (WINDOW, FINAL, WATERMARK)) & (rejects.accepted | carries_mark)
    is_mark &= ~(carries_mark & behind & (kind == WINDOW))
    at_row, location = np.nonzero(np.stack([is_tuple, is_mark], axis=1))
    kinds_of = np.where(location == 0, TUPLE, kind[at_row])
    source = np.array([one.source for one in records], np.int64)
    if spread is not None:
        source = spread.records(source, [one.key for one in records])
    event, at = (np.array([getattr(one, of) for one in records], np.int64) for of in ("number", "at"))
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
