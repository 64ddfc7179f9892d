"""The long-running service: it starts one Spark query for each stage of a pipeline and watches them until they end."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sluice import __version__
from sluice.batch.kernel_warm_up import VARIABLE, to_text
from sluice.batch.query_plan import Plan
from sluice.checkpoint.checkpoint_identity import folder_of
from sluice.checkpoint.folder_lock import locked
from sluice.kafka import ledger
from sluice.kafka.batch_report import Entry, Report
from sluice.kafka.kafka_errors import TopicPartitionsAddedError
from sluice.kafka.lag_group import InputOffsets
from sluice.kafka.ledger_follower import Follower
from sluice.kafka.planned_batch import flat
from sluice.kafka.reading import Offsets
from sluice.model.spec import Pipeline
from sluice.model.stages import stages
from sluice.ops.exposition import Exposition
from sluice.ops.health import Health
from sluice.ops.http_server import OpsServer
from sluice.ops.metrics import WHOLE, Metrics
from sluice.ops.pipelines import Pipelines, Registered
from sluice.ops.progress_log import DeadLetterLog, ProgressLog
from sluice.page.history import Batch, History
from sluice.page.page_app import application
from sluice.page.pipeline_pages import Pages, PipelinePage, asker
from sluice.processes import LastResort, stop_signals
from sluice.spark.cluster.placement import Placement
from sluice.spark.failures import explaining, stopped
from sluice.spark.query import prepare, start
from sluice.spark.session import session
from sluice.spark.watch import GRACE, Progress, WatchedQuery, watch
from sluice.state.server import look
from sluice.state.server.pool import VARIABLE as POOL
from sluice.state.server.pool import named_socket
from sluice.wire.dead_letters import Reason
from sluice.wire.mark_headers import WORDS

LOGGER = logging.getLogger("sluice")
#: Spark's name of the phase in which a batch does its work
RUN = "addBatch"


def serve(
    pipeline: Pipeline,
    master: str,
    http_port: int | None,
    *,
    reset_ledger: bool = False,
    until_final: bool = False,
    page: str = "local",
) -> None:
    """Runs the pipeline until SIGTERM or SIGINT or, with `until_final`, until all inputs are final.

    The HTTP port also serves the page of the service: `page` is "local" (to programs on this machine), "open" or "off".

    Raises the error that made a query fail. A lock on the checkpoint ensures that only one process at a time runs it
    (checkpoint/folder_lock.py).
    """
    metrics, life = Metrics(__version__), Health()
    pipelines = Pipelines()
    pipelines.register(Registered(pipeline, metrics, life))
    parts = stages(pipeline)
    pages = Pages(pipelines)
    shown = pages.add(PipelinePage(pipeline))
    for stage in parts:
        metrics.count(zero_report(stage))
    with (
        LastResort(GRACE) as resort,
        stop_signals(resort) as stop_requested,
        ExitStack() as stack,
        resort.ending(),
        explaining(),
    ):
        for stage in parts:
            stack.enter_context(locked(folder_of(stage), stage.name))
        if http_port is not None:
            page_app = None if page == "off" else application(pages, local=page == "local")
            server = stack.enter_context(OpsServer(http_port, Exposition(pipelines).page, pipelines, page=page_app))
            LOGGER.info("metrics at http://localhost:%s/metrics", server.port)
            if page_app is not None:
                LOGGER.info("page at http://localhost:%s/", server.port)
        plans = [prepare(stage, reset_ledger=reset_ledger) for stage in parts]
        entries = [ledger.last_entry(plan.pipeline.settings.kafka, plan.pipeline.name) for plan in plans]
        ends = FinalInputs(plans if until_final else [], stop_requested)
        for entry in filter(None, entries):
            ends.heard(entry)
        if stop_requested.is_set():
            LOGGER.info("all inputs are final already", extra={"pipeline": pipeline.name})
            return
        seen = [
            stack.enter_context(_following(plan, last, metrics, ends, shown.stage(plan.pipeline.name).history))
            for plan, last in zip(plans, entries, strict=True)
        ]
        _log_topics(plans)
        os.environ[VARIABLE] = to_text(pipeline)  # Java passes it on to the daemon of Spark's Python workers
        stack.enter_context(named_socket())
        spark = session(pipeline.name, master)
        LOGGER.info("Spark is up", extra={"master": master})
        stack.callback(stopped, spark.stop)
        for plan in plans:
            about = {"pipeline": plan.pipeline.name, "checkpoint": plan.checkpoint, "buckets": plan.buckets}
            LOGGER.info("running", extra=about)
        placed = Placement.of(spark)
        if placed is not None:
            placed.wait_for_executors(stop_requested.wait)
            stack.enter_context(placed)
        watching = partial(_watched, seen, stop_requested, life, resort)
        run(spark, plans, watching, placed, partial(_shown, shown, local=placed is None and POOL in os.environ))
        LOGGER.info("ended", extra={"pipeline": pipeline.name})


def _log_topics(plans: Sequence[Plan]) -> None:
    for plan in plans:
        for stream in plan.pipeline.inputs:
            count = plan.topic_partitions[stream.name]
            LOGGER.info("input found", extra={"stream": stream.name, "topic": stream.topic, "topic_partitions": count})


def _watched(
    seen: Sequence[ProgressListener],
    stop_requested: threading.Event,
    life: Health,
    resort: LastResort,
    queries: Sequence[StreamingQuery],
) -> None:
    try:
        watch(list(map(WatchedQuery, queries, seen)), stop_requested, life, resort)
    except TopicPartitionsAddedError:
        resort.disarm()  # the caller starts the queries again
        raise


def run(
    spark: SparkSession,
    plans: Sequence[Plan],
    watching: Callable[[Sequence[StreamingQuery]], None],
    placed: Placement | None = None,
    starting: Callable[[Plan], object] = lambda _: None,
) -> None:
    """Runs the queries of these plans. If a topic gets more topic partitions, it restarts them with the new number.

    `starting` is called with each plan before its query starts.
    """
    while True:
        for plan in plans:
            starting(plan)
        try:
            return watching([start(spark, plan, placed) for plan in plans])
        except TopicPartitionsAddedError as grown:
            LOGGER.info("starting again: %s", grown)
            plans = [prepare(plan.pipeline) for plan in plans]


def _shown(page: PipelinePage, plan: Plan, *, local: bool) -> None:
    """Gives the page the function that asks the state servers of this plan's query, which starts now.

    `local`: whether the state servers are on this machine, and their pool has a socket with a name. Those of the
    executors of a cluster cannot be asked.
    """
    ask = asker(look.ask, plan.server_name) if local else None
    page.stage(plan.pipeline.name).running(plan.buckets, plan.topic_partitions, ask)


class FinalInputs:
    """Sets the event `over` as soon as the inputs of all these plans are final. Without plans it never sets it."""

    def __init__(self, plans: Sequence[Plan], over: threading.Event) -> None:
        self._going_on = {plan.pipeline.name for plan in plans}
        self._over = over

    def heard(self, entry: Entry) -> None:
        """Handles the ledger entry of a batch that has become visible."""
        if entry.report.final and entry.query in self._going_on:
            self._going_on.remove(entry.query)
            if not self._going_on:
                self._over.set()


@contextmanager
def _following(
    plan: Plan, last: Entry | None, metrics: Metrics, ends: FinalInputs, history: History
) -> Iterator[ProgressListener]:
    """Passes each ledger entry of the query to the metrics, the history and `ends`, from a thread, while the context is
    open.

    `last` is the entry of the last batch of an earlier start. Yields the listener for Spark's progress reports of the
    same query.
    """
    kafka, name = plan.pipeline.settings.kafka, plan.pipeline.name
    letters = DeadLetterLog()

    def heard(entry: Entry) -> None:
        metrics.batch_written(entry)
        history.batch_written(entry)
        letters.heard(entry.report.first_dead)
        ends.heard(entry)

    if last is not None:
        metrics.restored(last)
        history.restored(last)
    with Follower(kafka, name, heard), InputOffsets(kafka, name) as offsets:
        yield ProgressListener(name, metrics, offsets, ProgressLog(name), history)


def zero_report(pipeline: Pipeline) -> Report:
    """A report with every counter at 0. A rate can be computed only if the counter exists before its first change."""
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
    """Passes each progress report of Spark to the metrics, the log and the history, and its offsets to the group that
    lag monitors read.
    """

    def __init__(self, stage: str, metrics: Metrics, offsets: InputOffsets, log: ProgressLog, history: History) -> None:
        self._stage = stage
        self._metrics, self._offsets, self._log, self._history = metrics, offsets, log, history

    def __call__(self, progress: Progress) -> None:
        phases = {phase: took / 1000 for phase, took in progress["durationMs"].items()}
        self._metrics.batch_ended(phases)
        read, ends = offsets_of(progress)
        records = _records(progress)
        if RUN in phases:  # Spark also reports while no batch runs
            self._history.batch_ended(Batch(progress["batchId"], progress["timestamp"], records, phases), read, ends)
        behind = self._metrics.offsets(read, ends)
        self._offsets.commit(read)
        self._metrics.behind(self._stage, behind)
        took = progress["durationMs"].get(WHOLE, 0) / 1000
        self._log.batch_ended(progress["batchId"], records, took, behind)


def _records(progress: Progress) -> int:
    """The number of records of the batch. Spark counts none in a batch without a job: then the number of offsets."""
    source = progress["sources"][0]
    starts, ends = flat(source["startOffset"] or {}), flat(source["endOffset"] or {})
    return int(source["numInputRows"]) or sum(end - starts.get(place, 0) for place, end in ends.items())


def offsets_of(progress: Progress) -> tuple[Offsets, Offsets]:
    """The offsets up to which the batch read (exclusive), and the ends of the topic partitions at that time."""
    source = progress["sources"][0]
    return flat(source["endOffset"] or {}), flat(source["latestOffset"] or {})
