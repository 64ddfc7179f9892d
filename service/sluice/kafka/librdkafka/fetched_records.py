"""Records of a topic partition that a Kafka client has read, as Arrow columns in the order of their offsets."""

from __future__ import annotations

from collections.abc import Sequence
from operator import methodcaller

import numpy as np
import pyarrow as pa
from confluent_kafka import Message

from sluice.columns.arrow_types import HEADERS
from sluice.kafka.range_reader import headers_of_each

#: Timestamps are milliseconds since 1970.
SCHEMA = pa.schema([
    ("key", pa.binary()), ("value", pa.binary()), ("headers", HEADERS), ("offset", pa.int64()),
    ("timestamp", pa.int64()),
])  # fmt: skip

_key, _value, _offset, _timestamp = map(methodcaller, ("key", "value", "offset", "timestamp"))


def of_messages(messages: Sequence[Message]) -> pa.RecordBatch:
    """The columns of records. Raises HeaderNameError for the name of a header that is not UTF-8."""
    columns = (
        [*map(_key, messages)],
        [*map(_value, messages)],
        headers_of_each(messages),
        [*map(_offset, messages)],
        [milliseconds for _, milliseconds in map(_timestamp, messages)],
    )
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def offsets_of(records: pa.RecordBatch) -> np.ndarray:
    return records.column("offset").to_numpy()  # type: ignore[no-any-return]
