"""Key bytes: the documented byte form of a key, used as the Kafka key, for routing to buckets, and for sorting.

    attributes of the key        key bytes
    one string                   its UTF-8 bytes
    one of another type          its JSON text
    several                      the JSON array of their values, without spaces

Null in a key of several attributes is `null` in the array. As a key of one attribute it is NULL, a byte that no text in
UTF-8 contains. So null is a key that differs from those of all values and follows them in order, and a value has the
same key bytes whether its type is optional or not (NU24).

Routing uses murmur2, the hash by which Kafka's Java client assigns keys to topic partitions (librdkafka's default
differs).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.column_forms import form, type_of
from sluice.columns.interner import Interner
from sluice.columns.kernel import compiled
from sluice.model.types import optional_of

SEED = np.uint32(0x9747B28C)
MULTIPLIER = np.uint32(0x5BD1E995)
POSITIVE = np.int32(0x7FFFFFFF)
#: the key bytes of null where the key is one attribute
NULL = b"\xff"


def key_bytes(columns: Sequence[pa.Array]) -> pa.BinaryArray:
    """The key bytes of each row, also of a null (NU24). There is at least one column."""
    if len(columns) > 1:
        return _joined(columns)
    (column,) = columns
    texts = _texts(column.dictionary).take(column.indices) if pa.types.is_dictionary(column.type) else _texts(column)
    return pc.fill_null(texts, NULL) if texts.null_count else texts


def key_text(key: bytes) -> str:
    """The key bytes as a text, for messages and displays."""
    return "null" if key == NULL else key.decode()


def chosen_of_key(key: bytes, places: Sequence[int], *, text: bool) -> bytes:
    """The key bytes of some attributes of a key that has several attributes.

    `places` are the positions of the chosen attributes in the key, from 0. `text` is true if one attribute is chosen
    and it is a string.
    """
    values = json.loads(key, parse_float=orjson.Fragment)  # a number keeps its digits
    if len(places) > 1:
        return _json([values[place] for place in places])
    (place,) = places
    if values[place] is None:
        return NULL
    return str(values[place]).encode() if text else _json(values[place])


def key_codes(columns: Sequence[pa.Array], table: Interner) -> np.ndarray:
    """Interns the key bytes of each row in `table` and returns their codes."""
    if len(columns) == 1 and pa.types.is_dictionary(columns[0].type) and not columns[0].null_count:
        return table.intern_arrow(pa.DictionaryArray.from_arrays(columns[0].indices, _texts(columns[0].dictionary)))
    return table.intern_arrow(key_bytes(columns))


def partition_codes(values: pa.RecordBatch, places: Sequence[int], table: Interner) -> np.ndarray:
    """Interns the key bytes of each row, of the columns at these places, and returns their codes; without places 0."""
    return key_codes([values.column(i) for i in places], table) if places else np.zeros(values.num_rows, np.int64)


def one_key(keys: Interner) -> np.ndarray:
    """The code of the key of all tuples, for an operator without partition_by, as an array of one."""
    return keys.intern_arrow(pa.array([b""], pa.binary()))


def canonical(keys: pa.BinaryArray) -> np.ndarray:
    """The row numbers of the keys, sorted by their bytes. Partitions that fire together emit in this order."""
    return pc.sort_indices(keys).to_numpy()  # type: ignore[no-any-return]


def _texts(column: pa.Array) -> pa.BinaryArray:
    if pa.types.is_string(column.type):
        return column.view(pa.binary())
    if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        return pc.cast(column, pa.string()).view(pa.binary())
    distinct = pc.dictionary_encode(column)  # without a code for null
    return pa.array([_json(value) for value in _values(distinct.dictionary)], pa.binary()).take(distinct.indices)


def _joined(columns: Sequence[pa.Array]) -> pa.BinaryArray:
    """The key bytes of several columns. Each distinct combination of values is formatted only once."""
    encoded = [pc.dictionary_encode(column) for column in columns]
    combination = np.zeros(len(columns[0]), np.int64)
    for column in encoded:
        count = len(column.dictionary)
        place = pc.fill_null(column.indices, count).to_numpy()
        _, combination = np.unique(combination * (count + 1) + place, return_inverse=True)
    _, rows = np.unique(combination, return_index=True)
    values = [_values(column.dictionary.take(column.indices.take(pa.array(rows)))) for column in encoded]
    return pa.array([_json(list(key)) for key in zip(*values, strict=True)], pa.binary()).take(pa.array(combination))


def _values(column: pa.Array) -> list[object]:
    """Values that JSON can represent: a timestamp as its ISO 8601 text, NaN and the infinities as strings."""
    type_ = type_of(column.type)
    return form(optional_of(type_) if column.null_count else type_).to_key(column)


def _json(value: object) -> bytes:
    return orjson.dumps(value)


def partition_for(keys: pa.BinaryArray, partitions: int) -> np.ndarray:
    """The number of each key's topic partition, from 0 to `partitions - 1`; 0 for a null key."""
    chosen = (murmur2(keys) & POSITIVE) % np.int32(partitions)
    if keys.null_count:
        chosen[keys.is_null().to_numpy(zero_copy_only=False)] = 0
    return chosen


def murmur2(keys: pa.BinaryArray) -> np.ndarray:
    """The 32-bit hash of each key, equal to that of Kafka's Java method `Utils.murmur2`."""
    hashes = np.empty(len(keys), np.int32)
    if len(keys):
        _, starts, data = keys.buffers()
        offsets = np.frombuffer(starts, np.int32)[keys.offset : keys.offset + len(keys) + 1]
        content = np.frombuffer(data or b"", np.uint8)
        content.flags.writeable = offsets.flags.writeable = False  # or numba compiles the kernel for each kind
        _hash_all(content, offsets, hashes.view(np.uint32))
    return hashes


@partial(compiled, nogil=True)
def _hash_all(data: np.ndarray, offsets: np.ndarray, hashes: np.ndarray) -> None:
    for row in range(len(hashes)):
        hashes[row] = _hash(data, offsets[row], offsets[row + 1])


@partial(compiled, nogil=True)
def _hash(data: np.ndarray, start: int, stop: int) -> np.uint32:
    value = SEED ^ np.uint32(stop - start)
    whole = stop - (stop - start) % 4
    for i in range(start, whole, 4):
        value = np.uint32(value * MULTIPLIER) ^ _mixed(_word(data, i))
    if whole < stop:
        for i in range(stop - whole):
            value ^= np.uint32(data[whole + i]) << np.uint32(8 * i)
        value = np.uint32(value * MULTIPLIER)
    value = np.uint32((value ^ (value >> np.uint32(13))) * MULTIPLIER)
    return np.uint32(value ^ (value >> np.uint32(15)))


@partial(compiled, nogil=True)
def _word(data: np.ndarray, i: int) -> np.uint32:
    """Four bytes from index `i` on as a little-endian number."""
    low = np.uint32(data[i]) | np.uint32(data[i + 1]) << np.uint32(8)
    return np.uint32(low | np.uint32(data[i + 2]) << np.uint32(16) | np.uint32(data[i + 3]) << np.uint32(24))


@partial(compiled, nogil=True)
def _mixed(word: np.uint32) -> np.uint32:
    word = np.uint32(word * MULTIPLIER)
    word = word ^ (word >> np.uint32(24))
    return np.uint32(word * MULTIPLIER)
