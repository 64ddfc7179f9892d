"""What happens to topics while a service reads them: they grow, lose records, go."""

from __future__ import annotations

import json
import shutil
import time
from functools import partial

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from sluice.kafka.kafka_errors import DataLossError, TopicError
from sluice.kafka.ledger import last_entry
from tests.unit.kafka.broker_tools import add_topic_partitions

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
            add_topic_partitions({"bootstrap.servers": service.broker}, service.topic("in"), 2)
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


def test_or_it_goes_on_with_what_is_there_and_counts_what_is_lost(service, caplog):
    service.create("in")
    service.send("in", [row("a", n) for n in range(3)])
    service.run(service.pipeline(PIPELINE))
    service.send("in", [row("a", n) for n in range(3, 8)])
    lose(service, 6)
    service.send("in", [MARK])
    service.run(service.pipeline(PIPELINE + "on_data_loss: continue\n"))
    assert service.outputs("out")[0] == {"tuple": {"key": "a", "all": [0, 1, 2, 6, 7]}}
    assert f"topic {service.topic('in')}, topic partition 0: 3 offsets are lost, from 3 on" in caplog.text
    entry = last_entry({"bootstrap.servers": service.broker}, service.name)
    assert entry.report.lost == {service.topic("in"): {"0": 3}}


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


PAIRS = """
streams:
  in: {schema: {number: int64}}
  out: {}
operators:
  - {name: pairs, aggregate: in, window: "tumbling, count(2)", output: {out: {all: Collect(number)}}}
clock: records
buckets: 1
"""
#: seconds between the end of a topic and its new beginning, while a service runs
GAPS = [0.03, 0.5, 1.5]
#: how many records a topic of ten has when it is created again
NEW = {"more records": 30, "as many": 10, "fewer": 4}
#: each gap and each number of records in the quick tests, and all pairs of them in `make test-long`
every_new_topic = pytest.mark.parametrize(("gap", "after"), [
    pytest.param(gap, records, id=f"{what}-{gap}", marks=[pytest.mark.slow] if place != number else [])
    for number, (what, records) in enumerate(NEW.items()) for place, gap in enumerate(GAPS)
])  # fmt: skip


def number(value, partition=0):
    return {"value": json.dumps({"number": value}).encode(), "partition": partition}


def numbers(service):
    return [number for one in service.outputs("out") for number in one.get("tuple", {"all": []})["all"]]


def created_again_once(service, gap, sent, after, partitions=1):
    """Deletes the topic when all numbers before were read, creates it again, and sends further numbers."""
    happened = []

    def until(done=lambda: False):
        if not happened and len(numbers(service)) == sent // 2 * 2:
            delete(service)
            time.sleep(gap)
            service.create("in", partitions)
            service.send("in", [number(n) for n in range(sent, sent + after)])
            happened.append(True)
        return bool(happened) and done()

    return until


def send_numbers(service, count):
    service.create("in")
    service.send("in", [number(n) for n in range(count)])


@every_new_topic
def test_a_topic_that_is_created_again_while_it_is_read_ends_the_service(service, gap, after):
    """No record of the new topic is in a batch, also if the new topic has overtaken the old offsets."""
    send_numbers(service, 10)
    until = created_again_once(service, gap, 10, after)
    with pytest.raises(DataLossError, match=f"topic {service.topic('in')} was deleted and created again while"):
        service.run(service.pipeline(PAIRS), until)
    assert numbers(service) == list(range(10))


@every_new_topic
def test_or_all_records_of_the_new_topic_are_read_once_with_the_state_of_before(service, gap, after, caplog):
    send_numbers(service, 11)  # the last one waits in a window
    until = created_again_once(service, gap, 11, after - 1)
    service.run(
        service.pipeline(PAIRS + "on_data_loss: continue\n"),
        partial(until, lambda: len(numbers(service)) == 10 + after),
    )
    assert numbers(service) == list(range(10 + after))
    assert f"topic {service.topic('in')} was deleted and created again" in caplog.text


@pytest.mark.parametrize(("before", "after"), [(3, 1), (1, 3)], ids=["fewer topic partitions", "more topic partitions"])
def test_a_topic_may_be_created_again_with_another_number_of_topic_partitions(service, before, after):
    service.create("in", before)
    for partition in range(before):
        service.send("in", [number(n, partition) for n in range(10 * partition, 10 * partition + 4)])
    happened = []

    def until():
        if not happened and len(numbers(service)) == 4 * before:
            happened.append(True)
            delete(service)
            service.create("in", after)
            for partition in range(after):
                service.send("in", [number(n, partition) for n in range(100 + 10 * partition, 106 + 10 * partition)])
        return len(numbers(service)) == 4 * before + 6 * after

    service.run(service.pipeline(PAIRS + "on_data_loss: continue\n"), until)
    new = [100 + 10 * partition + n for partition in range(after) for n in range(6)]
    assert sorted(numbers(service))[4 * before :] == new


@pytest.mark.parametrize("loss", ["fail", "continue"])
def test_a_topic_that_is_created_again_is_noticed_by_jobs_of_spark_too(service, loss):
    send_numbers(service, 10)
    until = created_again_once(service, 0.03, 10, 30)
    pipeline = service.pipeline(f"{PAIRS}direct_records: 0\non_data_loss: {loss}\n")
    if loss == "fail":
        with pytest.raises(DataLossError, match="was deleted and created again while"):
            service.run(pipeline, until)
        assert numbers(service) == list(range(10))
    else:
        service.run(pipeline, partial(until, lambda: len(numbers(service)) == 40))
        assert numbers(service) == list(range(40))


@pytest.mark.parametrize("records", [5, 30], ids=["shorter", "longer"])
def test_a_start_reads_a_topic_that_was_created_again_from_its_beginning(service, records):
    send_numbers(service, 10)
    service.run(service.pipeline(PAIRS), lambda: len(numbers(service)) == 10)
    delete(service)
    service.create("in")
    service.send("in", [number(n) for n in range(10, 10 + records)])
    whole = 10 + records // 2 * 2
    for _ in range(2):
        service.run(service.pipeline(PAIRS + "on_data_loss: continue\n"), lambda: len(numbers(service)) == whole)
    assert numbers(service) == list(range(whole))


def delete(service):
    client = admin(service)
    (future,) = client.delete_topics([service.topic("in")], operation_timeout=10).values()
    if future.exception() is None:
        while service.topic("in") in client.list_topics(timeout=10).topics:
            time.sleep(0.05)
