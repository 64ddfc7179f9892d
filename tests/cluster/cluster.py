"""What tests of clusters share: Spark's daemons, the service on a master, its executors, and Spark's log of tasks."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyspark
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from sluice.config.load import load
from sluice.files import PACKAGE
from sluice.kafka import ledger
from sluice.kafka.batch_report import Entry
from sluice.kafka.embedded_broker import free_ports
from sluice.kafka.topics import create
from sluice.processes import ChildProcess, descendants
from sluice.replayer.player import replay
from sluice.wire.mark_headers import HEADER
from tests.unit.kafka.broker_tools import visible

SPARK = Path(pyspark.__file__).parent
#: seconds that anything may take
PATIENCE = 300
START = 1_357_000_000_000
Event = dict[str, Any]


class Standalone:
    """A master, which keeps what it knows in files, and workers of one core, each a process of its own. `environment`
    has variables of the workers, which their executors get.
    """

    def __init__(self, stack: ExitStack, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self._stack, self._folder, self._environment = stack, folder, dict(environment or {})
        self._workers: list[ChildProcess] = []
        (self._port,) = free_ports(1)
        self.url = f"spark://127.0.0.1:{self._port}"
        self.start_master()

    def start_master(self) -> None:
        self._master, log = self._daemon("master", "Master", "--port", str(self._port))
        awaited(lambda: f"Starting Spark master at {self.url}" in log.read_text(), log)

    def kill_master(self) -> None:
        self._master.kill()

    def add_worker(self) -> None:
        name = str(len(self._workers))
        own = ("--cores", "1", "--memory", "1g", "--work-dir", str(self._folder / f"work-{name}"), self.url)
        worker, log = self._daemon(f"worker-{name}", "Worker", *own)
        self._workers.append(worker)
        awaited(lambda: "Successfully registered with master" in log.read_text(), log)

    def end_worker(self, number: int) -> None:
        """As somebody who takes a machine away. Its executors end with it."""
        self._workers[number].terminate(30)

    def _daemon(self, name: str, kind: str, *arguments: str) -> tuple[ChildProcess, Path]:
        """Starts one of Spark's daemons; where its log is."""
        log = self._folder / f"{name}.log"
        command = [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind.lower()}.{kind}"]
        command += ["--host", "127.0.0.1", "--webui-port", "0", *arguments]
        options = f"-Dspark.deploy.recoveryMode=FILESYSTEM -Dspark.deploy.recoveryDirectory={self._folder / 'recovery'}"
        variables = {"SPARK_HOME": str(SPARK), "PYTHONPATH": "", "SPARK_DAEMON_JAVA_OPTS": options}
        process = ChildProcess(command, self._folder / name, log, variables | self._environment)
        self._stack.callback(process.kill)
        return process, log


