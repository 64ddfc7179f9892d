"""The long-running service: from a pipeline to a query that is looked after."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import ExitStack

from service import __version__
from service.kafka.follower import Follower
from service.kafka.groups import InputOffsets
from service.ops.http import OpsServer
from service.ops.metrics import Metrics
from service.pipeline.spec import Pipeline
from service.spark.query import prepare, spark_for, start
from service.spark.watch import Progress, told_to_end, watch

LOGGER = logging.getLogger("sluice")

#: by topic and topic partition
Offsets = Mapping[tuple[str, int], int]


def serve(pipeline: Pipeline, master: str, http_port: int | None, *, reset_ledger: bool = False) -> None:
    """Runs the pipeline until SIGTERM or SIGINT. Raises what makes it fail."""
    kafka = pipeline.settings.kafka
    with told_to_end() as told, ExitStack() as stack:
        plan = prepare(pipeline, reset_ledger=reset_ledger)
        metrics = Metrics(pipeline.name, __version__)
        stack.enter_context(Follower(kafka, pipeline.name, metrics.batch_written))
        offsets = stack.enter_context(InputOffsets(kafka, pipeline.name))
        spark = spark_for(plan, master)
        stack.callback(spark.stop)
        query = start(spark, plan)
        if http_port is not None:
            trouble = lambda: None if query.isActive else "the query has ended"  # noqa: E731
            server = stack.enter_context(OpsServer(http_port, metrics.exposition, trouble, trouble))
            LOGGER.info("metrics at http://localhost:%s/metrics", server.port)
        LOGGER.info(
            "running", extra={"pipeline": pipeline.name, "checkpoint": plan.checkpoint, "buckets": plan.buckets}
        )
        watch(query, told, Seen(metrics, offsets))
        LOGGER.info("ended", extra={"pipeline": pipeline.name})


class Seen:
    """Tells the metrics and the lag monitors of each batch."""

    def __init__(self, metrics: Metrics, offsets: InputOffsets) -> None:
        self._metrics, self._offsets = metrics, offsets

    def __call__(self, progress: Progress) -> None:
        self._metrics.batch_ended(progress["durationMs"].get("triggerExecution", 0) / 1000)
        read, ends = offsets_of(progress)
        self._metrics.lag({place: ends.get(place, offset) - offset for place, offset in read.items()})
        self._offsets.commit(read)


def offsets_of(progress: Progress) -> tuple[Offsets, Offsets]:
    """How far the batch read, and where the topic partitions ended then."""
    source = progress["sources"][0]
    return _flat(source["endOffset"]), _flat(source["latestOffset"])


def _flat(offsets: Mapping[str, Mapping[str, int]] | None) -> Offsets:
    return {(topic, int(number)): offset for topic, by in (offsets or {}).items() for number, offset in by.items()}
