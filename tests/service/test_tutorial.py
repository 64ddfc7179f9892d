"""docs/tutorial.md, command by command, on a real broker. Topics and the pipeline get names of their own."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from sluice.files import project_file
from sluice.kafka.topics import create
from sluice.processes import ChildProcess
from tests.unit.kafka.broker_tools import visible

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PAGE = project_file("docs/tutorial.md").read_text(encoding="utf-8")
#: the commands of the page that are run here, in their order
COMMANDS = re.findall(r"(?m)^(sluice .*)$", PAGE) + re.findall(r"`(sluice windows [^`]*)`", PAGE)
ORDERS = [{"shop": "north", "amount": 12.5}, {"shop": "south", "amount": 3.0}, {"shop": "north", "amount": "much"}]
SECONDS = 120


class Reader:
    """A reader of the page: a folder with the pipeline file, and a topic with orders."""

    def __init__(self, broker: str, folder: Path) -> None:
        self.kafka, self.folder, self.topic = {"bootstrap.servers": broker}, folder, f"orders-{uuid4().hex[:8]}"
        text = project_file("examples/tutorial/revenue.yaml").read_text()
        (folder / "revenue.yaml").write_text(self.renamed(text.replace("pipeline: revenue", f"pipeline: {self.topic}")))

    def renamed(self, text: str) -> str:
        """A text of the page with the reader's broker and topics."""
        named = re.sub(r"(topic: |record )orders", rf"\1{self.topic}", text)
        return named.replace("localhost:9092", self.kafka["bootstrap.servers"])

    def command(self, name: str) -> str:
        (found,) = [command for command in COMMANDS if command.startswith(f"sluice {name} ")]
        return f"{shlex.quote(sys.executable)} -m {self.renamed(found)}"

    def run(self, name: str) -> subprocess.CompletedProcess[str]:
        command = ["/bin/sh", "-c", self.command(name)]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=True)

    def send_orders(self) -> None:
        create(self.kafka, NewTopic(self.topic, 1))
        producer = Producer(self.kafka)
        for order in ORDERS:
            producer.produce(self.topic, json.dumps(order))
        assert producer.flush(30) == 0

    def start(self) -> ChildProcess:
        command = ["/bin/sh", "-c", f"cd {shlex.quote(str(self.folder))} && exec {self.command('run')} --no-http"]
        return ChildProcess(command, self.folder, self.folder / "log")

    def await_tuples(self, topic: str, number: int) -> list[bytes]:
        """The values of the committed records of a topic, without marks, once there are so many."""
        deadline = time.monotonic() + SECONDS
        while len(values := list(self.values(topic))) < number:
            assert time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.5)
        return values

    def values(self, topic: str) -> Iterator[bytes]:
        if topic in AdminClient(self.kafka).list_topics(timeout=10).topics:
            yield from (value for message in visible(self.kafka, topic, 0) if (value := message.value()))


def test_the_commands_of_the_page():
    assert [command.split()[1] for command in COMMANDS] == ["record", "check", "explain", "replay", "run", "windows"]


def test_a_reader_of_the_page_gets_a_window_on_a_topic(broker: str, tmp_path: Path):
    reader = Reader(broker, tmp_path)
    reader.send_orders()
    reader.run("record")
    assert reader.run("check").stdout.startswith(f"pipeline {reader.topic}\n")
    assert "sliding, count(5), count(1), partitioned" in reader.run("explain").stdout
    replayed = [json.loads(line) for line in reader.run("replay").stdout.splitlines()]
    tuples = [record["tuple"] for record in replayed if "tuple" in record]
    assert [tuple(values.values()) for values in tuples] == [("north", 1, 12.5, 12.5), ("south", 1, 3.0, 3.0)]
    (rejected,) = [record["dead_letter"]["reason"] for record in replayed if "dead_letter" in record]
    assert rejected.startswith("wrong type: amount")
    service = reader.start()
    try:
        results = reader.await_tuples(f"{reader.topic}.revenue", 2)
        assert reader.await_tuples(f"{reader.topic}.dead", 1) == [json.dumps(ORDERS[2]).encode()]
        windows = reader.run("windows").stdout
    finally:
        service.terminate(60)
    assert [json.loads(value) for value in results] == tuples
    assert '"north"' in windows
    assert "12.5" in windows
    assert service.exit_code == 0
    assert (tmp_path / "checkpoints/revenue").is_dir()
