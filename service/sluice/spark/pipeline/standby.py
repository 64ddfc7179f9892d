"""An instance that waits for the lead of a pipeline, ready to continue where the leader ends (`sluice run --standby`).

Waiting: Spark is up, and the queries have run once on a few records. At short intervals each checkpoint is brought to
the ledger's position (checkpoint_start.py), so that a take-over repeats only the batches since then.

Leading: Kafka has granted the lead (kafka/consumer_groups.py). The run locks the checkpoint and starts its queries, as
it does without --standby. The start fences a leader that still runs.

After a loss of the lead the run ends in order, and the pipeline waits for the lead again.

The first batch of a query in a new Java process takes many times as long as a later one: Java loads and compiles
classes, Spark compiles the code that it generates, and Python processes import modules and load kernels. So a warm-up
(`warm_up`) runs the query of a stage on a few records of the input topics, with a checkpoint of its own in a temporary
folder, and drops the outputs. It has no producer and reads no ledger, so nothing of it can be seen from outside. Code
of the user runs, as it does when a checkpoint is restored.
"""

from __future__ import annotations

import logging
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sluice.batch.packed_rows import Packed
from sluice.batch.query_plan import Plan
from sluice.checkpoint.checkpoint_folder import OccupiedError, locked, placed_stages
from sluice.checkpoint.checkpoint_identity import Identity, folder_of
from sluice.kafka.consumer_groups import Lead, LeadError
from sluice.kafka.kafka_errors import FencedError
from sluice.kafka.topics import Topic
from sluice.model.errors import SluiceError
from sluice.model.spec import Pipeline
from sluice.model.spreading import required_buckets
from sluice.ops.batch_progress import Observe
from sluice.ops.pipelines import Role
from sluice.processes import processors
from sluice.spark.failures import require_java, stopped
from sluice.spark.lanes.batch_lanes import OpenLanes
from sluice.spark.query import check_topics, start
from sluice.spark.query_watch import FINISH, IDLE, StopRequest, newest_batch
from sluice.state.checkpoint_start import follow_ledger
from sluice.state.server.pool import end_query

LOGGER = logging.getLogger("sluice")
#: seconds between two checks whether the lead was granted, and whether a lock was released
INTERVAL_S = 0.1
#: seconds in which a lead that no other instance has is granted; a new group waits 3 s for further members
GRANTED_SOON_S = 5.0
#: seconds between two reads of the ledger, at least, and as a multiple of the time that the last one took
FOLLOW_S, FOLLOW_SHARE = 2.0, 10.0


#: number of batches of a warm-up, and of records in each
BATCHES, RECORDS = 3, 200
#: longest time of a warm-up, in seconds
MAX_S = 120.0


