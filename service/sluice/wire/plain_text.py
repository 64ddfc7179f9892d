"""Converts between attributes and plain text, for CSV, keys and headers.

The text is that of JSON, but strings and times are without quotes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.arrow_types import array_of
from sluice.columns.column_forms import type_of
from sluice.model.members import STRICT, Member, Spelling
from sluice.model.types import STRING, Type
from sluice.wire.decoded_records import merged
from sluice.wire.json import time_patterns
from sluice.wire.json.json_contract import JsonForm
from sluice.wire.json.json_types import json_form
from sluice.wire.json.json_values import NotOfTypeError, as_written

NAME = "v"
#: a byte order mark, which some programs write before a text; it is no part of the text
BOM = "\ufeff"
# Texts, not scalars of Arrow: the first such scalar imports pandas, which `sluice replay` and `check` do not need.
OPEN, CLOSE = f'{{"{NAME}":', "}"


def utf8(values: pa.BinaryArray) -> tuple[pa.StringArray, np.ndarray]:
    """The values as texts without BOM, null if a value is not UTF-8, and whether each value is UTF-8."""
    try:
        return _without_bom(values.cast(pa.string())), np.ones(len(values), np.bool_)
    except pa.ArrowInvalid:
        texts = pa.array([_text(value) for value in values.to_pylist()], pa.string())
        return _without_bom(texts), texts.is_valid().to_numpy(zero_copy_only=False)


def _without_bom(texts: pa.StringArray) -> pa.StringArray:
    marked = pc.starts_with(texts, BOM)
    return pc.if_else(marked, pc.utf8_slice_codeunits(texts, 1), texts) if pc.any(marked).as_py() else texts


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def read(texts: pa.StringArray, type_: Type, spelling: Spelling = STRICT) -> tuple[pa.Array, np.ndarray]:
    """Parses the texts. Gives the values of the valid texts, and for each text whether it is valid. No text is null; an
    empty one gives null if it is coerced to an optional type (PA10).
    """
    if type_.present == STRING:
        return texts, np.ones(len(texts), np.bool_)
    form = json_form(type_.present, spelling)
    single = json_form(type_, spelling) if type_.optional and spelling.coerce else form
    if not (form.bare or form.quoted):
        return _one_by_one(texts, form, single)
    values, good = _by_pattern(texts, spelling) if spelling.pattern else _together(texts, form)
    if not (spelling.coerce or spelling.pattern) or good.all():
        return values, good
    others = np.flatnonzero(~good)
    more, fits = _one_by_one(texts.take(pa.array(others)), form, single)
    return merged(values, others, more, fits)


def _by_pattern(texts: pa.StringArray, spelling: Spelling) -> tuple[pa.Array, np.ndarray]:
    """As `read`, for times that are read together."""
    times = time_patterns.column(texts, spelling.pattern, spelling.zone)
    return times.drop_null(), times.is_valid().to_numpy(zero_copy_only=False).copy()


def _together(texts: pa.StringArray, form: JsonForm) -> tuple[pa.Array, np.ndarray]:
    """As `read`, by the decoder of JSON."""
    bare, quoted = _matches(texts, form.bare), _matches(texts, form.quoted)
    bare &= ~quoted
    possible = bare | quoted
    kept = texts.filter(pa.array(possible))
    quote = pa.array(["", '"']).take(pa.array(quoted[possible].astype(np.int8)))
    documents = pc.binary_join_element_wise(OPEN, quote, kept, quote, CLOSE, "").cast(pa.binary())
    from sluice.wire.json import json_codec  # noqa: PLC0415 - it imports compiled kernels

    members = {NAME: Member(spelling=replace(form.spelling, coerce=False))}
    decoded = json_codec.decode(documents, ((NAME, form.type),), members=members)
    good = np.zeros(len(texts), np.bool_)
    good[np.flatnonzero(possible)[decoded.good]] = True
    return decoded.tuples.column(0), good


def _matches(texts: pa.StringArray, pattern: str) -> np.ndarray:
    if not pattern:
        return np.zeros(len(texts), np.bool_)
    return pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _one_by_one(texts: pa.StringArray, form: JsonForm, single: JsonForm) -> tuple[pa.Array, np.ndarray]:
    """As `read`. `single` is the form of a text: `form`, or its optional one."""
    values, good = [], np.zeros(len(texts), np.bool_)
    for row, text in enumerate(texts.to_pylist()):
        try:
            values.append(_value(text, form) if text else single.from_text(text))
            good[row] = True
        except (orjson.JSONDecodeError, NotOfTypeError):
            continue
    return array_of(values, single.type), good


def _value(text: str, form: JsonForm) -> Any:  # noqa: ANN401
    """The value of a text: of one that is no scalar, such as a list, the text is JSON."""
    if form.bare or form.quoted:
        return form.from_text(text)
    document = orjson.loads(text)
    if form.by_text:
        return form.read_text(text.strip())
    return form.coerced(as_written(text)) if form.spelling.coerce else form.read(document)


def written(column: pa.Array, spelling: Spelling = STRICT) -> pa.StringArray:
    """The text of each value, from which `read` gives the same value; null stays null."""
    if column.null_count:
        is_valid = column.is_valid()
        texts = written(column.filter(is_valid), spelling)
        places = np.cumsum(is_valid.to_numpy(zero_copy_only=False)) - 1
        return texts.take(pa.array(places, mask=~is_valid.to_numpy(zero_copy_only=False)))
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_string(column.type):
        return column
    from sluice.wire.json.json_write import text  # noqa: PLC0415 - it imports compiled kernels

    texts = text(column, spelling)
    type_ = type_of(column.type)
    return texts if type_.parts or json_form(type_).by_text else pc.replace_substring(texts, '"', "")
