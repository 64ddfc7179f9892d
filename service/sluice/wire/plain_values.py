"""The codecs of the formats text and raw: a value is one attribute. For raw the attribute is the bytes in base64."""

from __future__ import annotations

from base64 import b64encode

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.arrow_types import arrow_schema
from sluice.model.members import STRICT, Spelling
from sluice.model.types import Schema
from sluice.wire.dead_letter_record import Reason, reason
from sluice.wire.decoded_records import Decoded, record_batch
from sluice.wire.json.json_values import shown
from sluice.wire.plain_text import BOM, read, utf8, written


def decode_text(values: pa.BinaryArray, schema: Schema, spelling: Spelling = STRICT, where: str = "") -> Decoded:
    """The tuples of one attribute. `where` says in reasons where the attribute is."""
    ((name, type_),) = schema
    texts, good = utf8(values)
    bad = [(int(row), reason(Reason.NOT_TEXT, "its bytes are not UTF-8")) for row in np.flatnonzero(~good)]
    rows, texts = np.flatnonzero(good), texts.filter(pa.array(good))
    column, fits = read(texts, type_, spelling)
    for row in np.flatnonzero(~fits):
        shown_text = shown(texts[int(row)].as_py())
        bad.append((int(rows[row]), reason(Reason.WRONG_TYPE, f"{name}: expected {type_}{where}, got {shown_text}")))
    return Decoded(record_batch([column], arrow_schema(schema), len(column)), rows[fits], sorted(bad))


def encode_text(tuples: pa.RecordBatch, spelling: Spelling = STRICT) -> pa.BinaryArray:
    """A text that begins with BOM gets a second one: readers drop the first. A null is no bytes (NU6)."""
    texts = written(tuples.column(0), spelling)
    marked = pc.replace_substring_regex(texts, pattern=f"^{BOM}", replacement=BOM * 2)
    return marked.cast(pa.binary())


def decode_raw(values: pa.BinaryArray, schema: Schema) -> Decoded:
    column = pa.array([b64encode(value).decode() for value in values.to_pylist()], pa.string())
    return Decoded(record_batch([column], arrow_schema(schema), len(column)), np.arange(len(column)), [])


def encode_raw(tuples: pa.RecordBatch) -> pa.BinaryArray:
    raise TypeError(f"the format raw is for reading, not for {tuples.schema.names}")  # `check` refuses it
