"""Exactly once: the service is killed again and again, and every record comes out once, in order."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
import yaml
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from sluice.checkpoint.folder_store import FolderStore
from sluice.checkpoint.offset_log import batches
from sluice.config.load import load
from sluice.files import project_file
from sluice.kafka import ledger
from sluice.kafka.murmur2 import partition_for
from sluice.processes import Tethered
from sluice.replayer.player import replay
from sluice.wire.mark_headers import HEADER
from sluice_demo.flights import load as load_flights

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

FLIGHTS = int(os.environ.get("SLUICE_TEST_FLIGHTS", "200000"))
MOST = 2_000
TOPIC_PARTITIONS = 3
OUTPUTS = ("flights.delays", "flights.days")
#: seconds that anything may take
PATIENCE = 600


def test_a_service_that_is_killed_writes_everything_once(broker, tmp_path):
    """Four kills: before anything was written, between Kafka's commit and Spark's log, and twice at random."""
    seed = int(os.environ.get("SLUICE_TEST_SEED", random.randrange(10**6)))
    print(f"seed {seed}: set SLUICE_TEST_SEED to repeat")  # noqa: T201 - so that a failure can be repeated
    chance = random.Random(seed)
    events = list(islice(flight_events(), FLIGHTS))
    send(broker, events)
    service = Service(broker, tmp_path, chance)
    expected = replayed(load(service.file), events)

    others = [service.await_pause, service.await_some_batches, service.await_some_batches]
    chance.shuffle(others)
    stands = [service.killed(moment) for moment in (service.await_plan, *others)]
    service.start()
    service.await_records(sum(map(len, expected.values())))
    service.end()

    assert stands[0].next_batch == 0, "nothing had been written at the first kill"
    assert any(stand.planned == stand.next_batch for stand in stands), "a batch is rerun"
    assert any(stand.planned == stand.next_batch - 1 > stand.committed for stand in stands), "a batch is there already"
    assert skipped(broker) >= 1, "the ledger knew it"
    found = outputs(broker)
    assert {place: len(records) for place, records in found.items()} == {p: len(r) for p, r in expected.items()}
    for place, records in expected.items():
        assert found[place] == records, place


# ---- the service -----------------------------------------------------------------------------------------------------


class Stand(NamedTuple):
    """Of a killed service: the last batch that Spark planned, the last that it knows to be done, the ledger's next."""

    planned: int
    committed: int
    next_batch: int


