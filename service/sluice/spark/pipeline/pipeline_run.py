"""One run of a pipeline: from the locks on its checkpoint to the end of its Spark queries, one for each stage."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sluice.batch.commit import settings_of
from sluice.batch.query_plan import Plan
from sluice.checkpoint.checkpoint_folder import locked, placed_stages
from sluice.checkpoint.checkpoint_identity import folder_of
from sluice.checkpoint.offset_log import first_offsets
from sluice.kafka import ledger
from sluice.kafka.batch_report import Counts, Entry, Report, flat
from sluice.kafka.batch_writer import open_early
from sluice.kafka.consumer_groups import InputOffsets
from sluice.kafka.kafka_errors import PartsClosedError, TopicMissingError, TopicPartitionsAddedError, TopicsChangedError
from sluice.kafka.ledger_follower import Follower
from sluice.kafka.range_reader import Offsets
from sluice.kafka.requests import RETRY_TIMEOUT_S
from sluice.model.spec import Pipeline
from sluice.ops.batch_progress import DeadLetterLog, Observe, ProgressLog, ignored
from sluice.ops.metrics import WHOLE, Metrics
from sluice.ops.pipelines import Registered
from sluice.page.history import Batch, History
from sluice.page.pipeline_pages import PipelinePage
from sluice.spark.failures import stopped
from sluice.spark.lanes.batch_lanes import MAX_WORK_S, HungBatchError, OpenLanes
from sluice.spark.lanes.direct_lane import load_early
from sluice.spark.pipeline.class_changes import ClassChanges
from sluice.spark.pipeline.shared_session import SharedSession
from sluice.spark.placement import Placement
from sluice.spark.query import prepare, start
from sluice.spark.query_watch import STOP, Ending, Kinds, Progress, StopRequest, WatchedQuery, watch
from sluice.state import bucket_inspection
from sluice.state.server.pool import VARIABLE as POOL_SOCKET
from sluice.state.server.pool import end_query
from sluice.state.snapshot_archive import SnapshotArchive
from sluice.state.snapshot_uploads import SnapshotUploads
from sluice.state.upgrade.file_changes import require_accepted
from sluice.wire.dead_letter_record import Reason
from sluice.wire.mark_headers import WORDS

LOGGER = logging.getLogger("sluice")
#: seconds between two checks whether a query that was stopped has ended
INTERVAL = 0.1
#: maximum seconds from the stop of the queries to their end, if they are to start again
RESTART_S = 30.0
#: the property of a thread that names the scheduler pool of its queries: the pools of all pipelines get equal shares
POOL = "spark.scheduler.pool"
#: Spark's name of the phase in which a batch does its work
WORK = "addBatch"


class PipelineRun:
    """One run of a pipeline. `run` is called once, inside of `locks`."""

    def __init__(
        self, member: Registered, page: PipelinePage, session: SharedSession, *,
        reset_ledger: bool = False, accept: bool = False, until_final: bool = False,
    ) -> None:  # fmt: skip
        """`page` gets what the run does. With `accept`, states of operators may be lost by a change of the file. With
        `until_final` the run also ends when all inputs are final.
        """
        self._member, self._page, self._session = member, page, session
        self._pipeline = member.pipeline
        self._reset_ledger, self._accept, self._until_final = reset_ledger, accept, until_final
        self._queries: Sequence[StreamingQuery] = ()
        self._checkpoints: list[str] = []
        self._opened = OpenLanes()
        self._class_changes = ClassChanges()
        #: whether topics, checkpoint and ledger of all stages are checked; the topics of outputs then exist
        self.prepared = False

    @contextmanager
    def locks(self) -> Iterator[None]:
        """Locks the checkpoint of each stage, so only one run at a time uses it (checkpoint/checkpoint_folder.py)."""
        with ExitStack() as stack:
            for stage in placed_stages(self._pipeline):
                stack.enter_context(locked(folder_of(stage), stage.name))
            yield

    def run(self, stop: StopRequest, ending: Ending) -> None:
        """Runs until `stop` is set. Raises the error that made a query fail. `ending` as in `watch`."""
        name = self._pipeline.name
        with ExitStack() as stack:
            if not self._reset_ledger:
                require_accepted(self._pipeline, accept=self._accept)
            plans = [
                prepare(
                    stage, reset_ledger=self._reset_ledger, accept=self._accept, on_cluster=self._session.on_cluster
                )
                for stage in placed_stages(self._pipeline)
            ]
            self.prepared = True
            entries = [ledger.last_entry(plan.pipeline.settings.kafka, plan.pipeline.name) for plan in plans]
            ends = FinalInputs(plans if self._until_final else [], stop.set)
            for entry in filter(None, entries):
                ends.batch_written(entry)
            if stop.is_set():
                if self._until_final:
                    LOGGER.info("all inputs are final already", extra={"pipeline": name})
                return
            seen = [
                stack.enter_context(self._following(plan, last, ends))
                for plan, last in zip(plans, entries, strict=True)
            ]
            _log_topics(plans)
            for plan, last in zip(plans, entries, strict=True):
                if plan.pipeline.settings.direct_records:
                    load_early(plan.pipeline)
                open_early(settings_of(plan), 0 if last is None else last.batch + 1)
            spark, placed = self._session.opened([self._pipeline], stop.wait)
            spark.sparkContext.setLocalProperty(POOL, name)
            self._checkpoints = [plan.query for plan in plans]
            for plan in plans:
                log_fields = {"pipeline": plan.pipeline.name, "checkpoint": plan.checkpoint, "buckets": plan.buckets}
                LOGGER.info("running", extra=log_fields)
            local = placed is None and POOL_SOCKET in os.environ
            watching, starting = partial(self._watched, seen, stop, ending), partial(self._shown, local=local)
            observe = self._member.metrics.step_ended
            run(spark, plans, watching, placed, starting=starting, opened=self._opened, observe=observe)
            LOGGER.info("ended", extra={"pipeline": name})

    def wait_for_queries(self) -> None:
        """Waits until no batch of this run is in progress. Until then no other run of the pipeline may start, here
        or in another instance. Raises HungBatchError after MAX_WORK_S: a batch that hangs ends only with its process.
        """
        if not _have_ended(self._queries, self._opened, MAX_WORK_S):
            raise HungBatchError.after_a_stop()

    def release(self) -> None:
        """Closes the Kafka clients and ends the state servers of the queries, which have ended.

        A service that ends needs no call: its clients and state servers end with it.
        """
        self._opened.close()
        for checkpoint in self._checkpoints:
            end_query(checkpoint)

    @contextmanager
    def _following(self, plan: Plan, last: Entry | None, ends: FinalInputs) -> Iterator[ProgressListener]:
        """Passes each ledger entry of the query to the metrics, the page and `ends`, from a thread, while the context
        is open.

        `last` is the entry of the last batch of an earlier start. Yields the listener for Spark's progress reports of
        the same query.
        """
        kafka, name = plan.pipeline.settings.kafka, plan.pipeline.name
        metrics, history, letters = self._member.metrics, self._page.stage(name).history, DeadLetterLog()

        def batch_written(entry: Entry) -> None:
            metrics.batch_written(entry)
            history.batch_written(entry)
            letters.batch_written(entry.report.first_dead)
            ends.batch_written(entry)

        metrics.count(Report(lost=_no_losses(plan)))
        if last is not None:
            metrics.restored(last)
            history.restored(last)
        archive = SnapshotArchive.of(plan)
        uploads = SnapshotUploads(plan, archive, partial(metrics.store, name)) if archive else nullcontext()
        with uploads, Follower(kafka, name, batch_written), InputOffsets(kafka, name) as offsets:
            first = partial(first_offsets, plan.store)
            log = ProgressLog(name, about=partial(self._page.progress_fields, name))
            yield ProgressListener(name, metrics, offsets, log, history, first=first)

    def _shown(self, plan: Plan, *, local: bool) -> None:
        """Gives the page the function that inspects the state servers of this plan's query, which starts now.

        `local`: whether the state servers are on this machine, and their pool has a socket with a name. State servers
        of executors of a cluster cannot be inspected.
        """
        inspect = partial(bucket_inspection.inspect, plan.server_name) if local else None
        self._page.stage(plan.pipeline.name).running(plan.buckets, plan.topic_partitions, inspect)

    def _look(self) -> None:
        self._opened.look()
        self._class_changes.look()

    def _watched(
        self, seen: Sequence[ProgressListener], stop: StopRequest, ending: Ending, queries: Sequence[StreamingQuery]
    ) -> None:
        self._queries = queries
        watched, restarts = list(map(WatchedQuery, queries, seen)), restarts_of(self._pipeline)
        watch(watched, stop, self._member.health, ending, look=self._look, wake=self._opened.wake, restarts=restarts)


def _log_topics(plans: Sequence[Plan]) -> None:
    for plan in plans:
        for stream in plan.pipeline.inputs:
            count = plan.topic_partitions[stream.name]
            LOGGER.info("input found", extra={"stream": stream.name, "topic": stream.topic, "topic_partitions": count})


def run(
    spark: SparkSession,
    plans: Sequence[Plan],
    watching: Callable[[Sequence[StreamingQuery]], None],
    placed: Placement | None = None,
    *,
    starting: Callable[[Plan], object] = lambda _: None,
    opened: OpenLanes | None = None,
    observe: Observe = ignored,
) -> None:
    """Runs the queries of these plans. After an error of the kinds `restarts_of` it restarts them, with the topics as
    they then are.

    `starting` is called with each plan before its query starts. `opened` gets the lanes of the queries, for the caller
    to close after all queries have ended; `observe` gets the durations of the steps of batches. If a query does not end
    before the restart, raises the error that required it.

    At the end, waits for batches that have begun early as long as for queries that stop: the caller then releases the
    locks on the checkpoint.
    """
    opened = OpenLanes() if opened is None else opened
    while True:
        for plan in plans:
            starting(plan)
        queries = _started(spark, plans, placed, opened, observe)
        try:
            return watching(queries)
        except restarts_of(*(plan.pipeline for plan in plans)) as change:
            LOGGER.info("starting again: %s", change)
            if not _have_ended(queries, opened, RESTART_S):  # Spark refuses another query with the same name
                raise
            opened.close()
            plans = [_prepared_again(plan.pipeline, on_cluster=placed is not None) for plan in plans]
        finally:
            opened.end(STOP)


def restarts_of(*stages: Pipeline) -> Kinds:
    """The kinds of errors after which the queries of the stages of a pipeline start again: if records may be lost, also
    after a topic was deleted.
    """
    may_lose = any(stage.settings.on_data_loss == "continue" for stage in stages)
    return (PartsClosedError, TopicsChangedError if may_lose else TopicPartitionsAddedError)


def _prepared_again(pipeline: Pipeline, *, on_cluster: bool) -> Plan:
    """As `prepare`. Waits for a topic that was deleted, for at most RETRY_TIMEOUT_S: it may be created again."""
    deadline = time.monotonic() + RETRY_TIMEOUT_S
    while True:
        try:
            return prepare(pipeline, on_cluster=on_cluster)
        except TopicMissingError:
            if time.monotonic() > deadline:
                raise
        time.sleep(INTERVAL)


def _have_ended(queries: Sequence[StreamingQuery], opened: OpenLanes, seconds: float) -> bool:
    """Waits until no batch of the queries is in progress, for at most so many seconds. Returns whether none is."""
    deadline = time.monotonic() + seconds
    with suppress(Py4JError, OSError):  # without the Java process there are no queries
        while any(map(_runs, queries)):
            if time.monotonic() > deadline:
                return False
            time.sleep(INTERVAL)
    return opened.end(deadline - time.monotonic())


def _runs(query: StreamingQuery) -> bool:
    """Whether the query may write to its checkpoint and to Kafka. Spark counts a query as inactive from the request to
    stop it on, though it goes on until the running batch has returned.
    """
    return query.isActive or bool(query.status["isTriggerActive"])


def _started(
    spark: SparkSession, plans: Sequence[Plan], placed: Placement | None, opened: OpenLanes, observe: Observe
) -> list[StreamingQuery]:
    """The queries of these plans. If one cannot be started, the queries before it are stopped."""
    queries: list[StreamingQuery] = []
    try:
        for plan in plans:
            query = start(spark, plan, placed, opened, observe=observe)
            queries.append(query)
    except BaseException:
        for query in queries:
            stopped(query.stop)
        raise
    return queries


class FinalInputs:
    """Calls `over` as soon as the inputs of all these plans are final. Without plans it never calls it."""

    def __init__(self, plans: Sequence[Plan], over: Callable[[], None]) -> None:
        self._going_on = {plan.pipeline.name for plan in plans}
        self._over = over

    def batch_written(self, entry: Entry) -> None:
        """Handles the ledger entry of a batch that has become visible."""
        if entry.report.final and entry.query in self._going_on:
            self._going_on.remove(entry.query)
            if not self._going_on:
                self._over()


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


def _no_losses(plan: Plan) -> Counts:
    """The counters of `Report.lost` at 0, as in `zero_report`."""
    return {
        str(stream.topic): dict.fromkeys(map(str, range(plan.topic_partitions[stream.name])), 0)
        for stream in plan.inputs
    }


class ProgressListener:
    """Passes the progress reports of Spark to the metrics, the log and the history, and the newest offsets to the group
    that lag monitors read: a request to a broker for each look at the query, not for each batch.
    """

    def __init__(
        self, stage: str, metrics: Metrics, offsets: InputOffsets, log: ProgressLog, history: History, *,
        first: Callable[[], Offsets],
    ) -> None:  # fmt: skip
        """`first` gives the offsets at which the first batch starts, which Spark does not report."""
        self._stage, self._first = stage, first
        self._metrics, self._offsets, self._log, self._history = metrics, offsets, log, history

    def __call__(self, reports: Sequence[Progress]) -> None:
        for progress in reports:
            self._report(progress)
        if reports:
            self._offsets.commit(offsets_of(reports[-1])[0])

    def _report(self, progress: Progress) -> None:
        read, ends = offsets_of(progress)
        behind = self._metrics.offsets(read, ends)
        self._metrics.behind(self._stage, behind)
        phases = {phase: took / 1000 for phase, took in progress["durationMs"].items()}
        if WORK in phases:  # Spark also reports while no batch runs
            batch = Batch(progress["batchId"], progress["timestamp"], self._records(progress), phases)
            self._metrics.batch_ended(phases)
            self._history.batch_ended(batch, read, ends)
            self._log.batch_ended(batch.number, batch.records, phases.get(WHOLE, 0.0), behind)

    def _records(self, progress: Progress) -> int:
        """The number of records of the batch. Spark counts none in a batch without a job: then the number of offsets.

        A topic partition without a start offset is not counted, nor is one that ends before its start, because its
        newest records were lost.
        """
        source = progress["sources"][0]
        if counted := int(source["numInputRows"]):
            return counted
        starts, ends = flat(source["startOffset"] or {}) or self._first(), flat(source["endOffset"] or {})
        return sum(max(0, end - starts[place]) for place, end in ends.items() if place in starts)


def offsets_of(progress: Progress) -> tuple[Offsets, Offsets]:
    """The offsets up to which the batch read (exclusive), and the ends of the topic partitions at that time."""
    source = progress["sources"][0]
    return flat(source["endOffset"] or {}), flat(source["latestOffset"] or {})
