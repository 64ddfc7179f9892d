"""Many single operators in one pipeline, each with topics of its own: one query of Spark plays them all.

Cases have the format of the conformance vectors (tests/spec/conformance). They share one clock, so what timers
make behind the last event of a case is left out.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from confluent_kafka import Message
from confluent_kafka.admin import NewTopic

from sluice.kafka.topics import create
from sluice.model.spreading import spread_by
from sluice.replayer.player import replay
from sluice.testing import about_input, on_stream, operator_of, pipeline_of, schema_of
from tests.service.conftest import Service
from tests.service.events_as_records import ORIGIN, record
from tests.spec.comparing import differences
from tests.unit.kafka.broker_tools import visible

Case = dict[str, Any]
Record = dict[str, Any]
#: by stream of a case
Outputs = dict[str, list[Record]]
SECOND = 1_000_000_000


@dataclass(frozen=True)
class Part:
    """One case of a pipeline; its streams have its number in front."""

    number: int
    case: Case

    @property
    def file(self) -> dict[str, Any]:
        """Its streams and its operator, as a pipeline file has them."""
        operator = operator_of(self.case["operator"])
        inputs, pipeline = self.inputs, pipeline_of(self.case)
        streams = {
            name: {"schema": schema_of(self.case["operator"], self.case["input"], name)}
            | about_input(self.case["operator"])
            for name in inputs
        } | {stream.name: {"decimals": "string"} for stream in pipeline.outputs}  # as `replay` has them (DE20)
        return {
            "streams": {self.name(name): stream for name, stream in streams.items()},
            "operator": {"name": self.name("operator")} | {k: self._renamed(k, v) for k, v in operator.items()},
        }

    def _renamed(self, key: str, value: Any) -> Any:
        match key, value:
            case (("aggregate" | "sort" | "dedup" | "custom" | "unmatched_left" | "unmatched_right"), _):
                return self.name(value)
            case "join", _:
                return {side: self.name(stream) for side, stream in value.items()}
            case "output", list():
                return [self.name(stream) for stream in value]
            case "output", dict():
                return {self.name(stream): attributes for stream, attributes in value.items()}
        return value

    def name(self, of: str) -> str:
        return f"c{self.number}.{of}"

    @property
    def inputs(self) -> tuple[str, ...]:
        return ("left", "right") if self.case["operator"].get("kind") == "join" else ("input",)

    @property
    def topic_partitions(self) -> dict[str, int]:
        """As many as its events name."""
        counts = dict.fromkeys(self.inputs, 1)
        for event in self.case["input"]:
            stream = event.get("port", self.inputs[0])
            counts[stream] = max(counts[stream], event.get("topic_partition", 0) + 1)
        return counts

    @property
    def times(self) -> list[int]:
        """When its events are, milliseconds."""
        return [round(event["at"] * 1000) for event in self.case["input"]]

    def shown(self, found: Sequence[Message]) -> list[Record]:
        """What came out, each with the first event that is not before it."""
        times = self.times
        placed = [(message.timestamp()[1] - ORIGIN, Service.shown(message)) for message in found]
        return [{"after": bisect_left(times, at)} | shown for at, shown in placed if at <= times[-1]]

    def expected(self, records: Sequence[Record]) -> list[Record]:
        """The same of what should come out: of events at one time the first stands for all."""
        times = self.times
        return [record | {"after": bisect_left(times, times[record["after"]])} for record in records]


def replayed(case: Case) -> Outputs:
    """What `replay` says of a case."""
    found: Outputs = defaultdict(list)
    for made in replay(pipeline_of(case), map(on_stream, case["input"])):
        if "stream" in made:
            found[made.pop("stream")].append(made)
    return found


def in_handling_order(case: Case) -> Case:
    """A case whose events of one time stand as the service takes them: by port, then by topic partition."""
    ports = ("left", "right")
    order = sorted(
        case["input"], key=lambda e: (e["at"], ports.index(e.get("port", "left")), e.get("topic_partition", 0))
    )
    return case | {"input": order}


def with_scope(case: Case) -> Case:
    """A case that says to which tuples its marks apply, because its input may have several topic partitions."""
    return case | {"operator": {"marks_in": "topic_partition"} | case["operator"]}


def spreads(case: Case) -> bool:
    """Whether it may have several buckets."""
    return spread_by(pipeline_of(case)) is not None


class Playing:
    """Cases in one pipeline."""

    def __init__(self, service: Service, cases: Sequence[Case], **settings: Any) -> None:
        self._service = service
        self._parts = [Part(number, case) for number, case in enumerate(cases)]
        files = [part.file for part in self._parts]
        file = {
            "streams": {name: stream for one in files for name, stream in one["streams"].items()},
            "operators": [one["operator"] for one in files],
            "clock": "records",
            "clock_origin": ORIGIN / 1000,
        } | settings
        self.pipeline = service.pipeline(yaml.safe_dump(file, sort_keys=False))
        self._create()

    def play(self, rounds: int = 1) -> None:
        """All events, those of so many stretches of time one after the other, each in a run of the service.

        Behind them every topic partition hears that the time has passed, so that nothing waits any more.
        """
        last = max(part.times[-1] for part in self._parts) + 1
        first = min(part.times[0] for part in self._parts)
        for number in range(rounds):
            begin, end = (first + (last - first) * n // rounds for n in (number, number + 1))
            for part in self._parts:
                self._send(part, begin, end)
            if number == rounds - 1:
                self._send_clocks(last + 1)
            self._service.run(self.pipeline)

    def _send_clocks(self, at: int) -> None:
        for part in self._parts:
            for stream, count in part.topic_partitions.items():
                marks = [record({"at": at / 1000, "topic_partition": number}) for number in range(count)]
                self._service.send(part.name(stream), marks)

    def _send(self, part: Part, begin: int, end: int) -> None:
        sent: dict[str, list[Record]] = defaultdict(list)
        for at, event in zip(part.times, part.case["input"], strict=True):
            if begin <= at < end:
                sent[event.get("port", part.inputs[0])].append(record(event))
        for stream, records in sent.items():
            self._service.send(part.name(stream), records)

    def wrong(self) -> list[str]:
        """What differs from the expected outputs, case by case."""
        found = self._read()
        return [line for part in self._parts for line in self._differences(part, found)]

    def _differences(self, part: Part, found: dict[str, list[Message]]) -> Iterator[str]:
        case = part.case
        expected = {"output": case["output"]} if "output" in case else replayed(case)
        for stream in pipeline_of(case).outputs:
            got = part.shown(found[self._service.topic(part.name(stream.name))])
            for line in differences(got, part.expected(expected.get(stream.name, [])), case):
                yield f"{case.get('name', case)}: {stream.name}: {line}"

    # ---- Kafka ------------------------------------------------------------------------------------------------------

    def _create(self) -> None:
        topics = [
            NewTopic(self._service.topic(part.name(stream)), count)
            for part in self._parts
            for stream, count in part.topic_partitions.items()
        ]
        create({"bootstrap.servers": self._service.broker}, *topics)

    def _read(self) -> dict[str, list[Message]]:
        """All that is committed, by topic."""
        kafka = {"bootstrap.servers": self._service.broker}
        return {topic: visible(kafka, topic) for topic in (str(stream.topic) for stream in self.pipeline.outputs)}


def named(pattern: str, cases: Sequence[Case]) -> list[Case]:
    return [case for case in cases if re.search(pattern, case["name"])]
