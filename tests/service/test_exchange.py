"""Operators with different keys, each in a stage of its own, and a topic between them."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from sluice.model.stages import stages
from sluice.replayer.player import replay

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PIPELINE = """
streams:
  orders: {schema: {shop: string, customer: string, amount: int64}}
  totals: {exchange: true}
  best: {}
operators:
  - name: totals
    aggregate: orders
    window: tumbling, count(2), partitioned
    partition_by: [shop]
    output: {totals: {shop: Last(shop), customer: Last(customer), amount: Sum(amount)}}
  - name: best
    aggregate: totals
    window: sliding, count(3), count(1), partitioned
    partition_by: [customer]
    aggregate_incomplete_windows: true
    output: {best: {customer: Last(customer), amounts: Collect(amount)}}
clock: records
buckets: 2
"""
START = 1_357_000_000_000
ORDERS = [
    {"shop": f"shop {number * 7 % 5}", "customer": f"customer {number * 11 % 4}", "amount": number}
    for number in range(60)
]


def records(orders: list[dict[str, object]], start: int) -> list[dict[str, object]]:
    """A second apart."""
    return [{"value": json.dumps(order), "timestamp": start + 1000 * n} for n, order in enumerate(orders)]


def by_customer(tuples: list[dict[str, object]]) -> dict[object, list[object]]:
    found: dict[object, list[object]] = {}
    for one in tuples:
        found.setdefault(one["customer"], []).append(one["amounts"])
    return found


def test_what_goes_through_an_exchange_comes_out_as_without_one(service):
    """Restarted half way: each stage goes on where it was."""
    service.create("orders")
    pipeline = service.pipeline(PIPELINE)
    assert [stage.name for stage in stages(pipeline)] == [service.name, f"{service.name}.best"]
    events = [{"at": START / 1000 + n, "tuple": order} for n, order in enumerate(ORDERS)]
    expected = [e["tuple"] for e in replay(pipeline, events) if e["stream"] == "best" and "tuple" in e]
    for start, stop in pairwise([0, 31, 60]):
        service.send("orders", records(ORDERS[start:stop], START + 1000 * start))
        made = stop // 2 if stop == len(ORDERS) else 0
        service.run(pipeline, lambda made=made: len(tuples(service)) >= made)
    found = tuples(service)
    assert len(found) == len(expected)
    assert by_customer(found) == by_customer(expected)


def tuples(service) -> list[dict[str, object]]:
    return [output["tuple"] for output in service.outputs("best") if "tuple" in output]
