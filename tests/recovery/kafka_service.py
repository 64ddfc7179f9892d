"""`sluice run` in a process of its own, for tests that disturb Kafka under it."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from sluice.kafka.embedded_broker import free_ports
from sluice.processes import Tethered

#: seconds that anything may take on a machine that does much else
PATIENCE = 400


class Running:
    """A service on a pipeline with the topics `in` and `out`, each with one topic partition.

    kafka    the service's `kafka:` block
    direct   `bootstrap.servers` for the test's own clients
    """

    def __init__(self, folder: Path, kafka: Mapping[str, str], direct: str, pipeline: str) -> None:
        self._folder, self._direct = folder, direct
        self.file = folder / "pipeline.yaml"
        described = yaml.safe_load(pipeline)
        described |= {"pipeline": "recovery", "kafka": dict(kafka), "checkpoint": str(folder / "checkpoint")}
        self.file.write_text(yaml.safe_dump(described, sort_keys=False))
        create(direct, "in", "out")

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        (self.port,) = free_ports(1)
        self._process = Tethered(
            [sys.executable, "-m", "sluice", "run", str(self.file), "--http-port", str(self.port)],
            folder=self._folder,
            log=self._folder / "service.log",
            environment={"PYTHONPATH": os.environ.get("PYTHONPATH", str(Path.cwd())), **(environment or {})},
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        return self._process.exit_code

    def end(self) -> None:
        """SIGTERM; the service has to end in order within its ten seconds, and some for a busy machine."""
        self._process.terminate(20)
        assert self._process.exit_code == 0, self.log()

    def kill(self) -> None:
        self._process.kill()

    def log(self) -> str:
        return (self._folder / "service.log").read_text(errors="replace")[-6000:]

    def page(self, path: str) -> tuple[int, str]:
        """Status and text of a page; (0, "") while the service does not serve it."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, HTTPException):
            return 0, ""
        finally:
            connection.close()

    def await_true(self, condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert self.exit_code is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.1)


class Outputs:
    """What committed readers see of the topic `out`, from its beginning."""

    def __init__(self, direct: str) -> None:
        own = {"group.id": "tests", "isolation.level": "read_committed", "enable.auto.commit": False}
        self._consumer = Consumer({"bootstrap.servers": direct, "metadata.recovery.strategy": "none"} | own)
        self._consumer.assign([TopicPartition("out", 0, 0)])
        self.tuples: list[dict[str, Any]] = []

    def read(self) -> list[dict[str, Any]]:
        """All that was visible up to now, after a short wait for more."""
        for message in self._consumer.consume(10_000, 0.2):
            if message.error() is None and message.value():
                self.tuples.append(json.loads(message.value()))
        return self.tuples

    def counted(self, name: str) -> Counter[Any]:
        return Counter(one[name] for one in self.read())

    def close(self) -> None:
        self._consumer.close()


class Source(threading.Thread):
    """Writes records {"key": "a", "number": 0}, 1, 2 ... into the topic `in` until it is stopped."""

    def __init__(self, direct: str, pause: float = 0.05) -> None:
        super().__init__(name="source", daemon=True)
        own = {"enable.idempotence": True, "linger.ms": 0, "metadata.recovery.strategy": "none"}
        self._producer = Producer({"bootstrap.servers": direct} | own)
        self._pause = pause
        self._stopped = threading.Event()
        self.count = 0

    def run(self) -> None:
        while not self._stopped.wait(self._pause):
            self.send()

    def send(self) -> None:
        self._producer.produce("in", json.dumps({"key": "a", "number": self.count}).encode(), b"a")
        self._producer.poll(0)
        self.count += 1

    def stop(self) -> int:
        """How many records there are, all of them written."""
        self._stopped.set()
        if self.is_alive():
            self.join()
        assert self._producer.flush(120) == 0
        return self.count


def create(direct: str, *topics: str) -> None:
    client = AdminClient({"bootstrap.servers": direct})
    for future in client.create_topics([NewTopic(topic, 1) for topic in topics]).values():
        future.result()
