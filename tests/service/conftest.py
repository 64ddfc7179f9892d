from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.errors.exceptions.captured import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sluice.config.load import load_text
from sluice.kafka.topics import create
from sluice.model.spec import Pipeline
from sluice.model.stages import stages
from sluice.spark.lanes.batch_lanes import OpenLanes
from sluice.spark.pipeline.pipeline_run import run
from sluice.spark.query import prepare
from sluice.spark.query_watch import explained
from sluice.state.server.pool import end_query
from sluice.wire.mark_headers import HEADER
from tests.unit.kafka.broker_tools import visible

NUMBERS = itertools.count()
#: seconds that anything may take
PATIENCE = 120


@pytest.fixture
def service(spark: SparkSession, broker: str, tmp_path: Path) -> Service:
    return Service(spark, broker, tmp_path, f"spark-test-{next(NUMBERS)}")


@pytest.fixture
def downstream(service: Service) -> Service:
    """Another service beside it."""
    return replace(service, folder=service.folder / "downstream", name=f"{service.name}-downstream", partitions={})


@dataclass
class Service:
    """A pipeline with topics of its own; records go in, the query runs until it has read them all, records come out."""

    spark: SparkSession
    broker: str
    folder: Path
    name: str
    partitions: dict[str, int] = field(default_factory=dict)
    #: the last pipeline's
    file: str = ""

    def create(self, stream: str, partitions: int = 1) -> None:
        """A stream's topic, where the service is not to create it."""
        self.partitions[stream] = partitions
        create({"bootstrap.servers": self.broker}, NewTopic(self.topic(stream), partitions))

    def topic(self, stream: str) -> str:
        return f"{self.name}.{stream}"

    def pipeline(self, text: str, kafka: dict[str, str] | None = None) -> Pipeline:
        """The pipeline of a file; each stream that names no topic gets its own. `kafka`: its block.

        Window marks are records unless the file says otherwise, so that tests compare those of empty firings as well.
        """
        file: dict[str, Any] = yaml.safe_load(text)
        for name, stream in file["streams"].items():
            file["streams"][name] = {"topic": self.topic(name), "marks": "record", **(stream or {})}
        file |= {"pipeline": self.name, "kafka": kafka or {"bootstrap.servers": self.broker}}
        file.setdefault("checkpoint", str(self.folder / "checkpoint"))
        self.file = yaml.safe_dump(file, sort_keys=False)
        return load_text(self.file, self.name)

    def send(self, stream: str, records: list[dict[str, Any]]) -> None:
        """Records as arguments of `Producer.produce`."""
        producer = Producer(
            {"bootstrap.servers": self.broker, "message.max.bytes": 5_000_000, "enable.idempotence": True}
        )
        for record in records:
            producer.produce(self.topic(stream), **record)
        assert producer.flush(30) == 0

    def run(self, pipeline: Pipeline, until: Callable[[], bool] = lambda: True) -> None:
        """Runs until all that is there has been read and `until` holds. Raises what makes a query fail."""
        plans = [prepare(stage) for stage in stages(pipeline)]
        try:
            with closing(OpenLanes()) as opened:
                run(self.spark, plans, partial(self._until, holds=until, look=opened.look), opened=opened)
        finally:
            for plan in plans:
                end_query(plan.query)

    @staticmethod
    def _until(queries: Sequence[StreamingQuery], holds: Callable[[], bool], look: Callable[[], object]) -> None:
        try:
            for query in queries:
                query.processAllAvailable()
            deadline = time.monotonic() + PATIENCE
            while not holds():
                assert time.monotonic() < deadline, "it never came to that"
                look()
                for failure in filter(None, (query.exception() for query in queries)):
                    raise explained(str(failure))
        except StreamingQueryException as error:
            raise explained(str(error)) from error
        finally:
            for query in queries:
                query.stop()

    def read(self, stream: str) -> list[Message]:
        """All that is committed in a stream's topic, topic partition by topic partition.

        A commit returns before its markers are written: readers may see the batch a moment later.
        """
        kafka = {"bootstrap.servers": self.broker}
        topic = self.topic(stream)
        partitions = sorted(AdminClient(kafka).list_topics(topic, 10).topics[topic].partitions)
        return [message for partition in partitions for message in visible(kafka, topic, partition)]

    def outputs(self, stream: str) -> list[dict[str, Any]]:
        """As `sluice replay` shows them: {"tuple": ...}, {"punct": ...} or {"watermark": ...}.

        A tuple with the header of a mark is both, first the tuple.
        """
        return [one for message in self.read(stream) for one in self.items(message)]

    @classmethod
    def items(cls, message: Message) -> list[dict[str, Any]]:
        shown = cls.shown(message)
        carries = "punct" in shown and message.value()
        return [{"tuple": json.loads(message.value())}, shown] if carries else [shown]

    @staticmethod
    def shown(message: Message) -> dict[str, Any]:
        marks = [value.decode() for name, value in message.headers() or () if name == HEADER]
        if marks == ["watermark"]:
            return {"watermark": message.value().decode()}
        return {"punct": marks[0]} if marks else {"tuple": json.loads(message.value())}
