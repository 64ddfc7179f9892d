"""What a stream and a table make of change events and upserts (docs/reference/change-events.md)."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sluice
from sluice.config.load import load_text
from sluice.wire.change_events import json_events

ANN, BOB, ANNA = ({"id": 1, "name": "Ann"}, {"id": 2, "name": "Bob"}, {"id": 1, "name": "Anna"})
SOURCE = {"ts_ms": 1_700_000_000_000, "db": "shop"}


def event(op: str, before: Any = None, after: Any = None, **more: Any) -> dict[str, Any]:
    return {"before": before, "after": after, "source": SOURCE, "op": op, "ts_ms": 1_700_000_000_250, **more}


def in_block(payload: Any) -> dict[str, Any]:
    """As the JSON converter of Kafka Connect writes it with `schemas.enable`."""
    return {"schema": {"type": "struct", "fields": [{"field": "op", "type": "string"}]}, "payload": payload}


def outputs(stream: str, records: list[Any], *, output: str = "id: id, name: name") -> list[Any]:
    """The tuples of a stream of these records, (key, value) or a value alone, and the reasons of dead letters."""
    text = f"""
pipeline: changes
streams:
  rows: {{topic: rows, {stream}}}
  out: {{topic: out}}
operators:
  - {{name: pass, map: rows, output: {{out: {{{output}}}}}}}
