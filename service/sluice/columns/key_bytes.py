"""Key bytes: the documented byte form of a key, used as the Kafka key, for routing to buckets, and for sorting.

attributes of the key        key bytes
one string                   its UTF-8 bytes
one of another type          its JSON text
several                      the JSON array of their values, without spaces
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.column_forms import form, type_of
from sluice.columns.interner import Interner


def key_bytes(columns: Sequence[pa.Array]) -> pa.BinaryArray:
    """The key bytes of each row. There is at least one column, and no column has nulls."""
    if len(columns) > 1:
        return _joined(columns)
    (column,) = columns
    if pa.types.is_dictionary(column.type):
        return _texts(column.dictionary).take(column.indices)
    return _texts(column)


def chosen_of_key(key: bytes, places: Sequence[int], *, text: bool) -> bytes:
    """The key bytes of some attributes of a key that has several attributes.

    `places` are the positions of the chosen attributes in the key, from 0. `text` is true if one attribute is chosen
    and it is a string.
    """
    values = orjson.loads(key)
    if len(places) > 1:
        return _json([values[place] for place in places])
    (place,) = places
    return str(values[place]).encode() if text else _json(values[place])


def key_codes(columns: Sequence[pa.Array], table: Interner) -> np.ndarray:
    """Interns the key bytes of each row in `table` and returns their codes."""
    if len(columns) == 1 and pa.types.is_dictionary(columns[0].type):
        return table.intern_arrow(pa.DictionaryArray.from_arrays(columns[0].indices, _texts(columns[0].dictionary)))
    return table.intern_arrow(key_bytes(columns))


def canonical(keys: pa.BinaryArray) -> np.ndarray:
    """The row numbers of the keys, sorted by their bytes. Partitions that fire together emit in this order."""
    return pc.sort_indices(keys).to_numpy()  # type: ignore[no-any-return]


def _texts(column: pa.Array) -> pa.BinaryArray:
    if pa.types.is_string(column.type):
        return column.view(pa.binary())
    if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        return pc.cast(column, pa.string()).view(pa.binary())
    distinct = pc.dictionary_encode(column)
    return pa.array([_json(value) for value in _values(distinct.dictionary)], pa.binary()).take(distinct.indices)


def _joined(columns: Sequence[pa.Array]) -> pa.BinaryArray:
    """The key bytes of several columns. Each distinct combination of values is formatted only once."""
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
    """Values that JSON can represent: a timestamp as its ISO 8601 text, NaN and the infinities as strings."""
    return form(type_of(column.type)).to_key(column)


def _json(value: object) -> bytes:
    return orjson.dumps(value)
