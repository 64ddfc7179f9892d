"""Decimals that stand in JSON as texts: with all their digits, or as Kafka Connect's bytes (DE18).

The bytes are the unscaled number in two's complement, the high byte first, in base64. The codec reads and writes
strings in place of the decimals; this module converts the columns of the attributes themselves, not those inside of
lists and structs.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.columns import number_columns
from sluice.columns.arrow_types import arrow_schema
from sluice.columns.column_forms import form
from sluice.model.types import STRING, DecimalType, Schema, Type, optional_of
from sluice.wire.dead_letter_record import Reason, reason
from sluice.wire.decoded import Decoded, record_batch
from sluice.wire.json.json_values import shown

BASE64 = "base64"


def encoded(tuples: pa.RecordBatch, spelling: str) -> pa.RecordBatch:
    """The tuples with texts in place of decimals (DE18)."""
    for place, column in enumerate(tuples.columns):
        if pa.types.is_decimal(column.type):
            texts = _base64(column) if spelling == BASE64 else number_columns.texts(column)
            tuples = tuples.set_column(place, tuples.schema.names[place], texts)
    return tuples


def _base64(column: pa.Array) -> pa.StringArray:
    numbers = number_columns.unscaled(column)
    return pa.array(
        [None if n is None else b64encode(number_columns.as_bytes(n)).decode() for n in numbers], pa.string()
    )


def decode(
    values: pa.BinaryArray, schema: Schema, defaults: Mapping[str, Any],
    codec: Callable[[pa.BinaryArray, Schema, Mapping[str, Any]], Decoded],
) -> Decoded:  # fmt: skip
    """Decodes values in which decimals are base64 texts. `codec` decodes them with strings in place of decimals."""
    types = {name: type_ for name, type_ in schema if isinstance(type_.present, DecimalType)}
    texts = tuple((name, _text(type_) if name in types else type_) for name, type_ in schema)
    given = {name: _default(value, types[name]) if name in types else value for name, value in defaults.items()}
    decoded = codec(values, texts, given)
    columns, right, bad = [], np.ones(decoded.tuples.num_rows, np.bool_), list(decoded.bad)
    for (name, type_), column in zip(schema, decoded.tuples.columns, strict=True):
        columns.append(_numbers(column, type_) if name in types else column)
        for row in np.flatnonzero(np.asarray(columns[-1].is_null()) & np.asarray(column.is_valid()) & right):
            got = shown(column[int(row)].as_py())
            bad.append(
                (int(decoded.good[row]), reason(Reason.WRONG_TYPE, f"{name}: expected {type_} in base64, got {got}"))
            )
            right[row] = False
    kept = [column.filter(pa.array(right)) for column in columns]
    tuples = record_batch(kept, arrow_schema(schema), int(np.count_nonzero(right)))
    return Decoded(tuples, decoded.good[right], sorted(bad))


def _text(type_: Type) -> Type:
    return optional_of(STRING) if type_.optional else STRING


def _default(value: Any, type_: Type) -> Any:  # noqa: ANN401 - a value of the model
    return None if value is None else _base64(form(type_).from_values([value]))[0].as_py()


def _numbers(column: pa.StringArray, type_: Type) -> pa.Array:
    """The decimals of base64 texts; null for other texts, and for numbers with more digits than the type."""
    return number_columns.of_unscaled([_number(text) for text in column.to_pylist()], form(type_).arrow)


def _number(text: str | None) -> int | None:
    try:
        content = b64decode(text or "", validate=True)
    except ValueError:
        return None
    return int.from_bytes(content, "big", signed=True) if content else None
