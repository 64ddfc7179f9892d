"""Tuples that a format cannot write, though `check` accepts their types: what the writers of Avro and Protobuf share.

A mask says which values of a column cannot be written; None: all can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.json_columns import written_values
from sluice.model.types import Schema
from sluice.wire.dead_letter_record import Reason, reason
from sluice.wire.json.json_values import shown

Mask = np.ndarray | None


def either(masks: Iterable[Mask]) -> Mask:
    """The values that one of the masks has."""
    present = [mask for mask in masks if mask is not None]
    return np.logical_or.reduce(present) if present else None


def of_present(column: pa.Array, mask: Callable[[pa.Array], Mask]) -> Mask:
    """The mask of a column with nulls, of which `mask` gets the other values. A null is written."""
    inside = mask(column.drop_null())
    if inside is None:
        return None
    row_mask = np.array(column.is_valid())
    row_mask[row_mask] = inside
    return row_mask


def of_items(mask: Mask, offsets: pa.Array) -> Mask:
    """The lists or maps with an item that the mask has."""
    if mask is None:
        return None
    before = np.concatenate([[0], np.cumsum(mask)])
    return np.asarray(np.diff(before[offsets.to_numpy()]) > 0, np.bool_)


def texts_outside(column: pa.Array, writable: Iterable[str]) -> np.ndarray:
    """The texts that are none of these."""
    texts = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return ~np.array(pc.is_in(texts, pa.array(writable, texts.type)))


def refusals(tuples: pa.RecordBatch, schema: Schema, masks: Mapping[str, tuple[Mask, str]]) -> dict[int, str]:
    """The rows that cannot be written, with their reasons. `masks` has for attributes a mask, and what is expected."""
    refused: dict[int, str] = {}
    for name, (mask, expected) in masks.items():
        rows = np.flatnonzero(mask) if mask is not None else np.zeros(0, np.int64)
        values = written_values(tuples.column(name).take(pa.array(rows)), dict(schema)[name]) if len(rows) else []
        for row, value in zip(rows.tolist(), values, strict=True):
            refused.setdefault(row, reason(Reason.WRONG_TYPE, f"{name}: expected {expected}, got {shown(value)}"))
    return refused
