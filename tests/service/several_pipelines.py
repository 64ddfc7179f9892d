"""A service of several pipelines as a process of its own, on a real broker."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from sluice.kafka.embedded_broker import free_ports
from sluice.kafka.topics import create
from sluice.processes import ChildProcess
from tests.unit.kafka.broker_tools import visible

#: seconds that anything may take
PATIENCE = 240


class Several:
    """Pipelines that sum `SIZE` numbers at a time, each with topics of its own, and the service that runs them."""

    SIZE = 2

    def __init__(self, broker: str, root: Path, prefix: str) -> None:
        self.kafka = {"bootstrap.servers": broker}
        self.root, self._prefix = root, prefix
        self.folder = root / "pipelines"
        self.folder.mkdir()
        (self.port,) = free_ports(1)
        self.admin = AdminClient(self.kafka)
        self.process: ChildProcess | None = None

    def name(self, short: str) -> str:
        return f"{self._prefix}-{short}"

    def file(self, short: str) -> Path:
        return self.folder / f"{short}.yaml"

    def checkpoint(self, short: str) -> Path:
        return self.root / "checkpoints" / self.name(short)

    def create(self, short: str) -> None:
        """Creates the input topic of a pipeline, unless it exists."""
        create(self.kafka, NewTopic(f"{self.name(short)}.in", 1))

    def delete(self, short: str) -> None:
        """Deletes the input topic of a pipeline."""
        (future,) = self.admin.delete_topics([f"{self.name(short)}.in"]).values()
        future.result()

    def write(self, short: str, size: int = SIZE, operator: str = "sum", **more: Any) -> None:
        """The file of a pipeline, which is replaced as a whole."""
        name = self.name(short)
        pipeline = {
            "pipeline": name,
            "streams": {
                "in": {"topic": f"{name}.in", "schema": {"number": "int64"}},
                "out": {"topic": f"{name}.out", "partitions": 1},
            },
            "operators": [
                {
                    "name": operator, "aggregate": "in", "window": f"tumbling, count({size})",
                    "output": {"out": {"sum": "Sum(number)"}},
                }
            ],
            "kafka": self.kafka,
            **more,
        }  # fmt: skip
        self.file(short).write_text(yaml.safe_dump(pipeline, sort_keys=False))

    def send(self, short: str, numbers: range, *, final: bool = False) -> None:
        producer = Producer(self.kafka)
        for number in numbers:
            producer.produce(f"{self.name(short)}.in", json.dumps({"number": number}).encode())
        if final:
            producer.produce(f"{self.name(short)}.in", headers=[("sluice-mark", b"final")])
        assert producer.flush(30) == 0

    def sums(self, short: str) -> list[int]:
        """What committed readers of the output see."""
        topic = f"{self.name(short)}.out"
        if topic not in self.admin.list_topics(timeout=30).topics:
            return []
        return [json.loads(record.value())["sum"] for record in visible(self.kafka, topic, 0) if record.value()]

    def start(self, *arguments: str) -> None:
        self.kill()  # what is left of an earlier start
        files = () if any(argument.endswith(".yaml") for argument in arguments) else (str(self.folder),)
        command = [
            *(sys.executable, "-m", "sluice", "run", *files, *arguments, "--master", "local[2]", "--buckets", "2"),
            *("--http-port", str(self.port), "--checkpoint", str(self.root / "checkpoints")),
        ]
        environment = {"PYTHONPATH": os.environ.get("PYTHONPATH", str(Path.cwd()))}
        self.process = ChildProcess(command, self.root / "torn", self.root / "log", environment)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()

    def exit_code(self) -> int:
        """The exit code, once the service has ended by itself."""
        assert self.process is not None
        self.wait_for(lambda: self.process is not None and self.process.exit_code is not None, running=False)
        assert self.process.exit_code is not None
        return self.process.exit_code

    def terminated(self) -> tuple[int, float]:
        """Sends SIGTERM. The exit code, and the seconds that the end took."""
        assert self.process is not None
        began = time.monotonic()
        os.kill(self.process.pid, signal.SIGTERM)
        code = self.exit_code()
        return code, time.monotonic() - began

    def log(self) -> str:
        return (self.root / "log").read_text(errors="replace")[-12000:]

    def wait_for(self, happened: Callable[[], bool], *, running: bool = True) -> None:
        deadline = time.monotonic() + PATIENCE
        while not happened():
            assert time.monotonic() < deadline, self.log()
            assert not running or (self.process is not None and self.process.exit_code is None), self.log()
            time.sleep(0.1)

    def asked(self, path: str = "/readyz") -> tuple[int, dict[str, Any]]:
        """The status code, and the JSON that says which pipelines; 0 and nothing while the port is closed."""
        request = Request(f"http://127.0.0.1:{self.port}{path}", headers={"Accept": "application/json"})
        try:
            with urlopen(request, timeout=10) as answer:  # noqa: S310 - our own
                return answer.status, json.load(answer)
        except HTTPError as error:
            with error:
                return error.code, json.load(error)
        except (URLError, ConnectionError):
            return 0, {"pipelines": [], "wrong_files": []}

    def page(self, short: str) -> dict[str, Any]:
        """What the page of a pipeline shows."""
        return self.asked(f"/api/pipelines/{self.name(short)}")[1]

    def status(self, short: str) -> dict[str, Any]:
        """The status of a pipeline; empty if the service has no such pipeline."""
        name = self.name(short)
        return next((one for one in self.asked()[1]["pipelines"] if one["name"] == name), {})

    def state(self, short: str) -> str:
        return str(self.status(short).get("state", ""))

    def metric(self, name: str, short: str) -> float:
        with urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        label = f'pipeline="{self.name(short)}"'
        return next(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"{name}{{") and label in line)


def sums_of(numbers: range, size: int = Several.SIZE) -> list[int]:
    """The sums of each `size` numbers of a topic partition, as the windows give them."""
    return [sum(numbers[at : at + size]) for at in range(0, len(numbers) - size + 1, size)]
