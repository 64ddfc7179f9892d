"""Operators that read one input with different keys, each key in a stage of its own."""

from __future__ import annotations

import json

import pytest

from sluice.model.stages import stages
from sluice.replayer.player import replay
from tests.service.events_as_records import ORIGIN

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PIPELINE = """
streams:
  orders: {schema: {shop: string, customer: string, amount: int64}}
  shops: {key: {attributes: [shop]}}
  customers: {key: {attributes: [customer]}}
  dead: {}
operators:
  - name: shops
    aggregate: orders
    window: tumbling, count(3), partitioned
    partition_by: [shop]
    output: {shops: {shop: Last(shop), all: Collect(amount)}}
  - name: customers
    aggregate: orders
    window: sliding, count(4), count(1), partitioned
    partition_by: [customer]
    output: {customers: {customer: Last(customer), sum: Sum(amount)}}
dead_letters: dead
clock: records
buckets: 3
max_records_per_batch: 11
"""
ORDERS = [{"shop": f"s{n * 7 % 5}", "customer": f"c{n * 11 % 4}", "amount": n} for n in range(80)]


def outputs(service, stream):
    """By key: the other attributes, in order."""
    found = {}
    for message in service.read(stream):
        if message.value():
            found.setdefault(message.key().decode(), []).append(json.loads(message.value()))
    return found


def test_each_stage_gives_what_replay_gives(service):
    """Restarted half way. A record that cannot be decoded is one dead letter."""
    service.create("orders", partitions=1)
    pipeline = service.pipeline(PIPELINE)
    assert [stage.name for stage in stages(pipeline)] == [service.name, f"{service.name}.customers"]
    records = [{"value": json.dumps(order), "timestamp": ORIGIN + 1000 * n} for n, order in enumerate(ORDERS)]
    service.send("orders", records[:33])
    service.run(pipeline)
    service.send("orders", [{"value": b"no order", "timestamp": ORIGIN + 33_000}, *records[33:]])
    service.run(pipeline)
    expected = {"shops": {}, "customers": {}}
    events = [{"at": (ORIGIN + 1000 * n) / 1000, "tuple": order} for n, order in enumerate(ORDERS)]
    for made in replay(pipeline, events, clock_origin="first"):
        if "tuple" in made:
            key = made["tuple"].pop(made["stream"].removesuffix("s"))
            expected[made["stream"]].setdefault(key, []).append(made["tuple"])
    assert outputs(service, "shops") == expected["shops"]
    assert outputs(service, "customers") == expected["customers"]
    assert [message.value() for message in service.read("dead")] == [b"no order"]
