"""The long-running service: from a pipeline to queries that are looked after, one for each of its stages."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sluice import __version__
from sluice.batch.query_plan import Plan
from sluice.checkpoint.checkpoint_identity import folder_of
from sluice.checkpoint.folder_lock import locked
from sluice.kafka import ledger
from sluice.kafka.batch_report import Entry, Report
from sluice.kafka.kafka_errors import GrownError
from sluice.kafka.lag_group import InputOffsets
from sluice.kafka.ledger_follower import Follower
from sluice.kafka.planned_batch import flat
from sluice.kafka.reading import Offsets
from sluice.model.spec import Pipeline
from sluice.model.stages import stages
from sluice.ops.health import Health
from sluice.ops.http_server import OpsServer
from sluice.ops.metrics import Metrics
from sluice.processes import LastResort, told_to_end
from sluice.spark.failures import explaining, stopped
from sluice.spark.query import prepare, start
from sluice.spark.session import session
from sluice.spark.watch import GRACE, Progress, WatchedQuery, watch
from sluice.wire.dead_letters import Reason
from sluice.wire.mark_headers import WORDS

LOGGER = logging.getLogger("sluice")


def serve(
    pipeline: Pipeline,
    master: str,
    http_port: int | None,
    *,
    reset_ledger: bool = False,
    until_final: bool = False,
) -> None:
    """Runs the pipeline until SIGTERM or SIGINT, or until its inputs are final. Raises what makes it fail.

    One process at a time may do so with a checkpoint (lock.py).
    """
    metrics, life = Metrics(pipeline.name, __version__), Health()
    parts = stages(pipeline)
    for stage in parts:
        metrics.count(zero_report(stage))
    with (
        LastResort(GRACE) as resort,
        told_to_end(resort) as told,
        ExitStack() as stack,
        resort.ending(),
        explaining(),
    ):
        for stage in parts:
            stack.enter_context(locked(folder_of(stage), stage.name))
        if http_port is not None:
            server = stack.enter_context(OpsServer(http_port, metrics.exposition, life.healthy, life.ready))
            LOGGER.info("metrics at http://localhost:%s/metrics", server.port)
        plans = [prepare(stage, reset_ledger=reset_ledger) for stage in parts]
        ends = FinalInputs(plans if until_final else [], told)
        if told.is_set():
            LOGGER.info("all inputs were final before", extra={"pipeline": pipeline.name})
            return
        seen = [stack.enter_context(_following(plan, metrics, ends)) for plan in plans]
        spark = session(pipeline.name, master)
        stack.callback(stopped, spark.stop)
        for plan in plans:
            about = {"pipeline": plan.pipeline.name, "checkpoint": plan.checkpoint, "buckets": plan.buckets}
            LOGGER.info("running", extra=about)
        run(spark, plans, partial(_watched, seen, told, life, resort))
        LOGGER.info("ended", extra={"pipeline": pipeline.name})


def _watched(
    seen: Sequence[ProgressListener],
    told: threading.Event,
    life: Health,
    resort: LastResort,
    queries: Sequence[StreamingQuery],
) -> None:
    try:
        watch(list(map(WatchedQuery, queries, seen)), told, life, resort)
    except GrownError:
        resort.disarm()  # the queries start again
        raise


def run(spark: SparkSession, plans: Sequence[Plan], watching: Callable[[Sequence[StreamingQuery]], None]) -> None:
    """Runs the queries of these plans. Where a topic has more topic partitions, they start again and know them all."""
    while True:
        try:
            return watching([start(spark, plan) for plan in plans])
        except GrownError as grown:
            LOGGER.info("starting again: %s", grown)
            plans = [prepare(plan.pipeline) for plan in plans]


class FinalInputs:
    """Sets `over` when the inputs of all these plans are final; of none: never."""

    def __init__(self, plans: Sequence[Plan], over: threading.Event) -> None:
        self._going_on = {plan.pipeline.name for plan in plans}
        self._over = over
        for plan in plans:
            entry = ledger.last_entry(plan.pipeline.settings.kafka, plan.pipeline.name)
            if entry is not None:
                self.heard(entry)

    def heard(self, entry: Entry) -> None:
        """A batch has become visible."""
        if entry.report.final and entry.query in self._going_on:
            self._going_on.remove(entry.query)
            if not self._going_on:
                self._over.set()


@contextmanager
def _following(plan: Plan, metrics: Metrics, ends: FinalInputs) -> Iterator[ProgressListener]:
    """Tells the metrics of each batch that becomes visible; what is yielded tells them and lag monitors of the rest."""
    kafka, name = plan.pipeline.settings.kafka, plan.pipeline.name

    def heard(entry: Entry) -> None:
        metrics.batch_written(entry)
        ends.heard(entry)

    with Follower(kafka, name, heard), InputOffsets(kafka, name) as offsets:
        yield ProgressListener(metrics, offsets)


def zero_report(pipeline: Pipeline) -> Report:
    """All that can be counted, at nothing: a rate needs to see a counter before it moves."""
    kinds, reasons = dict.fromkeys(["tuple", *WORDS], 0), dict.fromkeys(map(str, Reason), 0)
    return Report(
        read={stream.name: {**kinds} for stream in pipeline.inputs},
        written={
            stream.name: dict.fromkeys(["tuple", "window", "final", "watermark"], 0) for stream in pipeline.outputs
        },
        dead_letters={stream.name: {**reasons} for stream in pipeline.inputs},
        operators={operator.name: {} for operator in pipeline.operators},
    )


class ProgressListener:
    """Tells the metrics and the lag monitors of each batch."""

    def __init__(self, metrics: Metrics, offsets: InputOffsets) -> None:
        self._metrics, self._offsets = metrics, offsets

    def __call__(self, progress: Progress) -> None:
        self._metrics.batch_ended({phase: took / 1000 for phase, took in progress["durationMs"].items()})
        read, ends = offsets_of(progress)
        self._metrics.offsets(read, ends)
        self._offsets.commit(read)


def offsets_of(progress: Progress) -> tuple[Offsets, Offsets]:
    """How far the batch read, and where the topic partitions ended then."""
    source = progress["sources"][0]
    return flat(source["endOffset"] or {}), flat(source["latestOffset"] or {})
