"""An instance that waits for the lead of a pipeline, ready to continue where the leader ends (`sluice run --standby`).

Waiting: Spark is up, and the queries have run once on a few records (warm_up.py). At short intervals each checkpoint is
brought to the ledger's position (checkpoint_start.py), so that a take-over repeats only the batches since then.

Leading: Kafka has granted the lead (kafka/groups/lead.py). The run locks the checkpoint and starts its queries, as it
does without --standby. The start fences a leader that still runs.

After a loss of the lead the run ends in order, and the pipeline waits for the lead again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from pyspark.sql import SparkSession

from sluice.checkpoint.checkpoint_identity import folder_of
from sluice.checkpoint.folder_lock import OccupiedError, locked
from sluice.checkpoint.stage_folders import placed_stages
from sluice.kafka.groups.lead import Lead, LeadError
from sluice.kafka.kafka_errors import FencedError
from sluice.kafka.topics import Topic
from sluice.model.errors import SluiceError
from sluice.model.spec import Pipeline
from sluice.ops.pipelines import Role
from sluice.spark.failures import require_java
from sluice.spark.pipeline.warm_up import warm_up
from sluice.spark.query import check_topics
from sluice.spark.watch import FINISH, StopRequest
from sluice.state.checkpoint_start import follow_ledger

LOGGER = logging.getLogger("sluice")
#: seconds between two checks whether the lead was granted, and whether a lock was released
INTERVAL_S = 0.1
#: seconds in which a lead that no other instance has is granted; a new group waits 3 s for further members
GRANTED_SOON_S = 5.0
#: seconds between two reads of the ledger, at least, and as a multiple of the time that the last one took
FOLLOW_S, FOLLOW_SHARE = 2.0, 10.0


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
        found = [(stage, check_topics(stage)) for stage in placed_stages(self._pipeline)]
        kafka, name = self._pipeline.settings.kafka, self._pipeline.name
        self._lead = Lead(kafka, name, lambda: self._lost(stop))
        with self._lead, ExitStack() as stack:
            yield self._granted(self._lead, found, stop) and self._locked(locks, stack, stop)

    @property
    def waiting(self) -> bool:
        """Whether another instance has the lead, so that the topics of the pipeline exist."""
        return self._waiting

    def took_over(self, error: SluiceError | None) -> bool:
        """Whether a run ended, with this error or none, because another instance has the lead or has started."""
        return isinstance(error, FencedError) or (self._lead is not None and self._lead.lost)

    def _granted(self, lead: Lead, found: list[tuple[Pipeline, dict[str, Topic]]], stop: StopRequest) -> bool:
        def ended() -> bool:
            return lead.wait(INTERVAL_S) or stop.is_set()

        soon, due = time.monotonic() + GRANTED_SOON_S, 0.0
        while time.monotonic() < soon and not ended():
            pass
        if not ended():
            self._warm_up(found, ended)
        granted = False
        while not (granted := granted or lead.wait(INTERVAL_S)) and not stop.is_set():
            require_java()
            if time.monotonic() < due:
                continue
            began = time.monotonic()
            self._follow(found)
            due = time.monotonic() + max(FOLLOW_S, FOLLOW_SHARE * (time.monotonic() - began))
            if not self._waiting:
                LOGGER.info("standby: waiting for the lead", extra={"pipeline": self._pipeline.name})
            self._be(Role.STANDBY, self._trouble)
        if granted:
            LOGGER.info("leading", extra={"pipeline": self._pipeline.name})
            self._be(Role.LEADER)
        return granted

    def _warm_up(self, found: list[tuple[Pipeline, dict[str, Topic]]], interrupted: Callable[[], bool]) -> None:
        for stage, topics in found:
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

    def _follow(self, found: list[tuple[Pipeline, dict[str, Topic]]]) -> None:
        """Brings the checkpoint of each stage to the ledger's position. A failure is logged and reported."""
        try:
            for stage, topics in found:
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
        said = False
        while not stop.is_set():
            try:
                stack.enter_context(locks())
            except OccupiedError as error:
                if not said:
                    LOGGER.warning("the lead is granted, but the checkpoint is still in use: %s", error)
                said = True
                stop.wait(INTERVAL_S)
            else:
                return True
        return False

    def _lost(self, stop: StopRequest) -> None:
        LOGGER.warning("the lead is lost; stopping", extra={"pipeline": self._pipeline.name})
        self._be(Role.STANDBY, "it has lost the lead, and still stops")
        stop.set(FINISH)
