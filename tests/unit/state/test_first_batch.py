"""Where a query begins, and the plan of its first batch, which has the records of its tables, and no others."""

from __future__ import annotations

import json
import uuid

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from sluice.batch.query_plan import Plan
from sluice.checkpoint import offset_log
from sluice.checkpoint.offset_log import write_first_offsets
from sluice.config.load import load_text
from sluice.kafka.batch_report import Planned
from sluice.kafka.topics import create
from sluice.state.first_batch import plan_first_batch

pytestmark = pytest.mark.kafka

PIPELINE = """
pipeline: enrich
streams:
  orders: {{topic: {orders}, schema: {{order: string, customer: string}}}}
  customers:
    topic: {customers}
    schema: {{customer: string, name: string}}
    key: {{attributes: [customer]}}
    table: true
  enriched: {{topic: enriched}}
operators:
  - name: enrich
    join: {{left: orders, right: customers}}
    equality_left: [customer]
    equality_right: [customer]
    output: {{enriched: {{order: order, name: name}}}}
start: {start}
kafka: {{bootstrap.servers: "{broker}"}}
"""


@pytest.fixture
def topics(broker):
    """The topics of orders and customers, with two topic partitions each."""
    name = uuid.uuid4().hex
    found = {"orders": f"{name}.orders", "customers": f"{name}.customers"}
    for topic in found.values():
        create({"bootstrap.servers": broker}, NewTopic(topic, 2, config={"cleanup.policy": "compact"}))
    return found


def send(broker, topic, partition, count):
    producer = Producer({"bootstrap.servers": broker})
    for number in range(count):
        producer.produce(topic, json.dumps({"n": number}), key=str(number), partition=partition)
    assert producer.flush(30) == 0


def plan(broker, topics, folder, start="earliest"):
    text = PIPELINE.format(broker=broker, start=start, **topics)
    counts = dict.fromkeys(("orders", "customers", "enriched"), 2)
    return Plan(load_text(text, "enrich.yaml", environment={}), "q", "s", str(folder), 2, counts)


def offsets(topics, *, orders, customers):
    places = {(topics["orders"], number): offset for number, offset in enumerate(orders)}
    return places | {(topics["customers"], number): offset for number, offset in enumerate(customers)}


def test_the_first_batch_reads_the_tables_alone(broker, topics, tmp_path):
    send(broker, topics["orders"], 0, 5)
    send(broker, topics["customers"], 0, 3)
    send(broker, topics["customers"], 1, 1)
    some = plan(broker, topics, tmp_path)
    plan_first_batch(some)
    assert offset_log.batches(some.store) == (None, 0)
    assert offset_log.before_all(some.store).offsets == offsets(topics, orders=(0, 0), customers=(0, 0))
    assert offset_log.planned(some.store, 0).offsets == offsets(topics, orders=(0, 0), customers=(3, 1))


def test_start_latest_is_about_the_other_inputs(broker, topics, tmp_path):
    send(broker, topics["orders"], 0, 5)
    send(broker, topics["customers"], 0, 3)
    some = plan(broker, topics, tmp_path, start="latest")
    plan_first_batch(some)
    assert offset_log.before_all(some.store).offsets == offsets(topics, orders=(5, 0), customers=(0, 0))
    assert offset_log.planned(some.store, 0).offsets == offsets(topics, orders=(5, 0), customers=(3, 0))


def test_a_plan_that_is_there_stays(broker, topics, tmp_path):
    """A start after a kill loads the records that the first start has planned."""
    send(broker, topics["customers"], 0, 3)
    some = plan(broker, topics, tmp_path)
    plan_first_batch(some)
    before = offset_log.planned(some.store, 0)
    send(broker, topics["customers"], 0, 2)
    plan_first_batch(some)
    assert offset_log.planned(some.store, 0) == before


def test_tables_without_records_need_no_batch(broker, topics, tmp_path):
    send(broker, topics["orders"], 0, 5)
    some = plan(broker, topics, tmp_path)
    plan_first_batch(some)
    assert offset_log.batches(some.store) == (None, None)


# ---- where the inputs begin ------------------------------------------------------------------------------------------


def before_all(some):
    return dict(offset_log.first_offsets(some.store))


def test_with_start_latest_a_later_start_begins_where_the_first_one_would_have_begun(broker, topics, tmp_path):
    """So a stage reads what the stage before it wrote before a kill."""
    send(broker, topics["orders"], 0, 5)
    some = plan(broker, topics, tmp_path, start="latest")
    plan_first_batch(some)
    assert offset_log.batches(some.store) == (None, None)
    send(broker, topics["orders"], 0, 3)
    plan_first_batch(some)
    assert before_all(some) == offsets(topics, orders=(5, 0), customers=(0, 0))


@pytest.mark.parametrize(("start", "at"), [("latest", 4), ("earliest", 0)])
def test_an_input_that_is_added_before_the_first_batch_begins_as_start_says(broker, topics, tmp_path, start, at):
    send(broker, topics["orders"], 0, 4)
    some = plan(broker, topics, tmp_path, start=start)
    write_first_offsets(some.store, Planned(0, offsets(topics, orders=(), customers=(0, 0)), 0))
    plan_first_batch(some)
    assert before_all(some) == offsets(topics, orders=(at, 0), customers=(0, 0))


def test_an_input_that_stays_begins_where_it_did_if_another_is_removed(broker, topics, tmp_path):
    send(broker, topics["orders"], 0, 4)
    some = plan(broker, topics, tmp_path, start="latest")
    before = offsets(topics, orders=(1, 0), customers=(0, 0))
    write_first_offsets(some.store, Planned(0, before | {("removed", 0): 7}, 0))
    plan_first_batch(some)
    assert before_all(some) == before


def test_a_topic_partition_that_is_added_to_an_input_is_read_from_its_beginning(broker, topics, tmp_path):
    send(broker, topics["orders"], 1, 4)
    some = plan(broker, topics, tmp_path, start="latest")
    write_first_offsets(some.store, Planned(0, offsets(topics, orders=(0,), customers=(0, 0)), 0))
    plan_first_batch(some)
    assert before_all(some) == offsets(topics, orders=(0, 0), customers=(0, 0))


def test_what_begins_with_the_oldest_records_needs_no_file(broker, topics, tmp_path):
    some = plan(broker, topics, tmp_path)
    plan_first_batch(some)
    assert list(some.store.list()) == []
