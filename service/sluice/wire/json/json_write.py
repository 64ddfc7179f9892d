"""Encodes tuples as JSON, a batch at a time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import orjson
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.column_forms import type_of
from sluice.columns.forms.form_contract import lists_of
from sluice.model.members import NO_MEMBERS, STRICT, Member, Members, PathTree, Spelling, Steps, path_of, spelling_of
from sluice.wire.json.json_contract import BARE
from sluice.wire.json.json_types import json_form
from sluice.wire.json.json_values import finite_or_word

MARK = BARE.encode()
#: the number of buffers of values that have all the same number of bytes
FIXED = 2


def encode(tuples: pa.RecordBatch, members: Members = NO_MEMBERS, *, omit: bool = False) -> pa.BinaryArray:
    """One JSON object per row, with the attributes in the order of the schema; an object in it has the place of its
    first attribute (PA7 to PA9). With `omit` a member that is null is left out, also inside of structs (NU5).
    """
    if not tuples.num_columns:
        return pa.array([b"{}"] * tuples.num_rows, pa.binary())
    absent = omit and any(column.null_count or _lacks_members(column) for column in tuples.columns)
    if absent or any(map(_in_parts, tuples.schema.types)):
        paths = [path_of(name, members) for name in tuples.schema.names]
        return _record(tuples, PathTree.of(paths), members, omit=omit).cast(pa.binary())
    frame = pl.DataFrame(tuples)
    written = [
        json_form(type_of(field.type), spelling_of(field.name, members)).written(pl.col(field.name))
        for field in tuples.schema
    ]
    if changed := [column for column in written if column is not None]:
        frame = frame.with_columns(changed)
    places = {name: path_of(name, members) for name in frame.columns}
    # for a small batch it takes a quarter of the time that `select` takes
    values = _nested(frame, places).to_struct().struct.json_encode()
    binary = values.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(pa.binary())
    binary = _with_words(binary, frame, _has_word(tuples), places)
    bare = [
        field.name for field in tuples.schema
        if json_form(type_of(field.type), spelling_of(field.name, members)).is_bare
    ]  # fmt: skip
    return _bare(binary, frame, bare, tuples, places) if bare else binary


def _bare(
    values: pa.BinaryArray, frame: pl.DataFrame, bare: list[str], tuples: pa.RecordBatch, paths: Mapping[str, Steps]
) -> pa.BinaryArray:
    """Removes the quotes around bare texts, which have marks beside them; row by row if another text has the mark."""
    if not any(_has_mark(column) for column in tuples.columns):
        return pc.replace_substring(pc.replace_substring(values, b'"' + MARK, b""), MARK + b'"', b"")
    texts = [
        orjson.dumps(
            _document(
                {name: _numbers(value) if name in bare else finite_or_word(value) for name, value in row.items()}, paths
            )
        )
        for row in frame.to_dicts()
    ]
    return pa.array(texts, pa.binary())


def _has_mark(column: pa.Array) -> bool:
    if column.type.num_buffers == FIXED and not pa.types.is_nested(column.type):
        return False
    return any(re.search(re.escape(MARK), memoryview(part)) for part in column.buffers() if part is not None)


def _numbers(value: Any) -> Any:  # noqa: ANN401 - a text, or a list of them
    if isinstance(value, list):
        return list(map(_numbers, value))
    return None if value is None else orjson.Fragment(value.strip(BARE))


def _nested(frame: pl.DataFrame, paths: Mapping[str, Steps]) -> pl.DataFrame:
    """The frame with the objects of the record as columns of structs."""
    if all(path == (name,) for name, path in paths.items()):
        return frame
    return frame.select(_structs(PathTree.of(list(paths.values())), frame.columns))


def _document(row: Mapping[str, Any], paths: Mapping[str, Steps]) -> dict[str, Any]:
    """The object of a record with these values of attributes."""
    document: dict[str, Any] = {}
    for name, value in row.items():
        *way, last = map(str, paths[name])
        inner = document
        for step in way:
            inner = inner.setdefault(step, {})
        inner[last] = value
    return document


def _structs(tree: PathTree, names: Sequence[str]) -> list[pl.Expr]:
    return [
        (pl.struct(_structs(inner, names)) if inner.inner else pl.col(names[inner.attributes[0]])).alias(str(step))
        for step, inner in tree.inner.items()
    ]


def text(column: pa.Array, spelling: Spelling = STRICT, *, omit: bool = False) -> pa.StringArray:
    """The JSON text of each value; null is the text null."""
    texts = _present_text(column, spelling, omit=omit)
    return pc.coalesce(texts, NULL) if column.null_count else texts


# ---- values of which parts are written apart -------------------------------------------------------------------------

NULL, EMPTY, NOTHING = "null", "{}", pa.scalar(None, pa.string())
#: the name of an attribute of which only the value is written
NAME = "v"


@lru_cache(maxsize=1024)
def _in_parts(type_: pa.DataType) -> bool:
    """Whether a value is written part by part: a map, a text of JSON, or a value with such a part inside."""
    if pa.types.is_list(type_):
        return _in_parts(type_.value_type)
    if pa.types.is_struct(type_):
        return any(_in_parts(field.type) or json_form(type_of(field.type)).written(pl.element()) is not None
                   or pa.types.is_list(field.type) for field in type_)  # fmt: skip
    return bool(pa.types.is_map(type_) or pa.types.is_large_string(type_))


def _lacks_members(column: pa.Array) -> bool:
    """Whether a struct in the column may have a member that is null."""
    if pa.types.is_struct(column.type):
        fields = map(column.field, range(column.type.num_fields))
        return any(field.null_count or _lacks_members(field) for field in fields)
    if pa.types.is_map(column.type):
        return _lacks_members(column.items)
    return bool(pa.types.is_list(column.type)) and _lacks_members(column.values)


def _present_text(column: pa.Array, spelling: Spelling, *, omit: bool) -> pa.StringArray:
    if not (_in_parts(column.type) or (omit and _lacks_members(column))):
        documents = encode(pa.RecordBatch.from_arrays([column], names=[NAME]), {NAME: Member(spelling=spelling)})
        return pc.binary_slice(documents, len(NAME) + len('{"":'), -1).cast(pa.string())
    if pa.types.is_large_string(column.type):
        return column.cast(pa.string())
    if pa.types.is_struct(column.type):
        texts = [_member(column.field(name), spelling.of(name), omit=omit) for name in column.type.names]
        return pc.if_else(column.is_valid(), _object(column.type.names, texts), NOTHING)
    if pa.types.is_map(column.type):
        entries = pc.binary_join_element_wise(_names(column.keys), text(column.items, spelling, omit=omit), ":")
        return _enclosed("{", _joined(column, entries), "}")
    return _enclosed("[", _joined(column, text(column.values, spelling, omit=omit)), "]")


def _member(column: pa.Array, spelling: Spelling, *, omit: bool) -> pa.StringArray:
    """The text of a member of an object; null if it is left out."""
    texts = text(column, spelling, omit=omit)
    return pc.if_else(column.is_valid(), texts, NOTHING) if omit and column.null_count else texts


def _record(tuples: pa.RecordBatch, tree: PathTree, members: Members, *, omit: bool) -> pa.StringArray:
    """The text of an object with the attributes of the tree."""
    texts = [_at(node, tuples, members, omit=omit) for node in tree.inner.values()]
    return _object([str(step) for step in tree.inner], texts)


def _at(node: PathTree, tuples: pa.RecordBatch, members: Members, *, omit: bool) -> pa.StringArray:
    """The text of an attribute, or of an object of attributes, which is left out with the last of them."""
    if node.inner:
        objects = _record(tuples, node, members, omit=omit)
        return pc.if_else(pc.equal(objects, EMPTY), NOTHING, objects) if omit else objects
    place = node.attributes[0]
    return _member(tuples.column(place), spelling_of(tuples.schema.names[place], members), omit=omit)


def _object(names: Sequence[str], texts: Sequence[pa.StringArray]) -> pa.StringArray:
    """The object with these members in each row, without members whose text is null."""
    pieces: list[pa.Array | str] = []
    for name, column in zip(names, texts, strict=True):
        opening = f",{orjson.dumps(name).decode()}:"
        pieces += [pc.coalesce(pc.binary_join_element_wise(opening, column, ""), "")] if column.null_count else [
            opening, column
        ]  # fmt: skip
    return _enclosed("{", pc.utf8_ltrim(pc.binary_join_element_wise(*pieces, ""), ","), "}")


def _names(keys: pa.Array) -> pa.StringArray:
    """The keys of a map as names of members, in quotes."""
    texts = text(keys)
    return texts if pa.types.is_string(keys.type) else _enclosed('"', pc.replace_substring(texts, '"', ""), '"')


def _joined(column: pa.ListArray | pa.MapArray, entries: pa.StringArray) -> pa.StringArray:
    """The texts of the entries of each value, with commas between; null for null."""
    return pc.binary_join(lists_of(column, entries), ",")


def _enclosed(opening: str, texts: pa.StringArray, closing: str) -> pa.StringArray:
    return pc.binary_join_element_wise(opening, texts, closing, "")


# ---- numbers that JSON does not have ---------------------------------------------------------------------------------


def _has_word(tuples: pa.RecordBatch) -> np.ndarray:
    """For each row whether it has a NaN or an infinity, which are written as words."""
    with_word = np.zeros(tuples.num_rows, np.bool_)
    for column in tuples.columns:
        _find_words(np.arange(len(column)), column, with_word)
    return with_word


def _find_words(rows: np.ndarray, column: pa.Array, with_word: np.ndarray) -> None:
    """Sets `with_word` for the rows with a NaN or an infinity. `rows` has the row of each value of the column."""
    if pa.types.is_list(column.type):
        _find_words(rows[pc.list_parent_indices(column).to_numpy()], pc.list_flatten(column), with_word)
    elif pa.types.is_struct(column.type):
        for place in range(column.type.num_fields):
            _find_words(rows, column.field(place), with_word)
    elif pa.types.is_floating(column.type):
        with_word[rows[~np.isfinite(column.to_numpy(zero_copy_only=False))]] = True


def _with_words(
    values: pa.BinaryArray, frame: pl.DataFrame, rows: np.ndarray, paths: Mapping[str, Steps]
) -> pa.BinaryArray:
    """Replaces the values of the given rows, with NaN and infinities as words. The rows are encoded one by one."""
    if not rows.any():
        return values
    texts = [
        orjson.dumps(_document({name: finite_or_word(value) for name, value in row.items()}, paths))
        for row in frame.filter(pl.Series(rows)).to_dicts()
    ]
    return pc.replace_with_mask(values, pa.array(rows), pa.array(texts, pa.binary()))
