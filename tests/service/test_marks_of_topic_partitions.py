"""What a window mark closes, if the records of a stream are in several topic partitions of a real topic."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from confluent_kafka.admin import AdminClient

from sluice.model.stream_marks import CHOICES
from tests.service.events_as_records import ORIGIN, record, replayed

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PIPELINE = """
streams:
  sales: {schema: {shop: string, amount: int64}MORE}
  days: {}
operators:
  - name: day
    aggregate: sales
    window: tumbling, punct(), partitioned
    partition_by: [shop]
    output: {days: {shop: shop, total: Sum(amount)}}
clock: records
buckets: 2
"""
EVENTS = [
    {"at": 0, "topic_partition": 0, "tuple": {"shop": "north", "amount": 1}},
    {"at": 1, "topic_partition": 1, "tuple": {"shop": "south", "amount": 2}},
    {"at": 2, "topic_partition": 1, "tuple": {"shop": "west", "amount": 3}},
    {"at": 3, "topic_partition": 0, "tuple": {"shop": "north", "amount": 4}},
    {"at": 4, "topic_partition": 1, "punct": "window"},
    {"at": 5, "topic_partition": 0, "tuple": {"shop": "south", "amount": 5}},
    {"at": 6, "topic_partition": 0, "punct": "window"},
    {"at": 7, "topic_partition": 1, "punct": "window"},
]


#: by scope, the totals of the closed windows, in order
DAYS = {
    "topic_partition": [("south", 2), ("west", 3), ("north", 5), ("south", 5)],
    "any": [("north", 5), ("south", 2), ("west", 3), ("south", 5)],
    "aligned": [("north", 5), ("south", 7), ("west", 3)],
}


@pytest.mark.parametrize("rounds", [1, 3], ids=["in one run", "in three runs"])
@pytest.mark.parametrize("scope", DAYS)
def test_what_a_mark_closes(service, scope, rounds):
    service.create("sales", partitions=2)
    pipeline = service.pipeline(PIPELINE.replace("MORE", f", marks_in: {scope}"))
    for number in range(rounds):
        some = EVENTS[len(EVENTS) * number // rounds : len(EVENTS) * (number + 1) // rounds]
        service.send("sales", [record(event, ORIGIN) for event in some])
        service.run(pipeline)
    found = service.outputs("days")
    assert [(one["tuple"]["shop"], one["tuple"]["total"]) for one in found if "tuple" in one] == DAYS[scope]
    assert found == replayed(pipeline, EVENTS)["days"]


def test_a_start_refuses_several_topic_partitions_without_the_word(service):
    service.create("sales", partitions=2)
    service.pipeline(PIPELINE.replace("MORE", ""))
    file = service.folder / "sales.yaml"
    file.write_text(service.file)
    command = [sys.executable, "-m", "sluice", "run", str(file), "--no-http"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "sluice: streams.sales: expected marks_in, as sales has 2 topic partitions and its window marks close day "
        f"({CHOICES.strip('()')})"
    )
    assert not (service.folder / "checkpoint" / "sluice.json").exists()
    assert (
        service.topic("days") not in AdminClient({"bootstrap.servers": service.broker}).list_topics(timeout=10).topics
    )


def test_plain_consumers_read_a_tuple_in_each_record_by_default(service):
    """The mark of the second firing of `south` at 7 finds nothing, and writes nothing."""
    service.create("sales", partitions=2)
    text = PIPELINE.replace("MORE", ", marks_in: any").replace("days: {}", "days: {marks: null}")
    service.send("sales", [record(event, ORIGIN) for event in EVENTS])
    service.run(service.pipeline(text))
    messages = service.read("days")
    assert [json.loads(message.value())["shop"] for message in messages] == ["north", "south", "west", "south"]
    assert [message.headers() for message in messages] == [[("sluice-mark", b"window")]] * 4
