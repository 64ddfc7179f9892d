"""The service as a process, and what can be seen of it from outside: its ledger, its outputs, its memory."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import orjson
from confluent_kafka import Consumer, KafkaException, TopicPartition

from benchmarks.load import PARTITIONS
from benchmarks.processes import memory, tree
from sluice.kafka import ledger
from sluice.kafka.batch_report import Entry
from sluice.kafka.range_reader import END
from sluice.processes import ChildProcess

#: seconds that a run may take, and seconds without a record while a topic is read to its end
PATIENCE, SILENCE = 600.0, 30.0


@dataclass(slots=True)
class Service:
    """`peak` is the most memory that its processes had together while they were `watched`, bytes; shared pages are
    counted once (PSS).
    """

    process: ChildProcess
    log: Path
    peak: int = 0

    def check(self) -> None:
        if self.process.exit_code is not None:
            raise RuntimeError(f"the service ended:\n{self.log.read_text()[-3000:]}")

    def await_start(self) -> None:
        """Until it says that it runs."""
        while "message=running" not in self.log.read_text():
            self.check()
            time.sleep(0.2)

    def memory(self) -> int:
        """Bytes of memory of all its processes."""
        together = 0
        for pid in tree(self.process.pid):
            with suppress(OSError):  # the process has ended
                together += memory(pid)
        return together


@contextmanager
def service(
    pipeline: str, bootstrap: str, folder: Path, further: Sequence[str] = (), program: Sequence[str] = ("sluice",)
) -> Iterator[Service]:
    """Runs the pipeline until the block ends, with further options of `sluice run`.

    `program`: the module that is the program, and its first arguments.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "pipeline.yaml"
    file.write_text(pipeline)
    options = ["--checkpoint", str(folder / "checkpoint"), *further]
    with service_of(file, bootstrap, folder, options, program) as running:
        yield running


@contextmanager
def service_of(
    file: Path, bootstrap: str, folder: Path, further: Sequence[str] = (), program: Sequence[str] = ("sluice",)
) -> Iterator[Service]:
    """As `service`, of a pipeline file or a folder of pipeline files. `folder` is for its log and temporary files."""
    command = [sys.executable, "-m", *program, "run", str(file), "--no-http"]
    options = ["--kafka", f"bootstrap.servers={bootstrap}"]
    environment = {"TMPDIR": str(folder)}
    log = folder / "service.log"
    running = Service(
        ChildProcess([*command, *options, *further], folder=folder, log=log, environment=environment), log
    )
    try:
        yield running
    finally:
        running.process.terminate(15)


@contextmanager
def watched(running: Service) -> Iterator[None]:
    """Notes the peak of its memory until the block ends; a look takes a tenth of a second of processor time."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(2):
            running.peak = max(running.peak, running.memory())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def batches(running: Service, bootstrap: str, query: str, records: int) -> list[Entry]:
    """The ledger's entries of the query, up to the one with which `records` tuples had been read."""
    return _entries(running, bootstrap, query, lambda entries: sum(map(tuples_read, entries)) >= records)


def await_end(running: Service, bootstrap: str, query: str, topic: str) -> None:
    """Until the query has read all of the topic, with the marks behind its tuples."""
    consumer = committed_consumer(bootstrap)
    places = [TopicPartition(topic, number) for number in consumer.list_topics(topic, 10).topics[topic].partitions]
    ends = {(topic, place.partition): consumer.get_watermark_offsets(place, 10)[1] for place in places}
    consumer.close()

    def at_end(entries: list[Entry]) -> bool:
        planned = entries[-1].planned if entries else None
        return planned is not None and all(planned.offsets.get(place, 0) >= end for place, end in ends.items())

    _entries(running, bootstrap, query, at_end)


def _entries(running: Service, bootstrap: str, query: str, done: Callable[[list[Entry]], bool]) -> list[Entry]:
    """The ledger's entries of the query, oldest first, until `done` with them."""
    consumer = committed_consumer(bootstrap)
    entries: list[Entry] = []
    deadline = time.monotonic() + PATIENCE
    placed = False
    while not done(entries):
        running.check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{sum(map(tuples_read, entries))} records read after {PATIENCE} s")
        if not placed and ledger.TOPIC in consumer.list_topics(timeout=10).topics:
            consumer.assign([TopicPartition(ledger.TOPIC, ledger.PARTITION, 0)])
            placed = True
        if not placed:
            time.sleep(0.2)
            continue
        messages = consumer.consume(100, 0.2)
        entries += [Entry.from_json(m.value()) for m in messages if m.key() == query.encode() and m.value()]
    consumer.close()
    return entries


def tuples_read(entry: Entry) -> int:
    return sum(kinds.get("tuple", 0) for kinds in entry.report.read.values())


def outputs(bootstrap: str, topic: str) -> tuple[int, int]:
    """The tuples that came out, read committed, and the sum of their n. Raises KafkaException or TimeoutError if they
    cannot be read.
    """
    consumer, count, total = committed_consumer(bootstrap), 0, 0
    open_ = set(range(PARTITIONS))
    consumer.assign([TopicPartition(topic, partition, 0) for partition in open_])
    came = time.monotonic()
    while open_:
        messages = consumer.consume(10_000, 5)
        if messages:
            came = time.monotonic()
        elif time.monotonic() - came > SILENCE:
            raise TimeoutError(f"no record of {topic} came for {SILENCE} s, and it has not ended")
        for message in messages:
            if message.error() and message.error().code() != END:
                raise KafkaException(message.error())
            if message.error():
                open_.discard(message.partition())
            elif message.value():
                count += 1
                total += orjson.loads(message.value()).get("n", 0)
    consumer.close()
    return count, total


def latencies(running: Service, bootstrap: str, topic: str, expected: int) -> list[tuple[float, float]]:
    """When each output was sent as an input, and after how many seconds a committed reader had it.

    Raises TimeoutError if fewer than `expected` outputs come within PATIENCE seconds.
    """
    consumer = committed_consumer(bootstrap, {"fetch.wait.max.ms": 5})
    seen: list[tuple[float, float]] = []
    deadline = time.monotonic() + PATIENCE
    while topic not in consumer.list_topics(timeout=10).topics:
        running.check()
        time.sleep(0.2)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    while len(seen) < expected and time.monotonic() < deadline:
        running.check()
        for message in consumer.consume(1000, 0.05):
            if not message.error() and message.value():
                sent = orjson.loads(message.value())["w"]
                seen.append((sent, time.time() - sent))
    consumer.close()
    if len(seen) < expected:
        raise TimeoutError(f"{len(seen):,} of {expected:,} outputs came within {PATIENCE} s")
    return seen


def committed_consumer(bootstrap: str, more: dict[str, object] | None = None) -> Consumer:
    """A consumer of committed records that joins no group. `more` are further properties."""
    usual = {"bootstrap.servers": bootstrap, "group.id": "benchmark", "enable.auto.commit": False}
    return Consumer({
        **usual, "isolation.level": "read_committed", "auto.offset.reset": "earliest", "enable.partition.eof": True,
        **(more or {}),
    })  # fmt: skip