class Service:
    """`sluice run` in a process group of its own, on examples/flights.yaml."""

    def __init__(self, broker: str, folder: Path, chance: random.Random) -> None:
        self._kafka = {"bootstrap.servers": broker}
        self._folder = folder
        self._chance = chance
        self._checkpoint = folder / "checkpoint"
        self._moments = folder / "moments"
        self._moments.mkdir()
        self.file = folder / "flights.yaml"
        pipeline = yaml.safe_load(project_file("examples/flights.yaml").read_text())
        pipeline |= {"kafka": self._kafka, "checkpoint": str(self._checkpoint), "max_records_per_batch": MOST}
        for output in ("delays", "days"):
            pipeline["streams"][output]["partitions"] = TOPIC_PARTITIONS
        self.file.write_text(yaml.safe_dump(pipeline, sort_keys=False))

    def start(self) -> None:
        path = [str(Path(__file__).parent / "pausing"), os.environ.get("PYTHONPATH", str(Path.cwd()))]
        self._process = Tethered(
            [sys.executable, "-m", "sluice", "run", str(self.file), "--no-http"],
            folder=self._folder,
            log=self._folder / "service.log",
            environment={"SLUICE_TEST_MOMENTS": str(self._moments), "PYTHONPATH": os.pathsep.join(path)},
        )

    def end(self) -> None:
        self._process.terminate(PATIENCE)
        assert self._process.exit_code == 0, self.log()

    def killed(self, moment: Callable[[], None]) -> Stand:
        """Starts it and kills it at this moment; how things stand then."""
        self.start()
        try:
            moment()
        finally:
            self._process.kill()
        committed, planned = batches(FolderStore(self._checkpoint))
        stand = ledger.read_position(self._kafka, "flights", "read_uncommitted")
        return Stand(_number(planned), _number(committed), stand.next_batch if stand else 0)

    def await_plan(self) -> None:
        """The first batch is planned, and nothing written."""
        self._await(lambda: batches(FolderStore(self._checkpoint))[1] is not None)

    def await_pause(self) -> None:
        """A batch is in Kafka, and not in Spark's log."""
        self.await_some_batches()
        (self._moments / "written").write_text("pause")
        self._await((self._moments / "written.reached").exists)

    def await_some_batches(self) -> None:
        """Some batches have been written, and the next is somewhere on its way."""
        target = _number(batches(FolderStore(self._checkpoint))[0]) + self._chance.randint(2, 12)
        self._await(lambda: _number(batches(FolderStore(self._checkpoint))[0]) >= target)
        time.sleep(self._chance.uniform(0, 1))

    def await_records(self, count: int) -> None:
        consumer = reader(self._kafka)
        seen = 0
        while seen < count:
            messages = consumer.consume(10_000, 1)
            seen += sum(message.error() is None for message in messages)
            self._check()
        consumer.close()

    def log(self) -> str:
        return (self._folder / "service.log").read_text(errors="replace")[-5000:]

    def _await(self, happened: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not happened():
            assert time.monotonic() < deadline, self.log()
            self._check()
            time.sleep(0.005)

    def _check(self) -> None:
        assert self._process.exit_code is None, self.log()


def _number(batch: int | None) -> int:
    return -1 if batch is None else batch


# ---- what goes in and what comes out ---------------------------------------------------------------------------------


def flight_events():
    """The departures of 2013 with a mark behind each day, as events of a replay."""
    for day in load_flights():
        for departure in day.departures:
            place = topic_partition(departure.origin)
            yield {"at": departure.at / 1000, "topic_partition": place, "tuple": json.loads(departure.value)}
        for place in sorted({topic_partition(departure.origin) for departure in day.departures}):
            yield {"at": day.end / 1000, "topic_partition": place, "punct": "window"}


def topic_partition(key: str) -> int:
    return int(partition_for(pa.array([key.encode()]), TOPIC_PARTITIONS)[0])


def send(broker, events):
    client = AdminClient({"bootstrap.servers": broker})
    client.create_topics([NewTopic("flights", TOPIC_PARTITIONS)])["flights"].result()
    producer = Producer({"bootstrap.servers": broker, "linger.ms": 20})
    for event in events:
        record = {"partition": event["topic_partition"], "timestamp": int(event["at"] * 1000)}
        if "tuple" in event:
            record |= {"value": json.dumps(event["tuple"]), "key": event["tuple"]["origin"]}
        else:
            record |= {"headers": [(HEADER, event["punct"].encode())]}
        producer.produce("flights", **record)
        producer.poll(0)
    assert producer.flush(60) == 0


def replayed(pipeline, events):
    """Per topic and topic partition what `replay` gives; a mark goes where its run does."""
    found, place = defaultdict(list), {}
    for record in replay(pipeline, events):
        stream = record["stream"]
        if "tuple" in record:
            place[stream] = topic_partition(record["tuple"]["origin"])
        if "tuple" in record or pipeline.streams[stream].marks == "record":
            found[pipeline.streams[stream].topic, place[stream]].append(
                {key: record[key] for key in ("tuple", "punct") if key in record}
            )
    return dict(found)


def outputs(broker):
    """Per topic and topic partition what committed readers see."""
    consumer = reader({"bootstrap.servers": broker})
    found = defaultdict(list)
    while messages := consumer.consume(10_000, 5):
        for message in messages:
            assert message.error() is None
            marks = [value.decode() for name, value in message.headers() or () if name == HEADER]
            record = {"punct": marks[0]} if marks else {"tuple": json.loads(message.value())}
            found[message.topic(), message.partition()].append(record)
    consumer.close()
    return dict(found)


def skipped(broker):
    """How many batches the ledger knew already when they were run again."""
    consumer = reader({"bootstrap.servers": broker}, [(ledger.TOPIC, 0)])
    entries = [json.loads(message.value()) for message in consumer.consume(10_000, 5) if message.value()]
    consumer.close()
    return sum(entry["skipped"] for entry in entries if entry["query"] == "flights")


def reader(kafka, places=None):
    consumer = Consumer(kafka | {"group.id": "tests", "isolation.level": "read_committed", "enable.auto.commit": False})
    places = places or [(topic, number) for topic in OUTPUTS for number in range(TOPIC_PARTITIONS)]
    consumer.assign([TopicPartition(topic, number, 0) for topic, number in places])
    return consumer
