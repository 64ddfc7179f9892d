"""A service as a real process under a real broker: records go in, its processes are killed, records come out once.

`Service` runs one pipeline file with `sluice run`. A test sends records, finds the service's processes by what they do
(`Service.pids`), stops or fails them at a chosen moment (pausing/sitecustomize.py), and compares all that a committed
reader sees with what `replay` gives for the same records: the pure engine is the independent calculation.

Every wait is for something that can be observed, and has a bound.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import yaml
from confluent_kafka import Consumer, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from sluice.checkpoint.folder_store import FolderStore
from sluice.checkpoint.offset_log import batches
from sluice.config.load import load
from sluice.kafka import ledger
from sluice.kafka.client import client_properties
from sluice.kafka.murmur2 import partition_for
from sluice.kafka.topics import LEDGER_CONFIG
from sluice.model.spec import Pipeline
from sluice.processes import Tethered
from sluice.replayer.player import replay
from sluice.wire.mark_headers import HEADER
from tests.unit.kafka.tools import create, end, visible

#: seconds that anything may take; a start alone takes ten on a quiet machine
PATIENCE = float(os.environ.get("SLUICE_TEST_PATIENCE", "240"))
INTERVAL = 0.05
#: topic partitions of every topic, so that a key's outputs are in the topic partition that its inputs are in
TOPIC_PARTITIONS = 2
#: record timestamps begin here, in milliseconds, and are one millisecond apart
ORIGIN = 1_357_000_000_000

Record = dict[str, Any]
CLOCK: Record = {}
#: a topic partition of a stream
Place = tuple[str, int]


class Position(NamedTuple):
    """Of a service: the last batch that Spark planned, the last that Spark finished (-1: none), the ledger's next."""

    planned: int
    committed: int
    next_batch: int


class Process(NamedTuple):
    pid: int
    name: str
    parent: int
    group: int
    state: str
    arguments: tuple[str, ...]


# ---- waiting ---------------------------------------------------------------------------------------------------------


def wait_until(
    happened: Callable[[], Any], what: str, seconds: float = PATIENCE, *, log: Callable[[], str] = str
) -> Any:
    """The first true value of `happened`."""
    deadline = time.monotonic() + seconds
    while not (value := happened()):
        assert time.monotonic() < deadline, f"within {seconds:g} s: {what}\n{log()}"
        time.sleep(INTERVAL)
    return value


# ---- processes -------------------------------------------------------------------------------------------------------


def processes(session: int) -> list[Process]:
    """Those of a session that have not ended; children of a process that died stay in its session."""
    found = (_process(int(folder.name), session) for folder in Path("/proc").glob("[0-9]*"))
    return [one for one in found if one and one.state not in "ZX"]


def _process(pid: int, session: int) -> Process | None:
    """None where it ended, or belongs to another session."""
    try:
        head, tail = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)
        state, parent, group, own = tail.split()[:4]
        if int(own) != session:
            return None
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return None
    return Process(pid, head.partition("(")[2], int(parent), int(group), state, tuple(arguments))


#: what the processes of a service do
ROLES = ("driver", "jvm", "daemon", "worker", "pool", "state", "committer", "clock")
#: the first words of the shell that kills a program when the test dies (processes.py)
TETHER = ("/bin/sh", "-c")
#: the name of a process between the daemon and the pool, where there is one
SUPERVISED = "sluice-pool"
WORKERS, COMMITS, CLOCK = "sluice.spark.daemon", "python_streaming_sink_runner", "python_streaming_source_runner"


