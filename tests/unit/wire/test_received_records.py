"""Which received records are tuples and marks, and why the others cannot be used."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa

from sluice.columns.arrow_types import HEADERS
from sluice.engine.stream.items import FINAL, TUPLE, WATERMARK, WINDOW
from sluice.model.spec import DELETES, Coding, Key, Stream
from sluice.model.types import INT64, STRING, TIMESTAMP, list_of
from sluice.wire.mark_headers import CLOCK, UNKNOWN
from sluice.wire.received_records import Received, Rejects, received
from sluice.wire.record_codec import Records

STREAM = Stream("in", (("x", INT64),), topic="in")


def decoded(
    *records: tuple[bytes | None, str | None], rejects: Rejects | None = None, stream: Stream = STREAM,
    times: list[int] | None = None,
) -> tuple[Received, Rejects]:  # fmt: skip
    """Of records with these values and mark headers, and with timestamps in nanoseconds."""
    headers = [None if word is None else [("sluice-mark", word.encode())] for _, word in records]
    values = [value for value, _ in records]
    columns = [pa.array(values, pa.binary()), pa.nulls(len(records), pa.binary()), pa.array(headers, HEADERS)]
    rejects = rejects or Rejects(len(records))
    batch = pa.RecordBatch.from_arrays(columns, names=["value", "key", "headers"])
    stamps = np.array(times or [0] * len(records), np.int64)
    return received(Records.of(stream, {}), batch, stamps, rejects), rejects


def test_tuples_marks_and_marks_on_tuples():
    found, rejects = decoded(
        (b'{"x": 1}', None), (b"", "window"), (b'{"x": 2}', "window"), (b"2.5", "watermark"), (None, "clock"),
        (b'{"x": 3}', "final"),
    )  # fmt: skip
    assert found.kind.tolist() == [TUPLE, WINDOW, WINDOW, WATERMARK, CLOCK, FINAL]
    assert found.carries_mark.tolist() == [False, False, True, False, False, True]
    assert found.watermark.tolist() == [0, 0, 0, 2_500_000_000, 0, 0]
    assert found.tuples.column("x").to_pylist() == [1, 2, 3]
    assert not rejects


def test_each_record_that_cannot_be_used_has_a_reason():
    found, rejects = decoded(
        (None, None), (b"", "windw"), (b"soon", "watermark"), (b"[]", "window"), (b'{"x": 4}', None)
    )
    assert found.kind.tolist() == [TUPLE, UNKNOWN, WATERMARK, WINDOW, TUPLE]
    assert found.tuples.column("x").to_pylist() == [4]
    assert rejects.accepted.tolist() == [False, False, False, False, True]
    assert found.carries_mark[3], "the mark on a tuple that cannot be used stays a mark"
    reasons = [rejects.reasons[row].partition(":")[0] for row in range(4)]
    assert reasons == ["no value", "unknown mark", "bad watermark", "not an object"]


def test_rows_that_are_rejected_already_are_not_decoded():
    rejects = Rejects(2)
    rejects.reject([0], "too far ahead")
    found, _ = decoded((b"?", None), (b'{"x": 1}', None), rejects=rejects)
    assert found.tuples.column("x").to_pylist() == [1]
    assert rejects.reasons == {0: "too far ahead"}
    assert np.flatnonzero(rejects.accepted).tolist() == [1]


SENT = Stream("in", (("sent", TIMESTAMP), ("x", INT64)), topic="in", record_timestamp="sent")
#: milliseconds of which a float64 has no exact number of nanoseconds
MILLISECOND, EXACT = 1_000_000, 1_711_965_600_123_000_000


def sent(found: Received) -> list[int]:
    """The timestamps in the tuples, nanoseconds since 1970."""
    times: list[int] = found.tuples.column("sent").view(pa.int64()).to_pylist()
    return times


def test_the_timestamp_of_a_record_is_an_attribute():
    found, rejects = decoded(
        (b'{"x": 1}', None), (b"", "window"), (b'{"x": 2}', "window"), (b'{"x": 3, "sent": "2000-01-01"}', None),
        stream=SENT, times=[EXACT, 7, EXACT - MILLISECOND, 0],
    )  # fmt: skip
    assert sent(found) == [EXACT, EXACT - MILLISECOND, 0], "a field of the value with its name has no effect"
    assert found.tuples.column("x").to_pylist() == [1, 2, 3]
    assert not rejects


def test_a_record_that_kafka_has_no_timestamp_for_is_a_dead_letter():
    records = ((b'{"x": 1}', None), (b'{"x": 2}', None), (b'{"x": "?"}', None))
    found, rejects = decoded(*records, stream=SENT, times=[-MILLISECOND, 5, -MILLISECOND])
    assert sent(found) == [5]
    assert rejects.reasons == {
        0: "missing attribute: sent: expected a record with a timestamp, got none",
        2: 'wrong type: x: expected int64, got "?"',
    }


def test_the_timestamp_may_be_the_only_attribute():
    alone = Stream("in", (("sent", TIMESTAMP),), topic="in", record_timestamp="sent")
    found, rejects = decoded((b"{}", None), (b'{"x": 1}', None), (b"[", None), stream=alone, times=[1, 2, 3])
    assert sent(found) == [1, 2]
    assert [*rejects.reasons] == [2]


TABLE = Stream(
    "customers", (("name", STRING), ("customer", INT64), ("since", TIMESTAMP), ("tags", list_of(STRING))),
    topic="customers", key=Key(("customer",), Coding("json")), table=True,
)  # fmt: skip


def rows(
    *records: tuple[bytes | None, bytes | None, str | None], stream: Stream = TABLE, times: list[int] | None = None
) -> tuple[Received, Rejects]:
    """Of records of the table with these keys, values and mark headers, and with timestamps in nanoseconds."""
    headers = [None if word is None else [("sluice-mark", word.encode())] for *_, word in records]
    keys, values = ([record[part] for record in records] for part in (0, 1))
    columns = [pa.array(values, pa.binary()), pa.array(keys, pa.binary()), pa.array(headers, HEADERS)]
    rejects = Rejects(len(records))
    batch = pa.RecordBatch.from_arrays(columns, names=["value", "key", "headers"])
    stamps = np.array(times or [0] * len(records), np.int64)
    return received(Records.of(stream, {}), batch, stamps, rejects), rejects


VALUE = b'{"name": "Ada", "since": "1970-01-01T00:00:01Z", "tags": ["a"]}'
ROW = {"name": "Ada", "customer": 7, "since": pd.Timestamp(1, unit="s", tz="UTC"), "tags": ["a"], DELETES: False}
DELETED = {"name": "", "customer": 7, "since": pd.Timestamp(0, tz="UTC"), "tags": [], DELETES: True}
SEVEN, EIGHT = b'{"customer": 7}', b'{"customer": 8}'


def test_a_record_of_a_table_without_a_value_deletes_a_row():
    found, rejects = rows((SEVEN, VALUE, None), (SEVEN, None, None), (SEVEN, None, "window"), (EIGHT, VALUE, None))
    assert found.tuples.to_pylist() == [ROW, DELETED, ROW | {"customer": 8}]
    assert found.kind.tolist() == [TUPLE, TUPLE, WINDOW, TUPLE]
    assert not rejects


def test_records_of_a_table_may_all_be_deletions_or_all_have_values():
    assert rows((SEVEN, None, None))[0].tuples.to_pylist() == [DELETED]
    assert rows((SEVEN, VALUE, None))[0].tuples.to_pylist() == [ROW]


def test_a_record_of_a_table_whose_key_cannot_be_decoded_is_a_dead_letter():
    found, rejects = rows((b"seven", None, None), (None, None, None), (SEVEN, b"", None), (SEVEN, None, None))
    assert found.tuples.to_pylist() == [DELETED]
    assert {row: why.partition(":")[0] for row, why in rejects.reasons.items()} == {
        0: "not JSON", 1: "missing attribute", 2: "no value",
    }  # fmt: skip


def test_a_row_of_a_table_has_the_timestamp_of_its_record_and_a_deletion_has_none():
    stream = replace(TABLE, record_timestamp="since")
    found, rejects = rows(
        (SEVEN, None, None), (EIGHT, b'{"name": "Ada", "tags": []}', None), stream=stream, times=[4, 5]
    )
    assert [(row["customer"], row["since"].value, row[DELETES]) for row in found.tuples.to_pylist()] == [
        (7, 0, True), (8, 5, False),
    ]  # fmt: skip
    assert not rejects
