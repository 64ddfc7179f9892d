"""The items that events become, and the messages about events that a replay cannot use."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sluice.engine.stream.items import FINAL, TUPLE, WINDOW
from sluice.model.spec import DELETES, Coding, Key, Stream
from sluice.model.types import FLOAT64, INT64, STRING, TIMESTAMP, Schema
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import EventError, numbered, read

SCHEMA: Schema = (("name", STRING), ("x", INT64), ("f", FLOAT64))


def cutter() -> Cutter:
    return Cutter([Stream("trades", SCHEMA)])


def test_events_become_items_of_their_stream_with_their_numbers_and_nanoseconds():
    events: list[dict[str, Any]] = [
        {"at": 0.1, "tuple": {"name": "a", "x": 1, "f": 2}},
        {"at": 1},
        {"at": 1.5, "punct": "window", "topic_partition": 2},
        {"at": 1.5, "tuple": {"f": 0.5, "x": -1, "name": "", "other": None}},
        {"at": 2, "punct": "final"},
    ]
    first, second = cutter().batches(numbered(events), 4)
    items = first.inputs["trades"]
    assert (first.first, first.now, first.at.tolist()) == (0, 15 * 10**8, [10**8, 10**9, 15 * 10**8, 15 * 10**8])
    assert items.event.tolist() == [0, 2, 3]
    assert items.at.tolist() == [10**8, 15 * 10**8, 15 * 10**8]
    assert items.kind.tolist() == [TUPLE, WINDOW, TUPLE]
    assert items.source.tolist() == [0, 2, 0]
    assert items.key.tolist() == [-1, -1, -1]
    assert items.tuples.to_pylist() == [{"name": "a", "x": 1, "f": 2.0}, {"name": "", "x": -1, "f": 0.5}]
    assert (second.first, second.inputs["trades"].event.tolist(), second.inputs["trades"].kind.tolist()) == (
        4,
        [4],
        [FINAL],
    )


def test_an_empty_batch_leaves_the_clock_where_it_is():
    some = cutter()
    assert some.batch([]).now is None
    some.batch(list(numbered([{"at": 3}])))
    assert some.batch([]).now == 3 * 10**9


GOOD = '{"at": 5, "tuple": {"name": "a", "x": 1, "f": 1.0}}'
WRONG = {
    '{"at": 5': "not JSON: unexpected end of data: line 2 column 1 (char 9); if the lines are plain records "
    "(--at FIELD), such a line becomes a dead letter",
    '{"at": 5},': "not JSON: unexpected content after document: line 1 column 10 (char 9); write one JSON object in "
    "each line, without [ ] around the lines and commas between them",
    "[1]": "expected a JSON object in each line, got [1]",
    '{"at": 5, "x": 1}':
        'unknown key "x"; an event has at, stream, tuple, punct, watermark, record, delete, truncate, topic_partition, '
        "offset, key, and attributes are in tuple",
    '{"at": 1767261600000}': "`at` is not a time between the years 1677 and 2262: 1767261600000, as a number is "
    "seconds; perhaps it has milliseconds",
    '{"at": 1767261600000000}': "`at` is not a time between the years 1677 and 2262: 1767261600000000, as a number is "
    "seconds; perhaps it has microseconds",
    '{"at": 1767261600000000000}': "`at` is not a time between the years 1677 and 2262: 1767261600000000000, as a "
    "number is seconds; perhaps it has nanoseconds",
    '{"tuple": {}}': '`at` is missing: expected seconds, or an ISO 8601 time such as "2026-01-01T10:00:00Z"',
    '{"at": "5"}': '`at` must be seconds, or an ISO 8601 time such as "2026-01-01T10:00:00Z", got "5"',
    '{"at": true}': '`at` must be seconds, or an ISO 8601 time such as "2026-01-01T10:00:00Z", got true',
    '{"at": "2026-01-01T10:00:00Z"}':
        '`at` must be a number of seconds as in the events before, got "2026-01-01T10:00:00Z"',
    '{"at": 1e300}': "`at` is not a time between the years 1677 and 2262: 1E+300",
    '{"at": 4.5}': "`at` goes back from 5 to 4.5; sort the events by `at`",
    '{"at": 5, "tupel": {}}': 'unknown key "tupel", perhaps "tuple"',
    '{"at": 5, "stream": "trade", "tuple": {}}': 'unknown stream "trade", perhaps "trades"; the inputs are trades',
    '{"at": 5, "tuple": {}, "punct": "window"}':
        "expected at most one of tuple, punct, watermark, record, delete, truncate, got tuple and punct",
    '{"at": 5, "stream": [], "tuple": {}}': "unknown stream []; the inputs are trades",
    '{"at": 5, "stream": {"a": 1}, "topic_partition": 1}': 'unknown stream {"a": 1}; the inputs are trades',
    '{"at": 5, "tuple": [1]}': "`tuple` must be an object, got [1]",
    '{"at": 5, "tuple": {"name": "a", "f": 1.0}}': 'attribute "x" is missing',
    '{"at": 5, "tuple": {"nam": "a", "x": 1, "f": 1.0}}': 'attribute "name" is missing, perhaps "nam"',
    '{"at": 5, "tuple": {"name": null, "x": 1, "f": 1.0}}': 'attribute "name" must be string, got null',
    '{"at": 5, "tuple": {"name": 1, "x": 1, "f": 1.0}}': 'attribute "name" must be string, got 1',
    '{"at": 5, "tuple": {"name": "a", "x": 1.0, "f": 1.0}}': 'attribute "x" must be int64, got 1.0',
    '{"at": 5, "tuple": {"name": "a", "x": true, "f": 1.0}}': 'attribute "x" must be int64, got true',
    '{"at": 5, "tuple": {"name": "a", "x": 9223372036854775808, "f": 1.0}}':
        'attribute "x" must be int64, got 9223372036854775808',
    '{"at": 5, "tuple": {"name": "a", "x": 1, "f": "1"}}': 'attribute "f" must be float64, got "1"',
    '{"at": 5, "punct": "done"}': '`punct` must be window or final, got "done"',
    '{"at": 5, "punct": "window", "topic_partition": -1}': "`topic_partition` must be a whole number from 0 on, got -1",
    '{"at": 5, "punct": "window", "topic_partition": "1"}':
        '`topic_partition` must be a whole number from 0 on, got "1"',
}  # fmt: skip


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_line_is_named_with_its_place(line: str, tmp_path: Path):
    file = tmp_path / "events.jsonl"
    file.write_text(f"{GOOD}\n\n{line}\n{GOOD}\n")
    with pytest.raises(EventError) as raised:
        list(cutter().batches(read(file, "events.jsonl"), 10))
    assert str(raised.value) == f"events.jsonl:3: {WRONG[line]}"


def test_a_time_may_be_a_text_and_is_the_seconds_since_1970():
    texts = ["2026-01-01", "2026-01-01T10:00:00Z", "2026-01-01 10:00:00.000000001", "2026-01-01T11:00:01+01:00"]
    (batch,) = cutter().batches(numbered([{"at": text} for text in texts]), 9)
    ten = 1767261600 * 10**9
    assert batch.at.tolist() == [ten - 36_000 * 10**9, ten, ten + 1, ten + 10**9]


BACK = "`at` goes back from 2026-01-01T10:00:00Z to 2026-01-01T09:59:59.5Z"


@pytest.mark.parametrize(
    ("at", "problem"),
    [
        (5, "`at` must be an ISO 8601 time as in the events before, got 5"),
        (
            "2026-01-01T09:59:59.5Z",
            "`at` goes back from 2026-01-01T10:00:00Z to 2026-01-01T09:59:59.5Z; sort the events by `at`",
        ),
        ("2026-02-30T10:00:00Z", "`at` is not a time between the years 1677 and 2262: 2026-02-30T10:00:00Z"),
        ("3026-01-01T10:00:00Z", "`at` is not a time between the years 1677 and 2262: 3026-01-01T10:00:00Z"),
    ],
)
def test_a_wrong_time_among_times_that_are_texts(at: object, problem: str):
    with pytest.raises(EventError, match=f"^event 1: {re.escape(problem)}$"):
        list(cutter().batches(numbered([{"at": "2026-01-01T10:00:00Z"}, {"at": at}]), 9))


def test_with_several_inputs_the_stream_must_be_named():
    events = [{"at": 0}, {"at": 1, "punct": "window"}]
    with pytest.raises(EventError, match=r"^event 1: `stream` is missing; the inputs are a, b$"):
        list(Cutter([Stream("a", SCHEMA), Stream("b", SCHEMA)]).batches(numbered(events), 10))


CUSTOMERS = Stream("customers", (("customer", STRING), ("x", INT64)), key=Key(("customer",), Coding()), table=True)


def test_the_row_of_a_table_is_deleted_by_its_key():
    events: list[dict[str, Any]] = [
        {"at": 0, "tuple": {"customer": "a", "x": 1}},
        {"at": 1, "delete": {"customer": "a"}},
    ]
    (batch,) = Cutter([CUSTOMERS]).batches(numbered(events), 9)
    assert batch.inputs["customers"].tuples.to_pylist() == [
        {"customer": "a", "x": 1, DELETES: False}, {"customer": "a", "x": 0, DELETES: True},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("stream", "delete", "error"),
    [
        (CUSTOMERS, {"x": 1}, '`delete` must be an object with the key of a row (customer), got {"x": 1}'),
        (CUSTOMERS, "a", '`delete` must be an object with the key of a row (customer), got "a"'),
        (CUSTOMERS, {"customer": 1}, 'attribute "customer" must be string, got 1'),
        (
            Stream("trades", SCHEMA),
            {"name": "a"},
            "`delete` removes a row of a table, and trades is no table (it has no `table: true`)",
        ),
    ],
)
def test_a_deletion_that_cannot_be_used(stream: Stream, delete: object, error: str):
    with pytest.raises(EventError, match=re.escape(f"event 0: {error}")):
        Cutter([stream]).batch(list(numbered([{"at": 0, "delete": delete}])))


SENT = Stream("trades", (("x", INT64), ("sent", TIMESTAMP)), record_timestamp="sent")


def times(*events: dict[str, Any], stream: Stream = SENT) -> list[int]:
    """The timestamps of the records of tuples, nanoseconds since 1970."""
    (batch,) = Cutter([stream]).batches(numbered(events), 9)
    found: list[int] = batch.inputs["trades"].tuples.column("sent").view(pa.int64()).to_pylist()
    return found


def test_a_tuple_has_the_time_of_its_event_as_the_timestamp_of_its_record():
    exact = Decimal("1357017300.123456789")
    assert times({"at": 0.5, "tuple": {"x": 1}}, {"at": 1}, {"at": exact, "tuple": {"x": 2, "sent": None}}) == [
        500_000_000, 1_357_017_300_123_456_789,
    ]  # fmt: skip


def test_a_tuple_that_gives_the_timestamp_of_its_record_may_be_late():
    events = [
        {"at": n, "tuple": {"x": 1} | sent} for n, sent in enumerate(({}, {"sent": 0.25}, {"sent": "1970-01-01"}))
    ]
    assert times(*events) == [0, 250_000_000, 0]


def test_a_timestamp_of_a_record_that_is_no_time_is_an_error():
    with pytest.raises(EventError, match='event 1: attribute "sent" must be timestamp, got "soon"'):
        times({"at": 0, "tuple": {"x": 1}}, {"at": 1, "tuple": {"x": 1, "sent": "soon"}})


def test_a_row_of_a_table_has_the_timestamp_of_its_record():
    table = Stream(
        "trades", (("x", INT64), ("sent", TIMESTAMP)), key=Key(("x",), Coding()), table=True, record_timestamp="sent"
    )
    assert times({"at": 3, "tuple": {"x": 1}}, {"at": 4, "delete": {"x": 1}}, stream=table) == [3 * 10**9, 0]
