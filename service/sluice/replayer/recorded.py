"""Decodes the Kafka records of a replay as the service does: tuples, marks in headers, and dead letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from sluice.engine.stream.items import FINAL, TUPLE, WATERMARK, WINDOW, Items
from sluice.engine.stream.mark_conditions import standing
from sluice.model.spec import Stream
from sluice.replayer.spread import Recorded, RejectedRecord, Spread
from sluice.wire.dead_letters import Reason, reason
from sluice.wire.header_text import TYPE
from sluice.wire.mark_headers import CLOCK, UNKNOWN, kinds, watermarks
from sluice.wire.record_codec import Records


def decoded(
    stream: Stream, registry: Mapping[str, str], records: Sequence[Recorded], spread: Spread | None
) -> tuple[Items, list[RejectedRecord]]:
    """The items of these records in their order, and the dead letters of those that cannot be used. A tuple that
    carries a mark in a header precedes this mark.

    `registry` has the properties of the schema registry. `spread` chooses topic partitions that the events do not name.
    """
    headers = pa.array([one.headers or None for one in records], TYPE)
    kind, reasons = kinds(headers), dict[int, str]()
    for row in np.flatnonzero(kind == UNKNOWN).tolist():
        reasons[row] = reason(Reason.UNKNOWN_MARK, "its mark header has no known word")
    riding = np.isin(kind, (WINDOW, FINAL)) & np.array([bool(one.value) for one in records], np.bool_)
    watermark = _watermarks(records, kind, reasons)
    wanted = np.flatnonzero((kind == TUPLE) | riding)
    for index in wanted.tolist():
        if records[index].value is None:
            reasons[index] = reason(Reason.NO_VALUE, "its value is null, and it is no mark")
    rows = np.array([row for row in wanted.tolist() if row not in reasons], np.int64)
    values, keys = (pa.array([getattr(records[row], of) for row in rows.tolist()], pa.binary()) for of in PARTS)
    found = Records.of(stream, registry).decode(values, keys, headers.take(pa.array(rows)))
    reasons |= {int(rows[number]): why for number, why in found.bad}
    good = np.zeros(len(records), np.bool_)
    good[rows[found.good]] = True
    behind = np.zeros(len(records), np.bool_)
    behind[good] = standing(stream, found.tuples)[1]
    is_mark = (riding & ~(behind & (kind == WINDOW))) | np.isin(kind, (WINDOW, FINAL, WATERMARK)) & ~riding
    is_mark &= np.array([row not in reasons or bool(riding[row]) for row in range(len(records))], np.bool_)
    at_row, place = np.nonzero(np.stack([good, is_mark], axis=1))
    kinds_of = np.where(place == 0, TUPLE, kind[at_row])
    source = np.array([one.source for one in records], np.int64)
    if spread is not None:
        source = spread.records(source, [one.key for one in records])
    event, at = (np.array([getattr(one, of) for one in records], np.int64) for of in ("number", "at"))
    items = Items(
        event[at_row], at[at_row], kinds_of.astype(np.int8), source[at_row].astype(np.int32),
        np.full(len(at_row), -1, np.int32), pa.array([], pa.binary()), found.tuples,
        np.where(place == 0, 0, watermark[at_row]),
    )  # fmt: skip
    return items, [_rejected(stream, records[row], why) for row, why in sorted(reasons.items()) if kind[row] != CLOCK]


PARTS = ("value", "key")


def _watermarks(records: Sequence[Recorded], kind: np.ndarray, reasons: dict[int, str]) -> np.ndarray:
    """The event time of each watermark mark, 0 for other records. Adds the reasons of those without a valid time."""
    found = np.zeros(len(records), np.int64)
    rows = np.flatnonzero(kind == WATERMARK)
    if len(rows):
        found[rows], sound = watermarks(pa.array([records[row].value for row in rows.tolist()], pa.binary()))
        for row in rows[~sound].tolist():
            what = "its value is neither seconds since 1970 nor a time in ISO 8601"
            reasons[row] = reason(Reason.BAD_WATERMARK, what)
    return found


def _rejected(stream: Stream, record: Recorded, why: str) -> RejectedRecord:
    letter = {"stream": stream.name, "topic": stream.topic, "place": record.place, "reason": why}
    parts = {name: _text(getattr(record, name)) for name in PARTS if getattr(record, name) is not None}
    return RejectedRecord(record.number, record.at, {"dead_letter": letter | parts})


def _text(content: bytes) -> str:
    return content.decode(errors="replace")
