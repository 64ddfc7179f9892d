"""A table on the right side of a join is loaded before the stream is read, and its rows are replaced and deleted."""

from __future__ import annotations

import json

import pytest
from confluent_kafka.admin import NewTopic

from sluice.checkpoint import offset_log
from sluice.checkpoint.folder_store import FolderStore
from sluice.kafka.topics import create

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PIPELINE = """
streams:
  orders: {{schema: {{order: int64, customer: string}}}}
  customers: {{schema: {{customer: string, name: string}}, key: {{attributes: [customer]}}, table: true}}
  enriched: {{key: {{attributes: [customer]}}, partitions: 3}}
  unknown: {{}}
  dead: {{}}
operators:
  - name: enrich
    join: {{left: orders, right: customers}}
    equality_left: [customer]
    equality_right: [customer]
    algorithm: leftOuter
    unmatched_left: unknown
    output: {{enriched: {{customer: left.customer, order: order, name: name}}}}
dead_letters: dead
clock: records
buckets: {buckets}
direct_records: {direct}
max_records_per_batch: 7
"""
START = 1_357_000_000_000
CUSTOMERS = [f"c{number}" for number in range(10)]


def order(number, customer, at):
    value = json.dumps({"order": number, "customer": customer})
    return {"value": value, "key": customer, "timestamp": START + at, "partition": number % 2}


def row(customer, name, at):
    """A row of the table; without a name its deletion."""
    value = None if name is None else json.dumps({"name": name})
    return {"value": value, "key": customer, "timestamp": START + at, "partition": int(customer[1:]) % 2}


def names(service):
    """By order: the name of its customer; None if the customer was unknown."""
    shown = [json.loads(message.value()) for message in service.read("enriched") if message.value()]
    unknown = [one["tuple"] for one in service.outputs("unknown") if "tuple" in one]
    return {one["order"]: one["name"] for one in shown} | {one["order"]: None for one in unknown}


@pytest.mark.parametrize(("buckets", "direct"), [(1, 0), (3, 0), (3, 1000)])
def test_the_stream_meets_the_whole_table(service, buckets, direct):
    """The rows are newer than the orders, and more than a batch takes, and the orders meet them nevertheless. A restart
    reads nothing again.
    """
    service.create("orders", partitions=2)
    service.partitions["customers"] = 2
    topic = NewTopic(service.topic("customers"), 2, config={"cleanup.policy": "compact"})
    create({"bootstrap.servers": service.broker}, topic)
    pipeline = service.pipeline(PIPELINE.format(buckets=buckets, direct=direct))
    old = [row(customer, "old", 5000 + n) for n, customer in enumerate(CUSTOMERS)]
    new = [row(customer, f"name of {customer}", 6000 + n) for n, customer in enumerate(CUSTOMERS[:8])]
    gone = [row("c3", None, 7000), row("c77", None, 7001)]
    service.send("customers", [*old, *new, *gone])
    service.send("orders", [order(n, customer, n) for n, customer in enumerate([*CUSTOMERS, "c77"])])
    service.run(pipeline)
    first = {n: f"name of {customer}" for n, customer in enumerate(CUSTOMERS)}
    assert names(service) == first | {3: None, 8: "old", 9: "old", 10: None}
    store = FolderStore(service.folder / "checkpoint")
    assert {place: end for place, end in offset_log.planned(store, 0).offsets.items() if end} == {
        (service.topic("customers"), 0): 9, (service.topic("customers"), 1): 11,
    }  # fmt: skip

    service.send("customers", [row("c0", "another", 8000), row("c1", None, 8001), row("c3", "back", 8002)])
    service.send("orders", [order(20 + n, customer, 9000 + n) for n, customer in enumerate(["c0", "c1", "c2", "c3"])])
    service.run(pipeline)
    found = names(service)
    assert {n: found[n] for n in range(20, 24)} == {20: "another", 21: None, 22: "name of c2", 23: "back"}
    assert not service.read("dead")
    assert offset_log.batches(store)[0] > 1
