"""The codec of the format json: a record is one JSON object with one member for each attribute.

A compiled scanner decodes most rows a batch at a time. Rows that it does not accept are decoded one by one.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from sluice.columns.arrow_types import array_of, arrow_schema
from sluice.model.json_texts import members_of
from sluice.model.types import Schema
from sluice.wire.dead_letter_record import Reason, reason
from sluice.wire.decoded import Decoded, in_order, record_batch
from sluice.wire.json.json_batch import decode_scannable, scannable
from sluice.wire.json.json_types import JsonForm, json_form
from sluice.wire.json.json_values import NotOfTypeError, parsed, shown

NO_DEFAULTS: Mapping[str, Any] = {}


class Unusable(ValueError):  # noqa: N818
    """A value is not a tuple of the schema. The text of the exception is the reason."""


def decode(values: pa.BinaryArray, schema: Schema, defaults: Mapping[str, Any] = NO_DEFAULTS) -> Decoded:
    """The tuples in these values. `defaults` has the values for attributes that are missing or null.

    Names that are not in the schema are ignored. If a name occurs several times, its last value counts.
    """
    if not scannable(schema):
        return decode_exactly(values, schema, defaults)
    tuples, sure = decode_scannable(values, schema)
    if sure.all():
        return Decoded(tuples, np.arange(len(values)), [])
    doubtful = np.flatnonzero(~sure)
    exact = decode_exactly(values.take(pa.array(doubtful)), schema, defaults)
    return in_order(Decoded(tuples, np.flatnonzero(sure), []), exact.at(doubtful))


def decode_exactly(values: pa.BinaryArray, schema: Schema, defaults: Mapping[str, Any] = NO_DEFAULTS) -> Decoded:
    """Decodes each value on its own, through Python objects. `decode` must give the same results as this function."""
    attributes = [(name, json_form(type_)) for name, type_ in schema]
    digits = any(form.digits for _, form in attributes)
    good, tuples, bad = [], [], []
    for row, value in enumerate(values.to_pylist()):
        try:
            tuples.append(_tuple(value, attributes, defaults, digits=digits))
            good.append(row)
        except Unusable as unusable:
            bad.append((row, str(unusable)))
    return Decoded(_columns(tuples, schema), np.array(good, np.int64), bad)


def _tuple(
    value: bytes | None, attributes: list[tuple[str, JsonForm]], defaults: Mapping[str, Any], *, digits: bool
) -> list[Any]:
    document = _parsed(value, digits=digits)
    texts = members_of(_text(value)) if any(form.keeps_text for _, form in attributes) else {}
    return [
        defaults[name]
        if name in defaults and document.get(name) is None
        else _attribute(document, name, form, texts.get(name))
        for name, form in attributes
    ]


def _text(value: bytes | None) -> str:
    return (value or b"").removeprefix(BOM_UTF8).decode()


def _parsed(value: bytes | None, *, digits: bool) -> dict[str, Any]:
    """The object. With `digits` its numbers with a point or an exponent are Decimal, else float."""
    text = (value or b"").removeprefix(BOM_UTF8)
    if not text:
        raise Unusable(reason(Reason.NO_VALUE, "expected a JSON object, got nothing"))
    try:
        document = parsed(text, digits=digits)
    except (orjson.JSONDecodeError, RecursionError) as error:
        raise Unusable(reason(Reason.NOT_JSON, str(error))) from None
    if type(document) is not dict:
        raise Unusable(reason(Reason.NOT_AN_OBJECT, f"expected a JSON object, got {shown(document)}"))
    return document


def _attribute(document: dict[str, Any], name: str, form: JsonForm, text: str | None) -> Any:  # noqa: ANN401
    value = document.get(name)
    if value is None and not form.type.optional:
        word = Reason.NULL if name in document else Reason.MISSING
        raise Unusable(reason(word, f"{name}: expected {form.type}, got {'null' if name in document else 'nothing'}"))
    try:
        return form.read_text(text) if form.keeps_text and text is not None else form.read(value)
    except NotOfTypeError:
        raise Unusable(
            reason(Reason.WRONG_TYPE, f"{name}: expected {form.type}, got {shown(value)}{form.remark(value)}")
        ) from None


def _columns(tuples: list[list[Any]], schema: Schema) -> pa.RecordBatch:
    columns = list(zip(*tuples, strict=True)) or [()] * len(schema)
    arrays = [array_of(column, type_) for column, (_, type_) in zip(columns, schema, strict=True)]
    return record_batch(arrays, arrow_schema(schema), len(tuples))
