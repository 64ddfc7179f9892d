"""Shapes of the corpus through `sluice init` and a service: a topic for each, and one service of all drafts.

`python -m tests.draft.in_service` does it for the whole corpus, a part of the shapes in each service, and prints how
many are right; names of shapes behind it choose some. Each service is killed once, when its first results are there,
and started again.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from sluice.cli import main
from sluice.kafka.embedded_broker import EmbeddedBroker
from sluice.kafka.topics import create
from sluice.processes import ChildProcess
from tests.draft.shapes import Drafted, Output, Shape, compared, read_draft, rows, shapes

#: shapes in one service, and the seconds that each of its two starts has for them
AT_ONCE, PATIENCE = 35, 600
#: how often the outputs of a shape are read before they count as wrong
READS = 20
#: the topic of a shape, and the topics that its draft writes
TOPIC = "shapes.{}"


def wrong_in_service(broker: str, folder: Path, chosen: Mapping[str, Shape]) -> dict[str, list[str]]:
    """What is wrong with the draft of each shape, and with what a service writes with it; nothing if it is right.

    The folder gets the drafts, the checkpoints and the log of the service.
    """
    kafka = {"bootstrap.servers": broker}
    create(kafka, *(NewTopic(TOPIC.format(name), 1) for name in chosen))
    drafts = {}
    for name, shape in chosen.items():
        _fill(kafka, TOPIC.format(name), shape)
        drafts[name] = _drafted(kafka, folder, name)
    _serve(kafka, folder, chosen, drafts)
    return {name: _differences(kafka, shape, drafts[name]) for name, shape in chosen.items()}


def _differences(kafka: Mapping[str, str], shape: Shape, draft: Drafted) -> list[str]:
    """What is wrong. Readers see the end of one transaction in one topic earlier than in another one."""
    differences: list[str] = []
    for _ in range(READS):
        differences = list(compared(shape, draft, _output(kafka, draft)))
        if not differences:
            break
        time.sleep(0.5)
    return differences


def _fill(kafka: Mapping[str, str], topic: str, shape: Shape) -> None:
    producer = Producer(dict(kafka))
    for event, record in zip(shape.events, shape.records, strict=True):
        headers = [(name, value) for name, value in record.headers]
        producer.produce(topic, record.value, record.key, timestamp=round(1000 * event["at"]), headers=headers)
    assert producer.flush(30) == 0


def _drafted(kafka: Mapping[str, str], folder: Path, name: str) -> Drafted:
    """The draft that the command writes for the topic of a shape."""
    file = folder / "drafts" / f"{name}.yaml"
    file.parent.mkdir(exist_ok=True)
    properties = [f"--kafka={key}={value}" for key, value in kafka.items()]
    done = CliRunner().invoke(main, ["init", "--topic", TOPIC.format(name), *properties, str(file)])
    assert done.exit_code == 0, f"{name}: {done.output}"
    return read_draft(file.read_text(encoding="utf-8"))


def _serve(kafka: Mapping[str, str], folder: Path, chosen: Mapping[str, Shape], drafts: Mapping[str, Drafted]) -> None:
    """Runs the service until all results are there; kills it when the first ones are."""
    for until in (1, sum(_expected(shape) for shape in chosen.values())):
        service = _started(folder)
        try:
            _wait(kafka, drafts, until, service, folder / "log")
        finally:
            service.kill()


def _expected(shape: Shape) -> int:
    """The number of results: one for each record that has a row and is no dead letter."""
    return sum(1 for _ in rows(shape))


def _started(folder: Path) -> ChildProcess:
    command = [
        *(sys.executable, "-m", "sluice", "run", str(folder / "drafts"), "--master", "local[2]", "--no-http"),
        *("--checkpoint", str(folder / "checkpoints")),
    ]
    environment = {"PYTHONPATH": os.environ.get("PYTHONPATH", f"service{os.pathsep}.")}
    return ChildProcess(command, folder / "torn", folder / "log", environment)


def _wait(
    kafka: Mapping[str, str], drafts: Mapping[str, Drafted], results: int, service: ChildProcess, log: Path
) -> None:
    topics = [draft.file["streams"]["results"]["topic"] for draft in drafts.values()]
    deadline = time.monotonic() + PATIENCE
    while (written := sum(map(len, _tuples(kafka, topics).values()))) < results:
        problem = f"{written} of {results} results: {log.read_text(errors='replace')[-4000:]}"
        assert time.monotonic() < deadline, problem
        assert service.exit_code is None, problem
        time.sleep(0.5)


def _output(kafka: Mapping[str, str], draft: Drafted) -> Output:
    """What committed readers of the topics see."""
    topics = {name: row["topic"] for name, row in draft.file["streams"].items() if row and row is not draft.stream}
    reasons = [dict(letter.headers() or ()) for letter in _read(kafka, [topics["dead"]])[topics["dead"]]]
    tuples = _tuples(kafka, [topic for name, topic in topics.items() if name != "dead"])
    return Output(
        {name: tuples.get(topic, []) for name, topic in topics.items()},
        [headers.get("sluice-reason", b"").decode() for headers in reasons],
        in_order=False,
    )


def _tuples(kafka: Mapping[str, str], topics: Sequence[str]) -> dict[str, list[list[Any]]]:
    """By topic: the values of each tuple."""
    return {
        topic: [list(json.loads(message.value()).values()) for message in messages if message.value()]
        for topic, messages in _read(kafka, topics).items()
    }


def _read(kafka: Mapping[str, str], topics: Sequence[str]) -> dict[str, list[Message]]:
    """By topic: the committed records of all of its topic partitions; none if there is no such topic yet."""
    own = {"group.id": "shapes", "enable.auto.commit": False, "enable.partition.eof": True,
           "isolation.level": "read_committed", "auto.offset.reset": "earliest", "fetch.wait.max.ms": 10}  # fmt: skip
    consumer = Consumer({**kafka, **own})
    try:
        known = consumer.list_topics(timeout=30).topics
        places = [
            TopicPartition(topic, number, 0)
            for topic in topics
            for number in (known[topic].partitions if topic in known else ())
        ]
        consumer.assign(places)
        messages: dict[str, list[Message]] = {topic: [] for topic in topics}
        open_ = {(place.topic, place.partition) for place in places}
        while open_:
            message = consumer.poll(10)
            assert message is not None
            if message.error() is None:
                messages[message.topic()].append(message)
            else:
                assert message.error().name() == "_PARTITION_EOF"
                open_.discard((message.topic(), message.partition()))
        return messages
    finally:
        consumer.close()


def _chosen(names: Sequence[str]) -> dict[str, Shape]:
    return {name: shape for name, shape in shapes().items() if not names or name in names}


def main_of_corpus(names: Sequence[str]) -> int:
    """Prints what is wrong, after each service, and how many shapes are right. The exit code."""
    chosen, wrong, began = _chosen(names), {}, time.monotonic()
    listed = list(chosen)
    parts = [listed[first : first + AT_ONCE] for first in range(0, len(listed), AT_ONCE)]
    with EmbeddedBroker() as broker:
        for part in parts:
            wrong |= _part(broker.bootstrap, {name: chosen[name] for name in part})
            _say(f"{_right(wrong)} of {len(wrong)} shapes are right so far, of {len(chosen)}, {_seconds(began)}")
    _say(f"{_right(wrong)} of {len(chosen)} shapes are right in a service, {_seconds(began)}")
    return int(_right(wrong) < len(chosen))


def _part(broker: str, chosen: Mapping[str, Shape]) -> dict[str, list[str]]:
    """As wrong_in_service, in a folder of its own; what is wrong is printed. All is wrong if its service fails."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        try:
            wrong = wrong_in_service(broker, Path(folder), chosen)
        except AssertionError as error:
            wrong = {name: ["its service failed"] for name in chosen}
            _say(str(error))
    for name, differences in wrong.items():
        for difference in differences:
            _say(f"{name}: {difference}")
    return wrong


def _right(wrong: Mapping[str, Sequence[str]]) -> int:
    return sum(not differences for differences in wrong.values())


def _seconds(began: float) -> str:
    return f"in {time.monotonic() - began:.0f} s"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main_of_corpus(sys.argv[1:]))
