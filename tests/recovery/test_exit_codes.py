"""Each row of the table in docs/operations.md ("What ends it"), of a service in a process of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from sluice.kafka.embedded_broker import EmbeddedBroker, free_ports
from sluice.processes import Tethered

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

#: seconds until a service has started, and until it has ended
PATIENCE = 240
NUMBERS = count()
PIPELINE = """\
pipeline: NAME
streams:
  in: {topic: NAME.in, schema: {number: int64}}
  out: {topic: NAME.out}
operators:
  - {name: one, map: in, output: {out: {x: EXPRESSION}}}
kafka: {bootstrap.servers: BROKER}
checkpoint: CHECKPOINT
"""


class Service:
    """`sluice run` in a process group of its own, on a file with one operator and without state."""

    def __init__(self, broker: str, folder: Path) -> None:
        self._broker, self._folder = broker, folder
        folder.mkdir(exist_ok=True)
        self.name = f"ends-{next(NUMBERS)}"
        self.checkpoint = folder / "checkpoint"
        self.file = folder / f"{self.name}.yaml"
        self._process: Tethered | None = None
        self.write()

    def write(self, expression: str = "number", broker: str | None = None) -> None:
        text = PIPELINE.replace("NAME", self.name).replace("EXPRESSION", expression)
        text = text.replace("CHECKPOINT", str(self.checkpoint)).replace("BROKER", broker or self._broker)
        self.file.write_text(text)

    def send(self) -> None:
        """A record, to the input's topic, which is created if need be."""
        client = AdminClient({"bootstrap.servers": self._broker})
        if f"{self.name}.in" not in client.list_topics(timeout=30).topics:
            (future,) = client.create_topics([NewTopic(f"{self.name}.in", 1)]).values()
            future.result()
        producer = Producer({"bootstrap.servers": self._broker})
        producer.produce(f"{self.name}.in", b'{"number": 1}')
        assert producer.flush(30) == 0

    def start(self, *options: str, **environment: str) -> Service:
        self._log = self._folder / f"{self.name}.{next(NUMBERS)}.log"
        command = [sys.executable, "-m", "sluice", "run", str(self.file), "--no-http", "--master", "local[1]"]
        # The folder that a tether removes when it is torn is the log's own.
        self._process = Tethered([*command, *options], self._folder / "torn", self._log, environment)
        return self

    def run_some(self) -> Service:
        """Starts it with a record to read, and returns when its first batch is done."""
        self.send()
        self.start()
        self.wait_for((self.checkpoint / "commits" / "0").exists)
        return self

    def terminate(self) -> None:
        self._running.terminate(PATIENCE)

    def wait_for(self, happened: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not happened():
            assert self._running.exit_code is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.05)

    def ended(self) -> int:
        """Its exit code, once it has ended by itself."""
        deadline = time.monotonic() + PATIENCE
        while self._running.exit_code is None:
            assert time.monotonic() < deadline, self.log
            time.sleep(0.05)
        return int(self._running.exit_code)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    @property
    def _running(self) -> Tethered:
        assert self._process is not None
        return self._process

    @property
    def pid(self) -> int:
        return self._running.pid

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def sentence(self) -> str:
        """The last line, which says why it ended. There is no stack trace but in the fields of the log."""
        lines = self.log.splitlines()
        assert not [line for line in lines if line.startswith(("Traceback", "  File "))], self.log
        said = [line for line in lines if line.startswith("sluice: ") and "reads" not in line]
        assert len(said) == 1, self.log
        return said[0].removeprefix("sluice: ")


@pytest.fixture
def service(broker: str, tmp_path: Path) -> Iterator[Service]:
    one = Service(broker, tmp_path)
    yield one
    one.kill()


# ---- before Spark starts ---------------------------------------------------------------------------------------------


def test_1_the_pipeline_file_is_wrong(service: Service):
    service.write(expression="numbr")
    service.start()
    assert service.ended() == 1
    assert "did you mean number?" in service.log


def test_2_the_call_is_wrong(service: Service):
    assert service.start("--buckets", "0").ended() == 2


def test_2_a_client_property_is_wrong(service: Service):
    assert service.start("--kafka", "retries").ended() == 2


