"""The parts of change events: what each record says about its row, and the bytes of the row.

    {"before": {...}, "after": {...}, "source": {"ts_ms": 1}, "op": "u", "ts_ms": 2}
                      row             source                 operation

A format has a function that finds these parts (`Opener`). The ordinary codec of the format then decodes the row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sluice.model.envelopes.change_events import EXISTS, Operation
from sluice.wire.dead_letter_record import Reason, reason

#: the operation of a record that is no change event
BAD = -1
FLAT = "it has no member op; rows without an envelope, as Debezium's ExtractNewRecordState writes, are upserts"
NO_ROW_AFTER = reason(Reason.NOT_A_CHANGE, "after: expected the row after the change, got null or nothing")


@dataclass(frozen=True, slots=True)
class EventParts:
    """The parts of some records, one entry for each record.

    operation   an `Operation`, or BAD
    row         the row after the change, of a DELETE before it; null if the record has none
    event       the event without the block of its schema; null if the record is none
    source      where the change comes from; null if the event does not say it
    bad         the rejected records and why
    """

    operation: np.ndarray
    row: pa.BinaryArray
    event: pa.BinaryArray
    source: pa.BinaryArray
    bad: Mapping[int, str]

    def only(self, kept: np.ndarray) -> EventParts:
        """The parts of the records where `kept` is true, of which none is rejected."""
        row, event, source = (part.filter(pa.array(kept)) for part in (self.row, self.event, self.source))
        return EventParts(self.operation[kept], row, event, source, {})

    def with_rows(self, rows: np.ndarray, by: EventParts) -> EventParts:
        """The parts; in these rows the parts of `by`. The rows are in order."""
        operation = self.operation.copy()
        operation[rows] = by.operation
        taken = np.arange(len(operation))
        taken[rows] = len(operation) + np.arange(len(rows))
        row, event, source = (
            pa.concat_arrays([mine, theirs]).take(pa.array(taken))
            for mine, theirs in ((self.row, by.row), (self.event, by.event), (self.source, by.source))
        )
        return EventParts(operation, row, event, source, {**self.bad, **{int(rows[n]): w for n, w in by.bad.items()}})


#: finds the parts of values, of which some may be null
Opener = Callable[[pa.BinaryArray], EventParts]


def upserts(values: pa.BinaryArray) -> EventParts:
    """The parts of records whose value is the row of their key (EN7). A record without a value deletes the row."""
    is_valid = values.is_valid().to_numpy(zero_copy_only=False)
    operation = np.where(is_valid, Operation.UPDATE, Operation.DELETE).astype(np.int8)
    nothing = pa.nulls(len(values), pa.binary())
    return EventParts(operation, values, nothing, nothing, {})


def checked(operation: np.ndarray, has_row: np.ndarray, bad: dict[int, str]) -> np.ndarray:
    """The operations, BAD for a row that is created, read or updated and is not in the record, which is added to `bad`
    (EN3).
    """
    lacking = np.isin(operation, [int(kind) for kind in EXISTS]) & ~has_row
    for row in np.flatnonzero(lacking).tolist():
        bad[row] = NO_ROW_AFTER
    operation[lacking] = BAD
    return operation


def unwritten(tuples: pa.RecordBatch) -> pa.BinaryArray:
    """The encoder of codecs of change events, which are only read: `check` refuses an envelope of an output."""
    raise NotImplementedError
