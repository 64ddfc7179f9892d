"""A service is killed before its first batch is written: the next start begins where the first one began, and loads the
same rows of tables.
"""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Producer

from tests.recovery.harness.service import ORIGIN, Service

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

FILE = """
streams:
  orders: {schema: {k: string, v: int64}}
  customers: {schema: {k: string, name: string}, key: {attributes: [k], format: text}, table: true}
  enriched: {}
operators:
  - name: enrich
    join: {left: orders, right: customers}
    equality_left: [k]
    equality_right: [k]
    algorithm: leftOuter
    default_right: {name: unknown}
    output: {enriched: {k: left.k, v: v, name: name}}
clock: records
"""
KEYS = [f"key {number}" for number in range(20)]


def orders(service: Service, start: int) -> None:
    service.send("orders", [{"k": key, "v": start + number} for number, key in enumerate(KEYS)])


def rows_of_the_table(service: Service, name: str) -> None:
    service.send("customers", [{"k": key, "name": f"{name} of {key}"} for key in KEYS])


def delete(service: Service, key: str) -> None:
    producer = Producer({"bootstrap.servers": service.kafka["bootstrap.servers"], "enable.idempotence": True})
    place, at = service.code_of("customers", key), ORIGIN + len(service.events)
    producer.produce(service.topic("customers"), key=key, value=None, partition=place, timestamp=at)
    assert producer.flush(30) == 0
    event = {"at": at / 1000, "stream": "customers", "topic_partition": place, "delete": {"k": key}}
    service.events.append(event)


def table_first(events, loaded):
    """The events as they are processed: first those of the table that were there at the first start."""
    first = [event for event in events[:loaded] if event["stream"] == "customers"]
    rest = [event for event in events[:loaded] if event["stream"] != "customers"]
    return [event | {"at": float(number)} for number, event in enumerate([*first, *rest, *events[loaded:]])]


def test_a_kill_during_the_load_changes_no_output(services):
    """The rows are behind the orders in time. Between the kill and the next start further rows and orders come: the
    load does not have them.
    """
    service = services(FILE)
    service.create("orders")
    service.create("customers", **{"cleanup.policy": "compact"})
    service.create("enriched")
    orders(service, 0)
    rows_of_the_table(service, "old name")
    rows_of_the_table(service, "name")
    delete(service, KEYS[3])
    loaded = len(service.events)
    service.at("feeding")
    service.start()
    service.await_moment("feeding")
    position = service.kill()
    assert (position.planned, position.next_batch) == (0, 0), "the load is planned, and nothing is written"
    load = plan_of_the_first_batch(service)

    orders(service, 100)
    rows_of_the_table(service, "later name")
    service.start()
    service.await_outputs(expected=service.expected(table_first(service.events, loaded)))
    service.end()
    assert plan_of_the_first_batch(service) == load
    found = [one["tuple"] for some in service.outputs("enriched").values() for one in some if "tuple" in one]
    assert {one["name"] for one in found if one["v"] < 100} == {
        *(f"name of {key}" for key in KEYS if key != KEYS[3]), "unknown",
    }  # fmt: skip


def plan_of_the_first_batch(service: Service) -> object:
    return json.loads((service.checkpoint / "offsets" / "0").read_text().splitlines()[2])


LATEST = """
start: latest
streams:
  in: {schema: {k: string, v: int64}}
  passed: {exchange: true}
  out: {marks: none}
operators:
  - {name: pass, map: in, output: {passed: {k: k, v: v}}}
  - name: sums
    aggregate: passed
    window: tumbling, count(2), partitioned
    partition_by: [k]
    output: {out: {k: Last(k), s: Sum(v)}}
clock: records
"""


def test_what_comes_after_the_first_start_is_read_by_all_stages_although_it_was_killed(services):
    service = services(LATEST)
    service.create("in")
    service.send("in", [{"k": key, "v": 1} for key in KEYS])
    before = len(service.events)
    service.start()
    service.wait_until(lambda: len(list(service.checkpoint.glob("*/sources/0/0"))) == 2, "both stages have a start")
    service.kill()
    service.send("in", [{"k": key, "v": number} for number, key in enumerate(2 * KEYS)])
    service.start()
    service.await_outputs(expected=service.expected(service.events[before:]))
    service.end()
