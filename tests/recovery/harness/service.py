"""A service under a real broker: records go in, its processes are killed, records come out once.

`Service` runs one pipeline file, with topics of its own. A test sends records, disturbs the service
(sluice_process.py), and compares all that a committed reader sees with what `replay` gives for the same records: the
pure engine is the independent calculation.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from confluent_kafka import IsolationLevel, Producer
from confluent_kafka.admin import NewTopic

from sluice.checkpoint.folder_store import FolderStore
from sluice.checkpoint.offset_log import batches
from sluice.config.load import load
from sluice.kafka import ledger
from sluice.kafka.topics import LEDGER_CONFIG, create
from sluice.model.spec import Dedup, Delay, Map, Pipeline
from sluice.replayer.player import replay
from sluice.wire.mark_headers import HEADER
from tests.recovery.harness.output_reader import OutputReader, Record, shown, topic_partition
from tests.recovery.harness.sluice_process import SluiceProcess
from tests.unit.kafka.broker_tools import end, visible

#: topic partitions of every topic, so that a key's outputs are in the topic partition that its inputs are in
TOPIC_PARTITIONS = 2
#: record timestamps begin here, in milliseconds, and are one millisecond apart
ORIGIN = 1_357_000_000_000

CLOCK: Record = {}
#: a topic partition of a stream
Place = tuple[str, int]


class Position(NamedTuple):
    """Of a service: the last batch that Spark planned, the last that Spark finished (-1: none), the ledger's next."""

    planned: int
    committed: int
    next_batch: int


