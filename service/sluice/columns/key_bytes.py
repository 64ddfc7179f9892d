"""Key bytes: the one documented form in which the values of a key travel, as Kafka key, for routing and for sorting.

One string attribute: its UTF-8 bytes. One attribute of another type: its JSON text. Several: the JSON array, without
spaces.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.interner import Interner


def key_bytes(columns: Sequence[pa.Array]) -> pa.BinaryArray:
    """The key of each row. `columns` is not empty and has no nulls."""
    if len(columns) > 1:
        return _joined(columns)
    (column,) = columns
    if pa.types.is_dictionary(column.type):
        return _texts(column.dictionary).take(column.indices)
    return _texts(column)


def chosen_of_key(key: bytes, places: Sequence[int], *, text: bool) -> bytes:
    """The key of some attributes of a key of several, by their places; `text`: the only one chosen is a string."""
    values = orjson.loads(key)
    if len(places) > 1:
        return _json([values[place] for place in places])
    (place,) = places
    return str(values[place]).encode() if text else _json(values[place])


def key_codes(columns: Sequence[pa.Array], table: Interner) -> np.ndarray:
    """The code in `table` of the key of each row."""
    if len(columns) == 1 and pa.types.is_dictionary(columns[0].type):
        return table.intern_arrow(pa.DictionaryArray.from_arrays(columns[0].indices, _texts(columns[0].dictionary)))
    return table.intern_arrow(key_bytes(columns))


def _texts(column: pa.Array) -> pa.BinaryArray:
    if pa.types.is_string(column.type):
        return column.view(pa.binary())
    if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        return pc.cast(column, pa.string()).view(pa.binary())
    distinct = pc.dictionary_encode(column)
    return pa.array([_json(value) for value in _values(distinct.dictionary)], pa.binary()).take(distinct.indices)


def _joined(columns: Sequence[pa.Array]) -> pa.BinaryArray:
    """Formats each distinct combination once."""
    encoded = [pc.dictionary_encode(column) for column in columns]
    combination = np.zeros(len(columns[0]), np.int64)
    for column in encoded:
        _, combination = np.unique(
            combination * len(column.dictionary) + column.indices.to_numpy(), return_inverse=True
        )
    _, rows = np.unique(combination, return_index=True)
    values = [_values(column.dictionary.take(column.indices.take(pa.array(rows)))) for column in encoded]
    return pa.array([_json(list(key)) for key in zip(*values, strict=True)], pa.binary()).take(pa.array(combination))


def _values(column: pa.Array) -> list[object]:
    """Python values that JSON can show; a timestamp as its ISO text, what is not finite as a word."""
    if pa.types.is_floating(column.type):
        return [_real(value) for value in column.to_pylist()]
    if pa.types.is_timestamp(column.type):
        return [_iso(text) for text in pc.strftime(column, "%Y-%m-%dT%H:%M:%S").to_pylist()]
    return column.to_pylist()  # type: ignore[no-any-return]


def _real(value: float) -> float | str:
    """Equal keys for equal values: there is one zero, and one NaN (unlike A9)."""
    if math.isfinite(value):
        return value + 0.0  # -0.0 + 0.0 is 0.0
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _iso(text: str) -> str:
    """With the shortest fraction, in UTC."""
    return (text.rstrip("0").rstrip(".") if "." in text else text) + "Z"


def _json(value: object) -> bytes:
    return orjson.dumps(value)