@pytest.mark.slow
def test_3_no_broker_answers(service: Service):
    (port,) = free_ports(1)
    service.write(broker=f"127.0.0.1:{port}")
    assert service.start().ended() == 3
    assert f"cannot connect to Kafka at 127.0.0.1:{port}: the connection is refused" in service.sentence


@pytest.mark.slow
def test_3_the_address_of_the_broker_stays_hidden(service: Service):
    (port,) = free_ports(1)
    service.write(broker='"${BROKERS}"')
    assert service.start(BROKERS=f"127.0.0.1:{port}").ended() == 3
    assert "cannot connect to Kafka at ${BROKERS}: the connection is refused" in service.sentence
    assert str(port) not in service.log


def test_3_an_input_topic_is_missing(service: Service):
    assert service.start().ended() == 3
    assert f"no such topic: {service.name}.in" in service.sentence


def test_3_there_is_no_java(service: Service):
    service.send()
    assert service.start(JAVA_HOME="/nowhere").ended() == 3
    assert "JAVA_HOME is /nowhere, which has no bin/java" in service.sentence


def test_4_the_checkpoint_is_another_pipelines(service: Service):
    service.send()
    service.checkpoint.mkdir()
    (service.checkpoint / "notes.txt").touch()
    assert service.start().ended() == 4
    assert "it is not a checkpoint of Sluice" in service.sentence


# ---- while it runs -----------------------------------------------------------------------------------------------


def test_0_it_is_told_to_end(service: Service):
    service.run_some()
    service.terminate()
    assert service.ended() == 0


def test_0_it_is_told_to_end_while_java_starts(service: Service):
    service.send()
    service.start()
    service.wait_for(lambda: javas_of(service.pid))
    service.terminate()
    assert service.ended() == 0


@pytest.mark.slow
def test_3_java_is_killed(service: Service):
    service.run_some()
    os.kill(java_of(service.pid), signal.SIGKILL)
    assert service.ended() == 3
    assert "the Java process of Spark has ended unexpectedly, by the signal SIGKILL" in service.sentence


@pytest.mark.slow
def test_3_the_broker_goes(tmp_path: Path):
    with EmbeddedBroker() as broker:
        service = Service(broker.bootstrap, tmp_path)
        try:
            service.run_some()
            broker.kill()
            assert service.ended() == 3
            assert "do not answer" in service.sentence
        finally:
            service.kill()


@pytest.mark.slow
def test_5_another_instance_has_the_checkpoint(service: Service, broker: str, tmp_path: Path):
    service.run_some()
    other = Service(broker, tmp_path)
    other.name = service.name
    other.write()
    try:
        assert other.start().ended() == 5
        assert "another instance" in other.sentence
    finally:
        other.kill()
    service.terminate()
    assert service.ended() == 0


@pytest.mark.slow
def test_5_another_instance_takes_over_with_a_copy_of_the_checkpoint(service: Service, broker: str, tmp_path: Path):
    service.run_some()
    other = Service(broker, tmp_path / "other")
    other.name = service.name
    shutil.copytree(service.checkpoint, other.checkpoint)
    other.write()
    try:
        other.start()
        other.wait_for(lambda: "running" in other.log)
        other.wait_for(lambda: service.send() or service._running.exit_code is not None)  # noqa: SLF001
        assert service.ended() == 5
        assert "another instance" in service.sentence
    finally:
        other.kill()


#: a damaged file of Spark's in the checkpoint, below its folder
DAMAGES = {"metadata": "xx", "offsets/0": "v1\ngarb{age", "commits/0": "", "sources/0/0": "xx"}


@pytest.mark.slow
@pytest.mark.parametrize(("file", "content"), DAMAGES.items())
def test_4_a_file_of_the_checkpoint_is_damaged(service: Service, file: str, content: str):
    service.run_some()
    service.terminate()
    (service.checkpoint / file).write_text(content)
    service.send()
    assert service.start().ended() == 4
    assert "checkpoint" in service.sentence


def java_of(pid: int) -> int:
    """The Java process that a process started."""
    (java,) = javas_of(pid)
    return java


def javas_of(pid: int) -> list[int]:
    rows = subprocess.run(["ps", "-eo", "pid,ppid,comm"], capture_output=True, text=True, check=True).stdout.split("\n")
    children = [row.split() for row in rows[1:] if row]
    return [int(child) for child, parent, name in children if int(parent) == pid and name == "java"]