"""
    return of_replay(text, [{"record": record} for record in map(record_of, records)])


def record_of(record: Any) -> dict[str, Any]:
    key, value = record if isinstance(record, tuple) else (None, record)
    return {"key": key, "value": value}


def of_replay(text: str, events: list[dict[str, Any]]) -> list[Any]:
    pipeline = load_text(text, "pipeline.yaml", environment=None)
    timed = [{"at": at, **one} for at, one in enumerate(events)]
    found = [list(sluice.replay(pipeline, timed, batch=batch)) for batch in (1, 3, 100)]
    assert found[0] == found[1] == found[2], "the cut into batches shows"
    return [
        [*one["tuple"].values()] if "tuple" in one else one["dead_letter"]["reason"].partition(":")[0]
        for one in found[0]
        if "tuple" in one or "dead_letter" in one
    ]


WITH_KIND = "schema: {id: int64, name: string, kind: string}, change: {kind: op}"
DEBEZIUM = "envelope: debezium, schema: {id: int64, name: string}"


# ---- a stream --------------------------------------------------------------------------------------------------------


def test_the_tuples_are_the_rows_after_the_changes():
    """(EN2)"""
    records = [
        event("r", None, ANN), event("c", None, BOB), event("u", ANN, ANNA), event("u", None, ANNA), event("d", ANNA),
        None,
    ]  # fmt: skip
    assert outputs(DEBEZIUM, records) == [[1, "Ann"], [2, "Bob"], [1, "Anna"], [1, "Anna"]]


def test_an_event_may_be_inside_a_block_with_its_schema():
    """(EN1)"""
    records = [in_block(event("c", None, ANN)), event("c", None, BOB), in_block(event("d", ANN)), in_block(None)]
    assert outputs(DEBEZIUM, records) == [[1, "Ann"], [2, "Bob"]]


def test_a_row_may_have_columns_that_are_named_as_members_of_events():
    row = {"op": "x", "after": 1, "payload": {"op": "d"}, "id": 3, "name": "Cid"}
    assert outputs(DEBEZIUM, [event("c", None, row)]) == [[3, "Cid"]]


@pytest.mark.parametrize("wrong", [
    event("c", ANN), event("u"), event("x", None, ANN), event(1, None, ANN), {"id": 1, "name": "Ann"}, in_block({}),
    in_block(3), {"before": None, "after": ANN}, {},
], ids=str)  # fmt: skip
def test_what_is_no_change_event_is_a_dead_letter(wrong):
    """(EN3)"""
    reasons = outputs(DEBEZIUM, [wrong, event("c", None, BOB)])
    assert reasons[1:] == [[2, "Bob"]]
    assert reasons[0] in ("not a change event", "not an object")


def test_a_row_is_checked_as_every_record():
    """(EN3)"""
    records = [event("c", None, {"id": 1}), event("c", None, {"id": "1", "name": "Ann"}), event("c", None, [1]), "{"]
    assert outputs(DEBEZIUM, records) == ["missing attribute", "wrong type", "not an object", "not JSON"]


def test_messages_about_no_row_have_no_effect():
    """(EN6)"""
    records = [
        {"ts_ms": 1}, in_block({"ts_ms": 1}), {"status": "BEGIN", "id": "571:53195829", "event_count": None},
        {"source": SOURCE, "databaseName": "shop", "ddl": "ALTER TABLE ...", "tableChanges": []},
        event("m", message={"prefix": "outbox", "content": "AA=="}), event("t"),
    ]  # fmt: skip
    assert outputs(DEBEZIUM, [*records, event("c", None, BOB)]) == [[2, "Bob"]]


@pytest.mark.parametrize(("deletes", "tuples"), [("omit", []), ("include", [[1, "Ann", "d"]])])
def test_a_stream_has_deletions_if_the_file_says_so(deletes, tuples):
    """(EN8)"""
    stream = f"envelope: debezium, deletes: {deletes}, {WITH_KIND}"
    records = [event("c", None, ANN), event("d", ANN), None, event("t")]
    assert outputs(stream, records, output="id: id, name: name, kind: kind") == [[1, "Ann", "c"], *tuples]


def test_a_deletion_without_the_row_before_has_defaults_or_is_a_dead_letter():
    """(EN3, EN8)"""
    schema = "envelope: debezium, deletes: include, schema: {id: int64, name: string}"
    records = [(b"1", event("d", {"id": 1, "name": None})), (b"1", event("d", None))]
    assert outputs(schema, records) == ["null attribute", "missing attribute"]
    keyed = f"{schema}, key: {{attributes: [id], format: text}}, defaults: {{name: gone}}"
    assert outputs(keyed, records) == [[1, "gone"], [1, "gone"]]


def test_attributes_may_be_beside_the_row():
    """(EN5)"""
    stream = (
        "envelope: debezium, schema: {id: int64, kind: string, changed: timestamp, handled: int64, db: string}, "
        "change: {kind: op, changed: source.ts_ms, handled: ts_ms, db: source.db}"
    )
    output = "id: id, kind: kind, changed: changed, handled: handled, db: db"
    records = [event("u", None, ANN), in_block(event("r", None, BOB)), event("c", None, ANN, source={"ts_ms": 5})]
    assert outputs(stream, records, output=output) == [
        [1, "u", "2023-11-14T22:13:20Z", 1_700_000_000_250, "shop"],
        [2, "r", "2023-11-14T22:13:20Z", 1_700_000_000_250, "shop"],
        "missing attribute",
    ]


def test_a_time_beside_the_row_that_does_not_fit_is_a_dead_letter():
    stream = "envelope: debezium, schema: {id: int64, handled: timestamp}, change: {handled: ts_ms}"
    records = [event("c", None, ANN, ts_ms=10**18), event("c", None, ANN, ts_ms=None), event("c", None, ANN, ts_ms=-1)]
    assert outputs(stream, records, output="id: id, handled: handled") == [
        "wrong type", "null attribute", [1, "1969-12-31T23:59:59.999Z"],
    ]  # fmt: skip


def test_an_upsert_is_the_row_of_its_key():
    """(EN7, EN8)"""
    stream = f"envelope: upsert, key: {{attributes: [id]}}, {WITH_KIND}"
    records = [("1", {"name": "Ann"}), ("1", None), ("2", {"name": "Bob"})]
    output = "id: id, name: name, kind: kind"
    assert outputs(stream, records, output=output) == [[1, "Ann", "u"], [2, "Bob", "u"]]
    stream += ", deletes: include, defaults: {name: gone}"
    assert outputs(stream, records, output=output) == [[1, "Ann", "u"], [1, "gone", "d"], [2, "Bob", "u"]]


def test_attributes_that_a_deletion_lacks_are_null_if_they_are_optional():
    """(EN3, EN8) Without REPLICA IDENTITY FULL, PostgreSQL has the columns of the key alone."""
    debezium = "envelope: debezium, deletes: include, schema: {id: int64, name: string?}"
    records = [event("c", None, BOB), event("d", {"id": 2, "name": None}), event("d", {"id": 2})]
    assert outputs(debezium, records) == [[2, "Bob"], [2, None], [2, None]]
    upsert = "envelope: upsert, deletes: include, schema: {id: int64, name: string?}, key: {attributes: [id]}"
    assert outputs(upsert, [("2", {"name": "Bob"}), ("2", None)]) == [[2, "Bob"], [2, None]]


# ---- a table ---------------------------------------------------------------------------------------------------------


JOIN = """
pipeline: enrich
streams:
  orders: {{topic: orders, schema: {{id: int64}}}}
  rows:
    {{topic: rows, envelope: {envelope}, table: true, schema: {{id: int64, name: string}}, key: {{attributes: [id]}}}}
  out: {{topic: out}}
operators:
  - name: enrich
    join: {{left: orders, right: rows}}
    algorithm: leftOuter
    default_right: {{name: none}}
    equality_left: [id]
    equality_right: [id]
    output: {{out: {{id: left.id, name: right.name}}}}