def by_role(session: int) -> dict[str, list[int]]:
    """The processes of a service by what they do.

    driver     `sluice run`
    jvm        Spark
    daemon     forks Spark's Python workers
    worker     runs Spark's tasks
    pool       forks the state processes (nursery.py)
    state      keeps the state of one bucket (keeper.py)
    committer  writes the batches of a query to Kafka (commit.py)
    clock      says how far time has passed (pulse.py)
    """
    everything = processes(session)
    found: dict[str, list[int]] = {role: [] for role in ROLES}
    found["driver"] = [one.pid for one in everything if one.pid == session]
    found["jvm"] = [one.pid for one in everything if one.arguments[0].endswith("java")]
    found["clock"] = [one.pid for one in everything if any(part.endswith(CLOCK) for part in one.arguments)]
    sinks = [one for one in everything if any(part.endswith(COMMITS) for part in one.arguments)]
    found["committer"] = [one.pid for one in sinks if one.parent in {two.pid for two in sinks}]
    pythons = [one for one in everything if WORKERS in one.arguments]
    daemons = {one.pid for one in pythons if one.parent not in {two.pid for two in pythons}}
    found["daemon"] = sorted(daemons)
    # The daemon makes a process group for its workers, after it has forked the pool.
    found["worker"] = [one.pid for one in pythons if one.parent in daemons and one.group == one.parent]
    first = [one for one in pythons if one.parent in daemons and one.group != one.parent]
    supervisors = {one.pid for one in first if one.name == SUPERVISED}
    pools = {one.pid for one in first} - supervisors | {one.pid for one in pythons if one.parent in supervisors}
    found["pool"] = sorted(pools)
    found["state"] = [one.pid for one in pythons if one.parent in pools]
    return found


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """SIGSTOP now, SIGCONT at the end."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


# ---- the service -----------------------------------------------------------------------------------------------------


class Service:
    """`sluice run` of a pipeline file in a session of its own, with topics of its own.

    `kafka` is the `kafka:` block of the tests, and `through` that of the service where it is another one (a proxy).
    """

    def __init__(
        self,
        kafka: Mapping[str, str],
        folder: Path,
        name: str,
        text: str,
        *,
        checkpoint: Path | None = None,
        through: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.kafka, self.folder, self.name = dict(kafka), folder, name
        self.checkpoint = checkpoint or folder / "checkpoint"
        self.file = folder / "pipeline.yaml"
        self.text, self.arguments = text, tuple(arguments)
        self._through = dict(through or kafka)
        self._moments = folder / "moments"
        self._moments.mkdir(exist_ok=True)
        self._process: Tethered | None = None
        #: those that may still have processes
        self._sessions: list[int] = []
        self._partitions: dict[str, int] = {}
        #: whether all outputs were right when they were compared last
        self.sound = True
        #: all that was sent, in order
        self.events: list[Record] = []
        self._write_file()

    def _write_file(self) -> None:
        file: dict[str, Any] = yaml.safe_load(self.text)
        for stream, settings in file["streams"].items():
            file["streams"][stream] = {"topic": self.topic(stream), "partitions": TOPIC_PARTITIONS, **(settings or {})}
        written = {one for operator in file["operators"] for one in _outputs(operator)} | {file.get("dead_letters")}
        for stream in set(file["streams"]) - written:
            del file["streams"][stream]["partitions"]
        file |= {"pipeline": self.name, "kafka": self._through, "checkpoint": str(self.checkpoint)}
        file.setdefault("buckets", 2)
        self.file.write_text(yaml.safe_dump(file, sort_keys=False))

    @cached_property
    def pipeline(self) -> Pipeline:
        return load(self.file)

    def topic(self, stream: str) -> str:
        return f"{self.name}.{stream}"

    def create(self, *streams: str, partitions: int = TOPIC_PARTITIONS, **config: str) -> None:
        """Topics of streams, and the ledger's, which a test reads before the service has made it."""
        create(self.kafka, NewTopic(ledger.TOPIC, 1, config=LEDGER_CONFIG))
        for stream in streams:
            self._partitions[stream] = partitions
            create(self.kafka, NewTopic(self.topic(stream), partitions, config=config))

    def adopt(self, other: Service) -> None:
        """Takes the topics of another instance of the same pipeline, and what was sent to them, from now on too."""
        self.events, self._partitions = other.events, other._partitions

    # ---- starting and ending ----------------------------------------------------------------------------------------

    def start(self, *arguments: str) -> None:
        """Starts it, unless it runs."""
        if self.running:
            return
        if self._process:
            self.await_no_process()
        path = [str(Path(__file__).parent / "pausing"), os.environ.get("PYTHONPATH", str(Path.cwd()))]
        command = [sys.executable, "-m", "sluice", "run", str(self.file), "--no-http", *self.arguments, *arguments]
        environment = {"SLUICE_TEST_MOMENTS": str(self._moments), "PYTHONPATH": os.pathsep.join(path)}
        self._process = Tethered(command, folder=self.folder, log=self.log_file, environment=environment)
        self._sessions.append(self._process.pid)

    @property
    def log_file(self) -> Path:
        return self.folder / "service.log"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.exit_code is None

    @property
    def exit_code(self) -> int | None:
        return self._process.exit_code if self._process else None

    def await_end(self, seconds: float = PATIENCE) -> int:
        """The exit code of a service that ends by itself; no process of it stays."""
        wait_until(lambda: not self.running, "the service ends by itself", seconds, log=self.log)
        self.await_no_process()
        assert self.exit_code is not None
        return self.exit_code

    def end(self) -> None:
        """SIGTERM; it ends in order, and no process of it stays."""
        if self.running and self._process:
            self._process.terminate(PATIENCE)
            assert self.exit_code == 0, self.log()
        self.await_no_process()

    def kill(self) -> Position:
        """SIGKILL to every process, as where the machine stops; the positions then."""
        for session in self._sessions:
            for one in processes(session):
                with suppress(ProcessLookupError):
                    os.kill(one.pid, signal.SIGKILL)
        if self._process:
            self._process.kill()
        self.await_no_process()
        self.forget_moments()
        return self.position()

    def await_no_process(self, seconds: float = 60) -> None:
        """No process of it is left, also none that lost its parent."""
        wait_until(
            lambda: not self._left(), f"no process of the service is left: {self._left()}", seconds, log=self.log
        )
        if self._process:
            self._process.kill()  # what is left is the shell that waits for the end of the test (processes.py)
        self._sessions.clear()  # the system may give these numbers to others now

    def _left(self) -> list[Process]:
        everything = [one for session in self._sessions for one in processes(session)]
        return [one for one in everything if one.arguments[:2] != TETHER]

    def clean_up(self) -> None:
        """Kills what is left, at the end of the tests."""
        for session in self._sessions:
            for one in processes(session):
                with suppress(ProcessLookupError):
                    os.kill(one.pid, signal.SIGKILL)
        if self._process:
            self._process.kill()

    def log(self, length: int = 5000) -> str:
        return self.log_file.read_text(errors="replace")[-length:] if self.log_file.exists() else ""

    # ---- its processes ----------------------------------------------------------------------------------------------

    def pids(self, role: str) -> list[int]:
        """Those that do this now, once there is one."""
        return wait_until(lambda: by_role(self.session)[role], f"a process is {role}", log=self.log)

    @property
    def session(self) -> int:
        return self._sessions[-1]

    def signal(self, role: str, number: signal.Signals = signal.SIGKILL) -> list[int]:
        """Sends a signal to each process of this role."""
        pids = self.pids(role)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        return pids

    @contextmanager
    def unable_to_write(self, role: str) -> Iterator[None]:
        """Processes of this role cannot append to files: it fails (EFBIG), as on a disk that is full."""
        pids = self.pids(role)
        limits = {pid: resource.prlimit(pid, resource.RLIMIT_FSIZE) for pid in pids}
        for pid, (_, hard) in limits.items():
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))
        try:
            yield
        finally:
            for pid, limit in limits.items():
                with suppress(ProcessLookupError):
                    resource.prlimit(pid, resource.RLIMIT_FSIZE, limit)

    # ---- moments ----------------------------------------------------------------------------------------------------

    def at(self, moment: str, what: str = "pause") -> None:
        """The next process that comes to the moment pauses, fails or just tells (pausing/sitecustomize.py)."""
        part = self._moments / f".{moment}"
        part.write_text(what)
        part.rename(self._moments / moment)

    def await_moment(self, moment: str, codes: Sequence[int] = ()) -> None:
        reached = self._moments / f"{moment}.reached"
        self.wait_until(reached.exists, f"the service comes to the moment {moment!r}", codes=codes)

    def go_on(self, moment: str) -> None:
        """Ends a pause."""
        (self._moments / f"{moment}.reached").unlink(missing_ok=True)

    def forget_moments(self) -> None:
        for file in self._moments.iterdir():
            file.unlink(missing_ok=True)

    def wait_until(
        self, happened: Callable[[], Any], what: str, seconds: float = PATIENCE, codes: Sequence[int] = ()
    ) -> None:
        """While the service runs; where it ends with one of these exit codes, it is started again."""

        def checked() -> Any:
            value = happened()
            if not value and not self.running:
                assert self.exit_code in codes, f"it ended with {self.exit_code} before {what}\n{self.log()}"
                self.await_no_process()
                self.start()
            return value

        wait_until(checked, what, seconds, log=self.log)

    # ---- where it is ------------------------------------------------------------------------------------------------

    def position(self, stage: str = "") -> Position:
        folder, query = self.checkpoint / stage, f"{self.name}.{stage}" if stage else self.name
        committed, planned = batches(FolderStore(folder))
        position = ledger.read_position(self.kafka, query, "read_uncommitted")
        return Position(_number(planned), _number(committed), position.next_batch if position else 0)

    def await_rest(self) -> Position:
        """All that was sent has been read, and no batch is in hand."""
        self.wait_until(self._at_rest, "the service has read all and rests")
        return self.position()

    def _at_rest(self) -> bool:
        if self._read() != self._sent():  # first, for what has been read stays read
            return False
        position = self.position()
        return position.planned == position.committed == position.next_batch - 1

    def _read(self) -> dict[str, int]:
        """How far the last planned batch read, by stream and topic partition."""
        _, planned = batches(FolderStore(self.checkpoint))
        if planned is None:
            return {}
        lines = (self.checkpoint / "offsets" / str(planned)).read_text().splitlines()
        offsets = json.loads(lines[2])
        return {
            f"{topic}/{partition}": offset
            for topic, some in offsets.items()
            for partition, offset in some.items()
            if offset
        }

    def _sent(self) -> dict[str, int]:
        found: dict[str, int] = defaultdict(int)
        for event in self.events:
            found[f"{self.topic(event['stream'])}/{event['topic_partition']}"] += 1
        return dict(found)

    # ---- what goes in -----------------------------------------------------------------------------------------------

    def send(self, stream: str, records: Sequence[Record]) -> None:
        self.send_all([(stream, record) for record in records])

    def send_all(self, records: Sequence[tuple[str, Record]]) -> None:
        """Each a millisecond after the last, in its key's topic partition.

        A record is a tuple with the key "k", {"k": key, "raw": bytes}, or CLOCK: a clock mark to all topic partitions.
        """
        producer = Producer({"bootstrap.servers": self.kafka["bootstrap.servers"], "linger.ms": 5})
        for stream, record in records:
            mark = record is CLOCK
            for place in range(self._partitions[stream]) if mark else [self.place_of(stream, record["k"])]:
                content = (
                    {"headers": [(HEADER, b"clock")]} if mark
                    else {"key": record["k"], "value": record.get("raw") or json.dumps(record)}
                )  # fmt: skip
                at = ORIGIN + len(self.events)
                producer.produce(self.topic(stream), partition=place, timestamp=at, **content)
                event = {"at": at / 1000, "stream": stream, "topic_partition": place}
                self.events.append(event | ({} if mark else {"tuple": record}))
        assert producer.flush(60) == 0

    def place_of(self, stream: str, key: str) -> int:
        return topic_partition(key) % self._partitions[stream]

    # ---- what comes out ---------------------------------------------------------------------------------------------

    def expected(self, events: Sequence[Record] | None = None) -> dict[Place, list[Record]]:
        """What `replay` gives for what was sent, by stream and topic partition; marks are where their runs are."""
        found: dict[Place, list[Record]] = defaultdict(list)
        place: dict[str, int] = {}
        between = {stream for operator in self.pipeline.operators for stream in operator.inputs}
        for made in self.replayed(events):
            stream = made.get("stream")
            if stream is None or stream in between:
                continue
            if "tuple" in made:
                place[stream] = topic_partition(made["tuple"]["k"])
            if "tuple" in made or self.pipeline.streams[stream].marks == "record":
                shown = {name: made[name] for name in ("tuple", "punct") if name in made}
                found[stream, place[stream]].append(shown)
        return dict(found)

    def replayed(self, events: Sequence[Record] | None = None) -> Iterator[Record]:
        tuples = [event for event in events or self.events if "raw" not in event.get("tuple", ())]
        return replay(self.pipeline, tuples, clock_origin="first")

    def outputs(self, *streams: str) -> dict[Place, list[Record]]:
        """What committed readers see, by stream and topic partition."""
        found = {
            (stream, place): [shown(message) for message in self.messages(stream, place)]
            for stream in streams
            for place in range(TOPIC_PARTITIONS)
        }
        return {place: records for place, records in found.items() if records}

    def messages(self, stream: str, place: int) -> list[Any]:
        return visible(self.kafka, self.topic(stream), place)

    def count(self, *streams: str, isolation: Any = IsolationLevel.READ_COMMITTED) -> int:
        """How many offsets are behind readers of these streams; markers of transactions have offsets too."""
        return sum(
            end(self.kafka, self.topic(stream), place, isolation)
            for stream in streams
            for place in range(TOPIC_PARTITIONS)
        )

    def await_outputs(self, codes: Sequence[int] = (), *, expected: dict[Place, list[Record]] | None = None) -> None:
        """All that `replay` gives comes out, once and in order. Raises at the first record that differs from it.

        A service that ends with one of these exit codes is started again.
        """
        wanted = expected if expected is not None else self.expected()
        readers = {place: Reader(self, place, records) for place, records in wanted.items()}

        def complete() -> bool:
            return all(reader.complete() for reader in readers.values())

        try:
            self.wait_until(complete, "all outputs are there", codes=codes)
        finally:
            for reader in readers.values():
                reader.close()
        self.check_outputs(wanted)

    def check_outputs(self, wanted: dict[Place, list[Record]]) -> None:
        """Exactly these are there."""
        streams = sorted({stream for stream, _ in wanted})
        found = self.outputs(*streams)
        assert sizes(found) == sizes(wanted)
        assert found == wanted
        self.sound = True

    def records(self, *streams: str) -> int:
        """How many records committed readers see, marks included."""
        return sum(len(some) for some in self.outputs(*streams).values())

    def skipped(self) -> int:
        """How many batches the ledger knew already when they were run again."""
        entries = [json.loads(one.value()) for one in visible(self.kafka, ledger.TOPIC) if one.value()]
        return sum(entry["skipped"] for entry in entries if entry["query"] == self.name)


