"""What happens to topics while a service reads them: they grow, lose records, go."""

from __future__ import annotations

import json
import shutil
import time

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from sluice.kafka.kafka_errors import DataLossError, TopicError

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PIPELINE = """
streams:
  in: {schema: {key: string, number: int64}, marks_in: topic_partition}
  out: {}
operators:
  - name: day
    aggregate: in
    window: tumbling, punct(), partitioned
    partition_by: [key]
    output: {out: {key: key, all: Collect(number)}}
clock: records
buckets: 2
"""
MARK = {"value": b"", "headers": [("sluice-mark", b"window")]}


def row(key, number, partition=0):
    return {"value": json.dumps({"key": key, "number": number}).encode(), "partition": partition}


def admin(service):
    return AdminClient({"bootstrap.servers": service.broker})


def test_topic_partitions_that_are_added_while_it_runs_are_read_from_their_beginning(service):
    """The query starts again by itself, with the state that it had: also what came from the new one is flushed."""
    service.create("in")
    service.send("in", [row("a", 1)])
    grown = []

    def grow_once():
        if not grown:
            grown.append(True)
            client = admin(service)
            (future,) = client.create_partitions([NewPartitions(service.topic("in"), 2)]).values()
            future.result()
            service.send("in", [row("a", 2, 1), row("b", 3, 1), MARK | {"partition": 1}])
        return len(service.read("out")) == 4

    service.run(service.pipeline(PIPELINE), until=grow_once)
    assert service.outputs("out") == [
        {"tuple": {"key": "a", "all": [1, 2]}}, {"punct": "window"},
        {"tuple": {"key": "b", "all": [3]}}, {"punct": "window"},
    ]  # fmt: skip


def lose(service, before):
    place = TopicPartition(service.topic("in"), 0, before)
    client = admin(service)
    (future,) = client.delete_records([place]).values()
    future.result()


def test_records_that_retention_took_away_end_the_service(service):
    service.create("in")
    service.send("in", [row("a", n) for n in range(3)])
    service.run(service.pipeline(PIPELINE))
    service.send("in", [row("a", n) for n in range(3, 8)])
    lose(service, 6)
    with pytest.raises(DataLossError, match="on_data_loss: continue"):
        service.run(service.pipeline(PIPELINE))


def test_or_it_goes_on_with_what_is_there(service):
    service.create("in")
    service.send("in", [row("a", n) for n in range(3)])
    service.run(service.pipeline(PIPELINE))
    service.send("in", [row("a", n) for n in range(3, 8)])
    lose(service, 6)
    service.send("in", [MARK])
    service.run(service.pipeline(PIPELINE + "on_data_loss: continue\n"))
    assert service.outputs("out")[0] == {"tuple": {"key": "a", "all": [0, 1, 2, 6, 7]}}


@pytest.mark.parametrize("records", [1, 9], ids=["shorter", "longer"])
def test_a_topic_that_was_made_anew_ends_the_service(service, records):
    """If the new topic has more records, the offset of the next record exists in it, and is another record's."""
    service.create("in")
    service.send("in", [row("a", n) for n in range(3)])
    service.run(service.pipeline(PIPELINE))
    delete(service)
    service.create("in")
    service.send("in", [row("a", n) for n in range(records)])
    with pytest.raises(DataLossError, match=f"topic {service.topic('in')} was deleted and created again"):
        service.run(service.pipeline(PIPELINE))
    service.run(service.pipeline(PIPELINE + "on_data_loss: continue\n"))
    service.run(service.pipeline(PIPELINE))


def test_a_topic_that_was_made_anew_is_noticed_without_the_checkpoint(service):
    """A restore would compute the state from the records that now have the offsets of the earlier ones."""
    service.create("in")
    service.send("in", [row("a", n) for n in range(3)])
    service.run(service.pipeline(PIPELINE))
    shutil.rmtree(service.folder / "checkpoint")
    delete(service)
    service.create("in")
    service.send("in", [row("a", n) for n in range(10, 19)])
    with pytest.raises(DataLossError, match=f"topic {service.topic('in')} was deleted and created again"):
        service.run(service.pipeline(PIPELINE))


def test_a_topic_that_goes_while_it_is_read_ends_the_service(service):
    service.create("in")
    service.send("in", [row("a", n) for n in range(3)])

    def gone():
        delete(service)
        time.sleep(0.2)
        return False

    with pytest.raises(TopicError, match=service.topic("in")):
        service.run(service.pipeline(PIPELINE), until=gone)


def delete(service):
    client = admin(service)
    (future,) = client.delete_topics([service.topic("in")], operation_timeout=10).values()
    if future.exception() is None:
        while service.topic("in") in client.list_topics(timeout=10).topics:
            time.sleep(0.05)
