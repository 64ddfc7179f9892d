"""Scalar functions of structs and of JSON texts, and the values with an inside that an expression writes out."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as BinasciiError
from binascii import unhexlify

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine.stream.functions.column_arguments import STRING, Column, by_name, by_row, is_scalar
from sluice.engine.stream.functions.list_functions import over_rows
from sluice.json_texts import SPACE, is_json, items_of, members_of

JSON, BYTES = pa.large_string(), pa.binary()


def member(value: Column, name: pa.Scalar) -> Column:
    """Null where the struct is null."""
    if is_scalar(value):
        return member(pa.repeat(value, 1), name)[0]
    return pc.struct_field(value, name.as_py())


def same(value: Column) -> Column:
    """The value itself: a further `?` in its type does not change it."""
    return value


def struct(*parts: Column) -> Column:
    """The struct of names, each followed by its value."""
    names, values = [name.as_py() for name in parts[::2]], parts[1::2]
    return over_rows(lambda *columns: pa.StructArray.from_arrays(columns, names))(*values)


@over_rows
def list_value(*columns: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(_equal_parts(columns), _by_rows(columns))


@over_rows
def map_value(*columns: pa.Array) -> pa.Array:
    """The map of texts, each followed by its value. Of two values of one text the last counts."""
    names = [column[0].as_py() for column in columns[::2]] if len(columns[0]) else []
    order = sorted({name: place for place, name in enumerate(names)}.items()) or [("", 0)]
    keys, values = ([columns[2 * place + part] for _, place in order] for part in (0, 1))
    return pa.MapArray.from_arrays(_equal_parts(keys), _by_rows(keys), _by_rows(values))


def _equal_parts(columns: list[pa.Array] | tuple[pa.Array, ...]) -> pa.Array:
    return pa.array(np.arange(len(columns[0]) + 1, dtype=np.int32) * len(columns))


def _by_rows(columns: list[pa.Array] | tuple[pa.Array, ...]) -> pa.Array:
    """The values of the first row, of the second, and so on."""
    rows = len(columns[0])
    return pa.concat_arrays(columns).take(
        pa.array(np.arange(rows * len(columns)).reshape(len(columns), rows).T.ravel())
    )


# ---- texts of JSON, and bytes ----------------------------------------------------------------------------------------


def json_text(value: Column, path: pa.Scalar) -> Column:
    return by_row(text_at, STRING, value, path)


def text_at(text: str, path: str) -> str | None:
    """The text of the member with this path; None if there is none, and for null (ST12)."""
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    text = text.strip(SPACE)
    for step in path.split("."):
        inner = _step(text, step)
        if inner is None:
            return None
        text = inner
    return str(orjson.loads(text)) if text.startswith('"') else None if text == "null" else text


def _step(text: str, step: str) -> str | None:
    if text.startswith("{"):
        return members_of(text).get(step)
    if not (text.startswith("[") and step.isdecimal()):
        return None
    return dict(enumerate(items_of(text))).get(int(step))


def to_json(text: Column) -> Column:
    return by_row(lambda text: text.strip(SPACE) if is_json(text) else None, JSON, text)


def to_bytes(text: Column) -> Column:
    return by_row(_decoded, BYTES, text)


def from_hex(text: Column) -> Column:
    return by_row(_from_hex, BYTES, text)


def _decoded(text: str) -> bytes | None:
    try:
        return b64decode(text, validate=True)
    except (BinasciiError, ValueError):
        return None


def _from_hex(text: str) -> bytes | None:
    try:
        return unhexlify(text)
    except (BinasciiError, ValueError):
        return None


def split_to_map(text: Column, between: Column, inside: Column) -> Column:
    """The map of the entries that a text lists. The keys are in order, as in every map."""
    first, second = between.as_py(), inside.as_py()

    def entries(joined_text: str) -> list[tuple[str, str]]:
        parts = (part.partition(second) for part in joined_text.split(first))
        return sorted({key: value for key, sign, value in parts if sign}.items())

    return by_row(entries, pa.map_(STRING, STRING), text)


KERNELS = by_name(member, struct, json_text, to_json, to_bytes, from_hex, split_to_map) | {
    "list_value": list_value,
    "map_value": map_value,
}