class Reader:
    """Reads a topic partition as it grows, and compares."""

    def __init__(self, service: Service, place: Place, wanted: list[Record]) -> None:
        stream, number = place
        own = {"group.id": "tests", "isolation.level": "read_committed", "enable.auto.commit": False}
        self._consumer = Consumer(client_properties(service.kafka, "consumer") | own)
        self._consumer.assign([TopicPartition(service.topic(stream), number, 0)])
        self._place, self._wanted, self._seen = place, wanted, 0

    def complete(self) -> bool:
        for message in self._consumer.consume(10_000, 0.05):
            if message.error() is None:
                found = shown(message)
                wanted = self._wanted[self._seen] if self._seen < len(self._wanted) else None
                assert found == wanted, f"{self._place}, record {self._seen}: {found}, and not {wanted}"
                self._seen += 1
        return self._seen >= len(self._wanted)

    def close(self) -> None:
        self._consumer.close()

    def __repr__(self) -> str:
        return f"{self._seen} of {len(self._wanted)}"


def sizes(records: Mapping[Place, Sequence[Record]]) -> dict[Place, int]:
    return {place: len(some) for place, some in records.items()}


def shown(message: Any) -> Record:
    """As `replay` shows it."""
    marks = [value.decode() for name, value in message.headers() or () if name == HEADER]
    return {"punct": marks[0]} if marks else {"tuple": json.loads(message.value())}


def topic_partition(key: str) -> int:
    """Where Kafka's clients put a key."""
    return int(partition_for(pa.array([key.encode()]), TOPIC_PARTITIONS)[0])


def delete_topic(kafka: Mapping[str, str], topic: str) -> None:
    client = AdminClient(dict(kafka))
    client.delete_topics([topic])[topic].result()


def _number(batch: int | None) -> int:
    return -1 if batch is None else batch


def _outputs(operator: Mapping[str, Any]) -> list[str]:
    named = [operator["output"], *(operator.get(key) for key in ("unmatched_left", "unmatched_right"))]
    return [stream for one in named if one for stream in ([one] if isinstance(one, str) else one)]
