"""Converts the headers of records from the JSON text in which they pass from Spark to Python.

Spark 4.2 is slow with a column of lists: with each row it counts the bytes of all rows of the Arrow batch again, which
took minutes for a batch. With text the same batch takes seconds.
"""

from __future__ import annotations

from base64 import b64decode

import orjson
import pyarrow as pa

from sluice.columns.arrow_types import HEADERS


def as_lists(texts: pa.StringArray) -> pa.ListArray:
    """The headers of each record as a list of structs of `key` and `value`."""
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), HEADERS)
    return pa.array([None if text is None else _headers(text) for text in texts.to_pylist()], HEADERS)


def with_lists(records: pa.RecordBatch) -> pa.RecordBatch:
    """The records with the column `headers` converted from text to lists."""
    place = records.schema.get_field_index("headers")
    return records.set_column(place, "headers", as_lists(records.column(place)))


def _headers(text: str) -> list[tuple[str, bytes | None]]:
    return [(header["key"], b64decode(header["value"]) if "value" in header else None) for header in orjson.loads(text)]