class Standby:
    """The wait of one run of a pipeline for the lead, and what is known of the lead afterwards."""

    def __init__(self, pipeline: Pipeline, spark: SparkSession | None, report: Callable[[Role, str], None]) -> None:
        """`spark` is the session for a warm-up; None: there is no warm-up.

        `report` is called with the role that this instance has from now on, and with why it could not take over
        at present; "" if it could.
        """
        self._pipeline, self._spark, self._report = pipeline, spark, report
        self._lead: Lead | None = None
        self._trouble = ""
        self._waiting = False

    @contextmanager
    def lead(self, locks: Callable[[], AbstractContextManager[None]], stop: StopRequest) -> Iterator[bool]:
        """Waits for the lead and for the locks on the checkpoint. Yields False if `stop` was set before it had both.

        If the lead is lost inside the context, sets `stop`. At its end the locks are released and the lead is given up.
        """
        stages = [(stage, check_topics(stage)) for stage in placed_stages(self._pipeline)]
        kafka, name = self._pipeline.settings.kafka, self._pipeline.name
        self._lead = Lead(kafka, name, lambda: self._lost(stop))
        with self._lead, ExitStack() as stack:
            yield self._granted(self._lead, stages, stop) and self._locked(locks, stack, stop)

    @property
    def waiting(self) -> bool:
        """Whether another instance has the lead, so that the topics of the pipeline exist."""
        return self._waiting

    def took_over(self, error: SluiceError | None) -> bool:
        """Whether a run ended, with this error or none, because another instance has the lead or has started."""
        return isinstance(error, FencedError) or (self._lead is not None and self._lead.lost)

    def _granted(self, lead: Lead, stages: list[tuple[Pipeline, dict[str, Topic]]], stop: StopRequest) -> bool:
        def ended() -> bool:
            return lead.wait(INTERVAL_S) or stop.is_set()

        soon, due = time.monotonic() + GRANTED_SOON_S, 0.0
        while time.monotonic() < soon and not ended():
            pass
        if not ended():
            self._warm_up(stages, ended)
        granted = False
        while not (granted := granted or lead.wait(INTERVAL_S)) and not stop.is_set():
            require_java()
            if time.monotonic() < due:
                continue
            began = time.monotonic()
            self._follow(stages)
            due = time.monotonic() + max(FOLLOW_S, FOLLOW_SHARE * (time.monotonic() - began))
            if not self._waiting:
                LOGGER.info("standby: waiting for the lead", extra={"pipeline": self._pipeline.name})
            self._be(Role.STANDBY, self._trouble)
        if granted:
            LOGGER.info("leading", extra={"pipeline": self._pipeline.name})
            self._be(Role.LEADER)
        return granted

    def _warm_up(self, stages: list[tuple[Pipeline, dict[str, Topic]]], interrupted: Callable[[], bool]) -> None:
        for stage, topics in stages:
            if self._spark is None or interrupted():
                return
            try:
                warm_up(self._spark, stage, topics, interrupted)
            except LeadError:
                raise
            except Exception as error:  # noqa: BLE001 - the pipeline can start without it
                LOGGER.warning("standby: the warm-up has failed, so a take-over takes longer: %s", error)

    def _be(self, role: Role, trouble: str = "") -> None:
        self._waiting = role is Role.STANDBY
        self._report(role, trouble)

    def _follow(self, stages: list[tuple[Pipeline, dict[str, Topic]]]) -> None:
        """Brings the checkpoint of each stage to the ledger's position. A failure is logged and reported."""
        try:
            for stage, topics in stages:
                with locked(folder_of(stage), stage.name):
                    follow_ledger(stage, topics)
        except OccupiedError:  # the leader has the same folder: its checkpoint is at the ledger's position
            self._trouble = ""
        except Exception as error:  # noqa: BLE001 - whatever it is, the standby waits, and tries again
            if str(error) != self._trouble:
                LOGGER.warning("standby: the checkpoint cannot follow the ledger now: %s", error)
            self._trouble = str(error)
        else:
            self._trouble = ""

    def _locked(self, locks: Callable[[], AbstractContextManager[None]], stack: ExitStack, stop: StopRequest) -> bool:
        """Takes the locks as soon as they are free: an earlier leader with the same folder may still hold them."""
        logged = False
        while not stop.is_set():
            try:
                stack.enter_context(locks())
            except OccupiedError as error:
                if not logged:
                    LOGGER.warning("the lead is granted, but the checkpoint is still in use: %s", error)
                logged = True
                stop.wait(INTERVAL_S)
            else:
                return True
        return False

    def _lost(self, stop: StopRequest) -> None:
        LOGGER.warning("the lead is lost; stopping", extra={"pipeline": self._pipeline.name})
        self._be(Role.STANDBY, "it has lost the lead, and still stops")
        stop.set(FINISH)


def warm_up(spark: SparkSession, stage: Pipeline, topics: Mapping[str, Topic], interrupted: Callable[[], bool]) -> None:
    """Runs a few batches of the stage's query. `topics` has its topics by name. Raises the error of a batch that fails.

    Ends early as soon as `interrupted` says so, which is called again and again and should wait for a moment.
    """
    began = time.monotonic()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sluice-warm-", ignore_cleanup_errors=True))
        plan = _plan(stage, topics, folder)
        stack.callback(end_query, plan.query)
        opened = OpenLanes()
        stack.callback(opened.close)
        query = start(spark, plan, opened=opened, deliver=drop)
        stack.callback(stopped, query.stop)
        while query.isActive and not (interrupted() or _warm(query) or time.monotonic() - began > MAX_S):
            pass
        if (failure := query.exception()) is not None:
            raise failure
    LOGGER.info("warm-up ended", extra={"stage": stage.name, "seconds": round(time.monotonic() - began, 1)})


def drop(plan: Plan, batch: int, rows: list[Packed], observe: Observe) -> None:
    """Takes the place of `commit`: the outputs of a warm-up go nowhere."""


def _plan(stage: Pipeline, topics: Mapping[str, Topic], folder: str) -> Plan:
    settings = stage.settings
    buckets = required_buckets(stage) or processors()
    # Without the idle clock: its times would be batches of their own.
    warm = replace(
        settings, checkpoint=folder, start="earliest", on_data_loss="continue", clock="records",
        max_records_per_batch=RECORDS, trigger_interval=0, latency="low",
    )  # fmt: skip
    identity = Identity(stage.name, "", buckets, f"warm-up-{uuid.uuid4()}")
    return Plan.of(replace(stage, settings=warm), identity, topics, str(uuid.uuid4()))


def _warm(query: StreamingQuery) -> bool:
    """Whether all batches have ended, or there are no more records."""
    newest = newest_batch(query)
    return (newest is not None and newest >= BATCHES - 1) or query.status["message"] in IDLE