"""


def met(*changes: Any, envelope: str = "debezium") -> list[str]:
    """By change, in their order: the names that orders of the keys 1 and 2 meet behind it."""
    events: list[dict[str, Any]] = []
    for change in changes:
        events.append({"stream": "rows", "record": record_of(change)})
        events += [{"stream": "orders", "tuple": {"id": number}} for number in (1, 2)]
    found = of_replay(JOIN.format(envelope=envelope), events)
    names = [row[1] for row in found if isinstance(row, list)]
    return [" ".join(pair) for pair in zip(names[::2], names[1::2], strict=True)]


ONE, TWO = {"id": 1}, {"id": 2}


def test_a_table_has_the_row_of_each_key():
    """(EN4)"""
    assert met(
        (ONE, event("r", None, ANN)), (TWO, in_block(event("c", None, BOB))), (in_block(ONE), event("u", None, ANNA)),
    ) == ["Ann none", "Ann Bob", "Anna Bob"]  # fmt: skip


@pytest.mark.parametrize(("change", "names"), [
    ((ONE, event("d", {"id": 1, "name": None})), "none Bob"), ((ONE, event("d")), "none Bob"),
    ((in_block(ONE), None), "none Bob"), ((None, event("t")), "none none"), ((ONE, {"ts_ms": 1}), "Ann Bob"),
    ((ONE, {"other": 1}), "Ann Bob"), ((ONE, event("u", None, {"id": 1, "name": 5})), "Ann Bob"),
], ids=str)  # fmt: skip
def test_a_join_meets_the_rows_that_are_left(change, names):
    """(EN4)"""
    there = [(ONE, event("c", None, ANN)), (TWO, event("c", None, BOB))]
    assert met(*there, change)[-1] == names


def test_rows_come_back_behind_a_truncate():
    assert met((ONE, event("c", None, ANN)), (None, event("t")), (ONE, event("c", None, ANNA))) == [
        "Ann none", "none none", "Anna none",
    ]  # fmt: skip


def test_a_changed_key_is_a_deletion_and_a_new_row():
    """(EN9)"""
    moved = {"id": 2, "name": "Ann"}
    assert met((ONE, event("c", None, ANN)), (ONE, event("d", ANN)), (ONE, None), (TWO, event("c", None, moved))) == [
        "Ann none", "none none", "none none", "none Ann",
    ]  # fmt: skip


def test_a_table_of_upserts():
    changes = [("1", {"name": "Ann"}), ("1", {"name": "Anna"}), ("1", None)]
    assert met(*changes, envelope="upsert") == ["Ann none", "Anna none", "none none"]


# ---- the compiled loop -----------------------------------------------------------------------------------------------


def test_the_loop_reads_events_as_python_does():
    """Random events, some of them damaged: the parts are those that Python finds."""
    chance = random.Random(7)
    values = [damaged(spelled(any_event(chance), chance).encode(), chance) for _ in range(2000)]
    found = json_events.parts(pa.array(values, pa.binary()))
    for row, value in enumerate(values):
        one = json_events.exact(value)
        parts = (int(found.operation[row]), *(getattr(found, part)[row].as_py() for part in ("row", "source")))
        assert parts == (one.operation, one.row, one.source), value
        assert (row in found.bad) == (one.operation < 0)
    assert np.count_nonzero(found.operation >= 0) > 500


def any_event(chance: random.Random) -> Any:
    members = {
        "op": chance.choice(["c", "r", "u", "d", "t", "m", "x", None]), "ts_ms": 1,
        "before": chance.choice([None, ANN, {"a": [1, {"b": 'x"y'}], "op": "c"}]),
        "source": chance.choice([None, SOURCE]),
        "after": chance.choice([None, ANN, ANN, {"é": 1.5e3, "s": "\\u00e9\n"}]), "transaction": None,
    }  # fmt: skip
    names = chance.sample(sorted(members), chance.randint(3, len(members)))
    found = {name: members[name] for name in names}
    return in_block(found) if chance.random() < 0.3 else found


def spelled(value: Any, chance: random.Random) -> str:
    """The event as text; in one of ten, the name of a member has an escape."""
    name = chance.choice(["op", "before", "after", "source", "payload"])
    escaped = f"\\u{ord(name[0]):04x}{name[1:]}"
    text = json.dumps(value)
    return text.replace(f'"{name}":', f'"{escaped}":') if chance.random() < 0.1 else text


def damaged(value: bytes, chance: random.Random) -> bytes:
    if chance.random() < 0.8:
        return value
    at = chance.randrange(len(value))
    return value[:at] + bytes([chance.randrange(256)]) * chance.randint(0, 2) + value[at + chance.randint(0, 2) :]