class Service(SluiceProcess):
    """`sluice run` of a pipeline file, with topics of its own.

    kafka       the `kafka:` block of the test's own clients, and of the service unless `through` is given
    through     the `kafka:` block of the service, where it reaches the broker another way (a proxy)
    checkpoint  the checkpoint folder, by default one inside `folder`
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
        environment: Mapping[str, str] | None = None,
        http: bool = False,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(folder / "pipeline.yaml", folder, arguments, environment, http=http)
        self.kafka, self.name, self.text = dict(kafka), name, text
        self.checkpoint = checkpoint or folder / "checkpoint"
        self._through = dict(through or kafka)
        #: the number of the machine, after each loss of one the next
        self._machine = 1
        self._partitions: dict[str, int] = {}
        #: whether all outputs were right when they were compared last
        self.sound = True
        #: all that was sent, in order
        self.events: list[Record] = []
        self.write_file()

    def write_file(self) -> None:
        """Writes the pipeline file, which the next start reads."""
        file: dict[str, Any] = yaml.safe_load(self.text)
        inside = {stream for stream, settings in file["streams"].items() if (settings or {}).get("topic", "") is None}
        for stream, settings in file["streams"].items():
            file["streams"][stream] = (
                {}
                if stream in inside
                else {
                    "topic": self.topic(stream),
                    "partitions": TOPIC_PARTITIONS,
                    "marks": "record",
                    **(settings or {}),
                }
            )
        written = {one for operator in file["operators"] for one in _outputs(operator)} | {file.get("dead_letters")}
        for stream in set(file["streams"]) - written - inside:
            del file["streams"][stream]["partitions"]
        file |= {"pipeline": self.name, "kafka": self._through, "checkpoint": str(self.checkpoint)}
        file.setdefault("buckets", 2)
        if "SLUICE_TEST_DIRECT" in os.environ:  # 0: every batch is a job of Spark
            file.setdefault("direct_records", int(os.environ["SLUICE_TEST_DIRECT"]))
        self.file.write_text(yaml.safe_dump(file, sort_keys=False))
        self.__dict__.pop("pipeline", None)  # which was read from the file before

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

    # ---- where it is ------------------------------------------------------------------------------------------------

    def kill(self) -> Position:
        """SIGKILL to every process, as where the machine stops; the positions then."""
        super().kill()
        return self.position()

    def lose_machine(self) -> None:
        """SIGKILL to every process, and all local files are deleted. The next start has another, empty folder."""
        super().kill()
        shutil.rmtree(self.checkpoint)
        shutil.rmtree(self.folder / "temporary")
        self._machine += 1
        self.checkpoint = self.folder / f"checkpoint-{self._machine}"
        self.write_file()

    def position(self, stage: str = "") -> Position:
        query = f"{self.name}.{stage}" if stage else self.name
        return position_of(self.kafka, self.checkpoint / stage if stage else self._first, query)

    @property
    def _first(self) -> Path:
        """The checkpoint of the only stage, or of the first of several."""
        inside = self.checkpoint / self.name
        return inside if inside.is_dir() else self.checkpoint

    def last_plan(self) -> dict[Place, int]:
        """The end offsets of the ledger's last batch, by topic and topic partition."""
        entry = ledger.last_entry(self.kafka, self.name)
        assert entry is not None
        assert entry.planned is not None
        return dict(entry.planned.offsets)

    def await_rest(self) -> Position:
        """All that was sent has been read, and no batch is in hand. Of several stages this is so of the first one."""
        self.wait_until(self._at_rest, "the service has read all and rests")
        return self.position()

    def _at_rest(self) -> bool:
        if self._read() != self._sent():  # first, for what has been read stays read
            return False
        position = self.position()
        return position.planned == position.committed == position.next_batch - 1

    def _read(self) -> dict[str, int]:
        """How far the last planned batch read, by stream and topic partition."""
        _, planned = batches(FolderStore(self._first))
        if planned is None:
            return {}
        lines = (self._first / "offsets" / str(planned)).read_text().splitlines()
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

        A record is a tuple with the key "k", {"k": key, "raw": bytes}, or a mark to all topic partitions: CLOCK, or
        {"watermark": time}.
        """
        # Without idempotence a request that is repeated may arrive after later ones, as it may with a new topic.
        producer = Producer(
            {"bootstrap.servers": self.kafka["bootstrap.servers"], "linger.ms": 5, "enable.idempotence": True}
        )
        for stream, record in records:
            mark = record is CLOCK or "watermark" in record
            for place in range(self._partitions[stream]) if mark else [self.code_of(stream, record["k"])]:
                at = ORIGIN + len(self.events)
                producer.produce(self.topic(stream), partition=place, timestamp=at, **_content(record))
                event = {"at": at / 1000, "stream": stream, "topic_partition": place}
                self.events.append(event | (record if mark else {"tuple": record}))
        assert producer.flush(60) == 0

    def code_of(self, stream: str, key: str) -> int:
        return topic_partition(key, self._partitions[stream])

    # ---- what comes out ---------------------------------------------------------------------------------------------

    def expected(self, events: Sequence[Record] | None = None) -> dict[Place, list[Record]]:
        """What `replay` gives for what was sent, by stream and topic partition; marks are where their runs are."""
        found: dict[Place, list[Record]] = defaultdict(list)
        place: dict[str, int] = {}
        between = {stream for operator in self.pipeline.operators for stream in operator.inputs}
        passed_on = set(self._passed_on())
        given = self._with_tuples(events)
        for made in self.replayed(events):
            stream = made.get("stream")
            if stream is None or stream in between:
                continue
            if "tuple" in made:
                place[stream] = (
                    given[made["after"]]["topic_partition"] % TOPIC_PARTITIONS if stream in passed_on
                    else topic_partition(made["tuple"]["k"], TOPIC_PARTITIONS)
                )  # fmt: skip
            if "tuple" in made or self.pipeline.streams[stream].marks == "record":
                shown = {name: made[name] for name in ("tuple", "punct") if name in made}
                found[stream, place[stream]].append(shown)
        return dict(found)

    def _passed_on(self) -> Iterator[str]:
        """The streams whose tuples go to the number of the topic partition that they were read from."""
        read = {stream.name for stream in self.pipeline.inputs}
        for operator in self.pipeline.operators:
            first = isinstance(operator, Dedup) and operator.keep == "first"
            alone = isinstance(operator, Delay) and self._partitions.get(operator.input) == 1
            if (first or alone or isinstance(operator, Map)) and operator.input in read:
                yield from (output.stream for output in operator.outputs)

    def replayed(self, events: Sequence[Record] | None = None) -> Iterator[Record]:
        return replay(self.pipeline, self._with_tuples(events), clock_origin="first")

    def _with_tuples(self, events: Sequence[Record] | None) -> list[Record]:
        """Without the records that are no tuples."""
        return [event for event in events or self.events if "raw" not in event.get("tuple", ())]

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
        with ExitStack() as stack:
            readers = [
                stack.enter_context(OutputReader(self.kafka, self.topic(stream), number, records))
                for (stream, number), records in wanted.items()
            ]
            self.wait_until(lambda: all(one.complete() for one in readers), "all outputs are there", codes=codes)
        self.check_outputs(wanted)

    def check_outputs(self, wanted: dict[Place, list[Record]]) -> None:
        """Exactly these are there."""
        streams = sorted({stream for stream, _ in wanted})
        found = self.outputs(*streams)
        assert {place: len(some) for place, some in found.items()} == {
            place: len(some) for place, some in wanted.items()
        }
        assert found == wanted
        self.sound = True

    def records(self, *streams: str) -> int:
        """How many records committed readers see, marks included."""
        return sum(len(some) for some in self.outputs(*streams).values())

    def skipped(self) -> int:
        """How many batches the ledger knew already when they were run again."""
        return skipped(self.kafka, self.name)


def _content(record: Record) -> dict[str, Any]:
    """The key, the value and the headers of a record (`Service.send_all`)."""
    if record is CLOCK:
        return {"headers": [(HEADER, b"clock")]}
    if "watermark" in record:
        return {"headers": [(HEADER, b"watermark")], "value": record["watermark"]}
    return {"key": record["k"], "value": record.get("raw") or json.dumps(record)}


def skipped(kafka: Mapping[str, str], query: str) -> int:
    """How many batches of a query the ledger knew already when they were run again."""
    own = (one for one in visible(dict(kafka), ledger.TOPIC) if one.key() == query.encode() and one.value())
    return sum(json.loads(one.value())["skipped"] for one in own)


def position_of(kafka: Mapping[str, str], checkpoint: Path, query: str) -> Position:
    committed, planned = batches(FolderStore(checkpoint))
    position = ledger.read_position(kafka, query, "read_uncommitted")
    return Position(_number(planned), _number(committed), position.next_batch if position else 0)


def _number(batch: int | None) -> int:
    return -1 if batch is None else batch


def _outputs(operator: Mapping[str, Any]) -> list[str]:
    keys = ("output", "to", "otherwise", "unmatched_left", "unmatched_right")
    named = [operator.get(key) for key in keys]
    return [stream for one in named if one for stream in ([one] if isinstance(one, str) else one)]