class Service:
    """`sluice run` on a master, with one input stream `prices` whose records a test sends in portions."""

    def __init__(self, stack: ExitStack, broker: str, folder: Path, name: str, pipeline: str) -> None:
        self._broker, self._folder, self.name = broker, folder, name
        self.file, self.log, self._events = folder / "pipeline.yaml", folder / "service.log", folder / "events"
        self._events.mkdir()
        read = yaml.safe_load(pipeline)
        for stream, of in read["streams"].items():
            of |= {"topic": f"{name}.{stream}", "marks": "record"}
        read |= {"pipeline": name, "kafka": {"bootstrap.servers": broker}, "checkpoint": str(folder / "checkpoint")}
        self.file.write_text(yaml.safe_dump(read, sort_keys=False))
        create({"bootstrap.servers": broker}, NewTopic(f"{name}.prices", 1))
        self._stack = stack
        self._sent = list[Event]()

    def start(
        self, master: str, properties: Mapping[str, str] | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        """Starts the service on a master, with the event log of Spark on, and further Spark properties and variables
        of the environment.
        """
        command = [sys.executable, "-m", "sluice", "run", str(self.file), "--no-http", "--master", master]
        own = {"eventLog.enabled": "true", "eventLog.dir": str(self._events), "eventLog.compress": "false"}
        settings = {
            f"SLUICE_SPARK_{key.replace('.', '_')}": text for key, text in (own | dict(properties or {})).items()
        }
        variables = {"PYTHONPATH": str(PACKAGE.parent), "SPARK_LOCAL_IP": "127.0.0.1", **settings}
        self.run(command, variables | dict(environment or {}))

    def run(self, command: Sequence[str], variables: Mapping[str, str]) -> None:
        """Starts the service by this command, and waits until it runs."""
        self.process = ChildProcess(command, self._folder / "nothing", self.log, variables)
        self._stack.callback(self.process.kill)
        awaited(lambda: "message=running" in self.log.read_text(), self.log, self.process)

    def send(self, events: Iterable[Event]) -> None:
        producer = Producer({"bootstrap.servers": self._broker, "linger.ms": 20, "enable.idempotence": True})
        for event in events:
            self._sent.append(event)
            tuple_, at = json.dumps(event["tuple"]), round(event["at"] * 1000)
            producer.produce(f"{self.name}.prices", tuple_, timestamp=at)
            producer.poll(0)
        assert producer.flush(60) == 0

    def entries(self, after: int = -1) -> list[Entry]:
        """The ledger's entries of the batches after `after`."""
        kafka = {"bootstrap.servers": self._broker}
        found = (Entry.from_json(message.value()) for message in visible(kafka, ledger.TOPIC) if is_entry(message))
        return [entry for entry in found if entry.query == self.name and entry.batch > after]

    def last_batch(self) -> int:
        entry = ledger.last_entry({"bootstrap.servers": self._broker}, self.name)
        return -1 if entry is None else entry.batch

    def wait_for(self, happened: Callable[[], object]) -> Any:
        return awaited(happened, self.log, self.process)

    def check_outputs(self) -> None:
        """What the service wrote for all sent records is what `replay` gives, record by record."""
        expected: dict[str, list[object]] = {}
        for record in replay(load(self.file), iter(self._sent), clock_origin="first"):
            expected.setdefault(record["stream"], []).append(record.get("tuple") or record["punct"])
        for stream, records in expected.items():
            topic, count = f"{self.name}.{stream}", len(records)
            self.wait_for(lambda topic=topic, count=count: len(self._visible(topic)) >= count)
            assert outputs(self._visible(topic)) == records, stream

    def end(self) -> None:
        self.process.terminate(60)
        assert self.process.exit_code == 0, self.log.read_text()[-5000:]

    def tasks(self) -> TaskLog:
        """The log of Spark's tasks, which is complete after the end of the service."""
        return TaskLog.of(self._events)

    def _visible(self, topic: str) -> list:
        return visible({"bootstrap.servers": self._broker}, topic)


@dataclass
class TaskLog:
    """Which executors there were, and which of them ran the tasks of the buckets, by Spark's event log.

    executors   id of the executor -> (time of its start, time of its end or None), milliseconds since 1970
    began       batch -> time when its job began
    buckets     batch -> bucket -> id of the executor that ran the bucket's task with success
    """

    executors: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    began: dict[int, int] = field(default_factory=dict)
    buckets: dict[int, dict[int, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path) -> TaskLog:
        log, batches = cls(), dict[int, int]()
        for event in _events(folder):
            match event["Event"]:
                case "SparkListenerExecutorAdded":
                    log.executors[event["Executor ID"]] = event["Timestamp"], None
                case "SparkListenerExecutorRemoved":
                    log.executors[event["Executor ID"]] = log.executors[event["Executor ID"]][0], event["Timestamp"]
                case "SparkListenerJobStart" if "streaming.sql.batchId" in event["Properties"]:
                    batch = int(event["Properties"]["streaming.sql.batchId"])
                    batches |= dict.fromkeys(event["Stage IDs"], batch)
                    log.began[batch] = event["Submission Time"]
                case "SparkListenerTaskEnd" if event["Task Type"] == "ResultTask" and event["Stage ID"] in batches:
                    if event["Task End Reason"]["Reason"] == "Success":
                        task = event["Task Info"]
                        log.buckets.setdefault(batches[event["Stage ID"]], {})[task["Index"]] = task["Executor ID"]
        return log

    def moved(self, batches: Iterable[int]) -> int:
        """How many tasks of these batches ran on another executor than in the batch before."""
        return sum(
            self.buckets[batch][bucket] != executor
            for batch in batches
            for bucket, executor in self.buckets[batch - 1].items()
        )

    def shares(self, batch: int) -> list[int]:
        """How many buckets each executor had in this batch that ran at least one, the largest number first."""
        owners = list(self.buckets[batch].values())
        return sorted((owners.count(owner) for owner in set(owners)), reverse=True)

    def interval(self, batch: int) -> int:
        """Milliseconds from the begin of this batch to the begin of the next one."""
        return self.began[batch + 1] - self.began[batch]

    def since(self, time: int) -> list[int]:
        """The batches that began after this time."""
        return sorted(batch for batch, began in self.began.items() if began > time)


def _events(folder: Path) -> Iterator[Event]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith(("appstatus", ".")):
            yield from map(json.loads, path.read_text().splitlines())


def executors(pid: int) -> dict[str, int]:
    """The executors that run below a process: id -> number of the process."""
    found = {}
    for number in descendants(pid):
        with suppress(OSError, ValueError):
            words = Path(f"/proc/{number}/cmdline").read_bytes().decode().split("\0")
            if words[0].endswith("java") and "--executor-id" in words:
                found[words[words.index("--executor-id") + 1]] = number
    return found


def state_servers(executor: int) -> list[int]:
    """The processes that hold a bucket's state below an executor's process."""
    named = {}
    for number in descendants(executor):
        with suppress(OSError):
            named[number] = Path(f"/proc/{number}/comm").read_text() == "sluice-bucket\n"
    return [number for number, is_server in named.items() if is_server and not named.get(parent(number))]


def parent(number: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return 0


def own_memory(number: int) -> int:
    """Bytes of a process that it shares with no other process."""
    text = Path(f"/proc/{number}/smaps_rollup").read_text()
    return sum(int(kilobytes) << 10 for kilobytes in re.findall(r"Private_\w+:\s+(\d+) kB", text))


def is_entry(message: Any) -> bool:
    with suppress(ValueError, KeyError, TypeError):
        Entry.from_json(message.value())
        return True
    return False


def outputs(messages: list) -> list[object]:
    """Tuples and marks of records."""
    found: list[object] = []
    for message in messages:
        marks = [value.decode() for key, value in message.headers() or () if key == HEADER]
        found.append(marks[0] if marks else json.loads(message.value()))
    return found


def prices(first: int, count: int) -> Iterator[Event]:
    """The records number `first` and on of the stream `prices`, 37 ms apart."""
    for number in range(first, first + count):
        tuple_ = {"symbol": f"symbol {number * 7919 % 23}", "price": number * 31 % 997}
        yield {"at": (START + 37 * number) / 1000, "stream": "prices", "tuple": tuple_}


def awaited(happened: Callable[[], object], log: Path, process: ChildProcess | None = None) -> Any:
    """What `happened` gives once that is anything."""
    deadline = time.monotonic() + PATIENCE
    while not (found := happened()):
        assert time.monotonic() < deadline, log.read_text(errors="replace")[-5000:]
        assert process is None or process.exit_code is None, log.read_text(errors="replace")[-5000:]
        time.sleep(0.5)
    return found
