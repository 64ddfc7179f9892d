"""Exactly once: the service is killed again and again, and every record comes out once, in order."""

from __future__ import annotations

import json
import os
import random
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from sluice.checkpoint.folder_store import FolderStore
from sluice.checkpoint.offset_log import batches
from sluice.config.load import load
from sluice.files import project_file
from sluice.kafka.topics import create
from sluice.replayer.player import replay
from sluice.wire.mark_headers import HEADER
from sluice_demo.flights import load as load_flights
from tests.recovery.harness.output_reader import OutputReader, shown, topic_partition
from tests.recovery.harness.service import Position, position_of, skipped
from tests.recovery.harness.sluice_process import SluiceProcess
from tests.unit.kafka.broker_tools import visible

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

FLIGHTS = int(os.environ.get("SLUICE_TEST_FLIGHTS", "200000"))
MOST = 2_000
TOPIC_PARTITIONS = 3
#: so many records may wait in the producer, whose queue has 100,000
QUEUED = 50_000


def test_a_service_that_is_killed_writes_everything_once(broker, tmp_path):
    """Four kills: before anything was written, between Kafka's commit and Spark's log, and twice at random."""
    seed = int(os.environ.get("SLUICE_TEST_SEED", random.randrange(10**6)))
    print(f"seed {seed}: set SLUICE_TEST_SEED to repeat")  # noqa: T201 - so that a failure can be repeated
    chance = random.Random(seed)
    events = list(islice(flight_events(), FLIGHTS))
    send(broker, events)
    service = Flights(broker, tmp_path, chance)
    try:
        check_across_kills(service, events, chance)
    finally:
        service.clean_up()


def check_across_kills(service, events, chance):
    expected = replayed(load(service.file), events)
    others = [service.await_pause, service.await_some_batches, service.await_some_batches]
    chance.shuffle(others)
    positions = [service.killed(moment) for moment in (service.await_plan, *others)]
    service.start()
    service.await_outputs(expected)
    service.end()

    assert positions[0].next_batch == 0, "nothing had been written at the first kill"
    assert any(one.planned == one.next_batch for one in positions), "a batch is rerun"
    assert any(one.planned == one.next_batch - 1 > one.committed for one in positions), "a batch is there already"
    assert skipped(service.kafka, "flights") >= 1, "the ledger knew it"
    for (topic, place), records in expected.items():
        assert [shown(message) for message in visible(service.kafka, topic, place)] == records, (topic, place)


class Flights(SluiceProcess):
    """`sluice run` on examples/flights.yaml."""

    def __init__(self, broker: str, folder: Path, chance: random.Random) -> None:
        super().__init__(folder / "flights.yaml", folder)
        self.kafka = {"bootstrap.servers": broker}
        self._chance = chance
        self._checkpoint = folder / "checkpoint"
        pipeline = yaml.safe_load(project_file("examples/flights.yaml").read_text())
        pipeline |= {"kafka": self.kafka, "checkpoint": str(self._checkpoint), "max_records_per_batch": MOST}
        for output in ("delays", "days"):
            pipeline["streams"][output]["partitions"] = TOPIC_PARTITIONS
        pipeline["streams"]["days"]["marks"] = "record"
        self.file.write_text(yaml.safe_dump(pipeline, sort_keys=False))

    def killed(self, moment: Callable[[], None]) -> Position:
        """Starts it and kills it at this moment; the positions then."""
        self.start()
        moment()
        self.kill()
        return position_of(self.kafka, self._checkpoint, "flights")

    def await_plan(self) -> None:
        """The first batch is planned, and nothing written."""
        self.at("feeding")
        self.await_moment("feeding")

    def await_pause(self) -> None:
        """A batch is in Kafka, and not in Spark's log."""
        self.await_some_batches()
        self.at("written")
        self.await_moment("written")

    def await_some_batches(self) -> None:
        """Some batches have been written, and the next is somewhere on its way."""
        target = self._done() + self._chance.randint(2, 12)
        self.wait_until(lambda: self._done() >= target, "some batches are written")
        time.sleep(self._chance.uniform(0, 1))

    def _done(self) -> int:
        done, _ = batches(FolderStore(self._checkpoint))
        return -1 if done is None else done

    def await_outputs(self, expected) -> None:
        with ExitStack() as stack:
            readers = [
                stack.enter_context(OutputReader(self.kafka, topic, place, records))
                for (topic, place), records in expected.items()
            ]
            self.wait_until(lambda: all(reader.complete() for reader in readers), "all outputs are there")


# ---- what goes in and what comes out ---------------------------------------------------------------------------------


def flight_events():
    """The departures of 2013 with a mark behind each day, as events of a replay."""
    for day in load_flights():
        for departure in day.departures:
            place = topic_partition(departure.origin, TOPIC_PARTITIONS)
            yield {"at": departure.at / 1000, "topic_partition": place, "tuple": json.loads(departure.value)}
        for place in sorted({topic_partition(departure.origin, TOPIC_PARTITIONS) for departure in day.departures}):
            yield {"at": day.end / 1000, "topic_partition": place, "punct": "window"}


def send(broker, events):
    create({"bootstrap.servers": broker}, NewTopic("flights", TOPIC_PARTITIONS))
    producer = Producer({"bootstrap.servers": broker, "linger.ms": 20, "enable.idempotence": True})
    for event in events:
        record = {"partition": event["topic_partition"], "timestamp": int(event["at"] * 1000)}
        if "tuple" in event:
            record |= {"value": json.dumps(event["tuple"]), "key": event["tuple"]["origin"]}
        else:
            record |= {"headers": [(HEADER, event["punct"].encode())]}
        while len(producer) >= QUEUED:
            producer.poll(0.1)
        producer.produce("flights", **record)
    assert producer.flush(60) == 0


def replayed(pipeline, events):
    """Per topic and topic partition what `replay` gives; a mark goes where its run does."""
    found, place = defaultdict(list), {}
    for record in replay(pipeline, events):
        stream = record["stream"]
        if "tuple" in record:
            place[stream] = topic_partition(record["tuple"]["origin"], TOPIC_PARTITIONS)
        if "tuple" in record or pipeline.streams[stream].marks == "record":
            found[pipeline.streams[stream].topic, place[stream]].append(
                {key: record[key] for key in ("tuple", "punct") if key in record}
            )
    return dict(found)
