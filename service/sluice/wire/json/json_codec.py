"""The codec of the format json: a record is one JSON object with one member for each attribute.

A compiled scanner decodes most rows a batch at a time. Rows that it does not accept are decoded one by one.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from sluice.columns.arrow_types import array_of, arrow_schema
from sluice.model.members import NO_MEMBERS, Members, Steps, part_of, path_of, place, spelling_of, text_of
from sluice.model.types import Schema
from sluice.wire.dead_letter_record import Reason, reason
from sluice.wire.decoded_records import Decoded, in_order, record_batch
from sluice.wire.json.json_batch import decode_scannable, scannable
from sluice.wire.json.json_contract import JsonForm, fault_inside
from sluice.wire.json.json_types import json_form
from sluice.wire.json.json_values import NotOfTypeError, as_written, at_path, parsed, shown, text_at

NO_DEFAULTS: Mapping[str, Any] = {}


class Unusable(ValueError):  # noqa: N818
    """A value is not a tuple of the schema. The text of the exception is the reason."""


def decode(
    values: pa.BinaryArray, schema: Schema, defaults: Mapping[str, Any] = NO_DEFAULTS, members: Members = NO_MEMBERS
) -> Decoded:
    """The tuples in these values. `defaults` has the values for attributes that are missing or null.

    Members that no attribute has are ignored. If a name occurs several times, its last value counts.
    """
    if not scannable(schema, members):
        return decode_exactly(values, schema, defaults, members)
    tuples, sure = decode_scannable(values, schema, members, defaults)
    if sure.all():
        return Decoded(tuples, np.arange(len(values)), [])
    doubtful = np.flatnonzero(~sure)
    exact = decode_exactly(values.take(pa.array(doubtful)), schema, defaults, members)
    return in_order(Decoded(tuples, np.flatnonzero(sure), []), exact.at(doubtful))


class Wanted(NamedTuple):
    """An attribute of the schema: its name, the form of its values, its path, and for messages the part of the record
    where the path begins and a text of both.
    """

    name: str
    form: JsonForm
    path: Steps
    part: Steps
    place: str


def decode_exactly(
    values: pa.BinaryArray, schema: Schema, defaults: Mapping[str, Any] = NO_DEFAULTS, members: Members = NO_MEMBERS
) -> Decoded:
    """Decodes each value on its own, through Python objects. `decode` must give the same results as this function."""
    attributes = [
        Wanted(
            name, json_form(type_, spelling_of(name, members)), path_of(name, members), part_of(name, members),
            place(name, members),
        )
        for name, type_ in schema
    ]  # fmt: skip
    digits = any(attribute.form.digits for attribute in attributes)
    good, tuples, bad = [], [], []
    for row, value in enumerate(values.to_pylist()):
        try:
            tuples.append(_tuple(value, attributes, defaults, digits=digits))
            good.append(row)
        except Unusable as unusable:
            bad.append((row, str(unusable)))
    return Decoded(_columns(tuples, schema), np.array(good, np.int64), bad)


class Document(NamedTuple):
    """A record: its parsed text; the same with the texts of its numbers, if values are coerced; and the text."""

    value: Any
    written: Any
    text: str


def _of_any_value(wanted: Wanted) -> bool:
    """Whether the attribute is the whole document, or an element of a document that is a list."""
    return not wanted.path or isinstance(wanted.path[0], int)


def _tuple(value: bytes | None, attributes: list[Wanted], defaults: Mapping[str, Any], *, digits: bool) -> list[Any]:
    parsed_value = document_of(value, digits=digits, whole=any(map(_of_any_value, attributes)))
    text = (value or b"").removeprefix(BOM_UTF8).decode()
    coerces = any(attribute.form.spelling.coerce for attribute in attributes)
    try:
        document = Document(parsed_value, as_written(text) if coerces else None, text)
    except RecursionError as error:
        raise Unusable(reason(Reason.NOT_JSON, str(error))) from None
    return [_attribute(document, attribute, defaults) for attribute in attributes]


def document_of(value: bytes | None, *, digits: bool, whole: bool) -> Any:  # noqa: ANN401 - JSON
    """The document: an object, or any value if an attribute is the `whole` document. With `digits` its numbers with a
    point or an exponent are Decimal, else float.
    """
    text = (value or b"").removeprefix(BOM_UTF8)
    expected = "a JSON value" if whole else "a JSON object"
    if not text:
        raise Unusable(reason(Reason.NO_VALUE, f"expected {expected}, got nothing"))
    try:
        document = parsed(text, digits=digits)
    except (orjson.JSONDecodeError, RecursionError) as error:
        raise Unusable(reason(Reason.NOT_JSON, str(error))) from None
    if type(document) is not dict and not whole:
        raise Unusable(reason(Reason.NOT_AN_OBJECT, f"expected a JSON object, got {shown(document)}"))
    return document


def _attribute(document: Document, wanted: Wanted, defaults: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """The value of the attribute (PA4); null if it is optional and has none (NU2, NU3)."""
    value, steps = at_path(document.value, wanted.path)
    if value is None and wanted.name in defaults:
        return defaults[wanted.name]
    form, expected = wanted.form, f"{wanted.name}: expected {wanted.form.type}{wanted.place}"
    if value is None and form.type.optional:
        return None
    if steps < len(wanted.path):
        raise Unusable(reason(Reason.MISSING, f"{expected}, got {_instead(document.value, wanted, steps)}"))
    if value is None:
        raise Unusable(reason(Reason.NULL, f"{expected}, got null"))
    try:
        return _read(document, wanted, value)
    except NotOfTypeError:
        actual = f"{shown(value)}{form.remark(value)}{fault_inside(form, value, wanted.name)}"
        raise Unusable(reason(Reason.WRONG_TYPE, f"{expected}, got {actual}")) from None


def _read(document: Document, wanted: Wanted, value: Any) -> Any:  # noqa: ANN401
    form = wanted.form
    if form.by_text:
        return form.read_text(text_at(document.text, wanted.path))
    return form.coerced(at_path(document.written, wanted.path)[0]) if form.spelling.coerce else form.read(value)


def _instead(document: Any, wanted: Wanted, steps: int) -> str:  # noqa: ANN401
    """What is at the end of the first steps of a path whose next step is missing."""
    path = wanted.path[:steps]
    value, _ = at_path(document, path)
    if not path or type(value) is dict:
        return "nothing"
    shown_value = f"a list of {len(value)}" if type(value) is list else shown(value)
    return f"{shown_value} at {text_of((*wanted.part, *path))}"


def _columns(tuples: list[list[Any]], schema: Schema) -> pa.RecordBatch:
    columns = list(zip(*tuples, strict=True)) or [()] * len(schema)
    arrays = [array_of(column, type_) for column, (_, type_) in zip(columns, schema, strict=True)]
    return record_batch(arrays, arrow_schema(schema), len(tuples))
