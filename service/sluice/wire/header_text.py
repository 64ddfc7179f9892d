"""Headers on their way from Spark's Kafka source into Python.

They travel as JSON text: for a column of lists Spark 4.2 counts the bytes of an Arrow batch anew with each row, all
rows of the batch each time, which took minutes where it now takes seconds.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence

import orjson
import pyarrow as pa

TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def to_text(headers: Sequence[tuple[str, bytes | None]] | None) -> str | None:
    """The text that Spark's `to_json` makes of the headers of a record, for headers that a client has read.

    Null where there are none; bytes are in base64, and a null value is left out.
    """
    if not headers:
        return None
    parts = [
        {"key": key} if value is None else {"key": key, "value": b64encode(value).decode()} for key, value in headers
    ]
    return orjson.dumps(parts).decode()


def as_lists(texts: pa.StringArray) -> pa.ListArray:
    """The headers again, each with `key` and `value`."""
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), TYPE)
    return pa.array([None if text is None else _headers(text) for text in texts.to_pylist()], TYPE)


def with_lists(records: pa.RecordBatch) -> pa.RecordBatch:
    """The records with their headers as lists."""
    place = records.schema.get_field_index("headers")
    return records.set_column(place, "headers", as_lists(records.column(place)))


def _headers(text: str) -> list[tuple[str, bytes | None]]:
    return [(header["key"], b64decode(header["value"]) if "value" in header else None) for header in orjson.loads(text)]
