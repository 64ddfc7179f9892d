"""Change events of a database through Kafka and Spark: tables of them in a join and in an aggregate."""

from __future__ import annotations

import json

import pytest

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PIPELINE = """
streams:
  orders:
    schema: {{id: int64, customer: string, amount: int64}}
    key: {{attributes: [id]}}
    envelope: debezium
    table: true
  customers: {{envelope: debezium, table: true, schema: {{id: string, name: string}}, key: {{attributes: [id]}}}}
  clicks: {{schema: {{customer: string, page: int64}}}}
  log: {{envelope: debezium, deletes: include, schema: {{id: int64, kind: string}}, change: {{kind: op}}}}
  named: {{}}
  totals: {{}}
  kept: {{}}
  dead: {{}}
operators:
  - name: join
    join: {{left: clicks, right: customers}}
    equality_left: [customer]
    equality_right: [id]
    algorithm: leftOuter
    default_right: {{name: none}}
    output: {{named: {{page: page, name: name}}}}
  - name: total
    aggregate: orders
    window: table, partitioned
    partition_by: [{partition}]
    output: {{totals: {{by: {partition}, total: Sum(amount), ids: Collect(id)}}}}
  - {{name: pass, map: log, output: {{kept: {{id: id, kind: kind}}}}}}
dead_letters: dead
clock: records
buckets: {buckets}
direct_records: {direct}
"""
START = 1_357_000_000_000


def change(key, op, row, at, *, block=False):
    """The record of a change, with `before` for a delete alone. Without `op` a tombstone."""
    event = {"before": row if op == "d" else None, "after": None if op == "d" else row, "op": op, "ts_ms": START + at}
    parts = [{"id": key}, event if op else None]
    texts = [json.dumps({"schema": {}, "payload": part} if block else part) for part in parts]
    return {"key": texts[0], "value": texts[1] if op else None, "timestamp": START + at}


def order(number, op, customer, amount, at, **more):
    return change(number, op, {"id": number, "customer": customer, "amount": amount}, at, **more)


def click(page, customer, at):
    return {"value": json.dumps({"customer": customer, "page": page}), "timestamp": START + at}


def tuples(service, stream):
    return [one["tuple"] for one in service.outputs(stream) if "tuple" in one]


@pytest.mark.parametrize(("buckets", "direct", "partition"), [(3, 1000, "id"), (3, 0, "customer")])
def test_changes_of_a_database(service, buckets, direct, partition):
    """A start goes on with the rows that the state has. With a partition by another attribute than the key the rows are
    in one bucket.
    """
    text = PIPELINE.format(buckets=buckets if partition == "id" else 1, direct=direct, partition=partition)
    pipeline = service.pipeline(text)
    service.send("customers", [
        change("a", "r", {"id": "a", "name": "Ann"}, 0), change("b", "c", {"id": "b", "name": "Bob"}, 1, block=True),
        change("a", "u", {"id": "a", "name": "Anna"}, 2),
    ])  # fmt: skip
    service.send("orders", [
        order(1, "c", "a", 10, 10), order(2, "c", "a", 5, 11, block=True), order(1, "u", "a", 7, 12),
        order(2, "d", "a", 5, 13), change(2, None, None, 14), order(3, "c", "b", 1, 15),
    ])  # fmt: skip
    service.send("clicks", [click(1, "a", 20), click(2, "b", 21), click(3, "c", 22)])
    service.send("log", [
        order(1, "c", "a", 10, 30), {"value": '{"ts_ms": 5}', "timestamp": START + 31}, change(1, None, None, 32),
        order(1, "d", "a", 10, 33), {"value": '{"id": 1}', "timestamp": START + 34},
    ])  # fmt: skip
    service.run(pipeline)
    assert sorted(tuples(service, "named"), key=lambda row: row["page"]) == [
        {"page": 1, "name": "Anna"}, {"page": 2, "name": "Bob"}, {"page": 3, "name": "none"},
    ]  # fmt: skip
    assert tuples(service, "kept") == [{"id": 1, "kind": "c"}, {"id": 1, "kind": "d"}]
    assert [message.value() for message in service.read("dead")] == [b'{"id": 1}']
    assert last_of(service, partition) == ({1: 7, 3: 1} if partition == "id" else {"a": 7, "b": 1})

    service.send("customers", [change("b", "d", {"id": "b"}, 40), change("b", None, None, 41)])
    service.send("orders", [order(3, "u", "a", 2, 42), order(1, "u", "a", 8, 43)])
    service.send("clicks", [click(4, "b", 50)])
    service.run(pipeline)
    assert tuples(service, "named")[-1] == {"page": 4, "name": "none"}
    assert last_of(service, partition) == ({1: 8, 3: 2} if partition == "id" else {"a": 10, "b": 1})
    if partition == "customer":
        assert tuples(service, "totals")[-1]["ids"] == [1, 3]


def last_of(service, partition):
    """By partition: the total of its last firing with rows."""
    keys = {row["by"]: row["total"] for row in tuples(service, "totals")}
    return {key: total for key, total in keys.items() if key != 2} if partition == "id" else keys
