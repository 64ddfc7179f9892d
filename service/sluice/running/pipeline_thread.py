"""A run of a pipeline in a thread of its own, beside the runs of other pipelines."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from sluice.model.errors import SluiceError
from sluice.model.secrets import masked
from sluice.ops.log_lines import PIPELINE
from sluice.processes import ExitDeadline
from sluice.running.supervisor import Outcome
from sluice.spark.failures import JavaEndedError, UnexpectedError, explaining, unexpected
from sluice.spark.lanes.batch_lanes import HungBatchError
from sluice.spark.pipeline.pipeline_run import PipelineRun
from sluice.spark.pipeline.standby import Standby
from sluice.spark.query_watch import FINISH, StopRequest

LOGGER = logging.getLogger("sluice")
#: errors after which no pipeline can start again in this process
FATAL = (JavaEndedError, HungBatchError)


@contextmanager
def _with_true(locks: AbstractContextManager[None]) -> Iterator[bool]:
    with locks:
        yield True


class PipelineThread:
    """A run that begins at once. Only `exit_deadline` can end the process because of it."""

    def __init__(
        self, name: str, run: PipelineRun, standby: Standby | None = None, exit_deadline: ExitDeadline | None = None
    ) -> None:
        """`name` is the name of the pipeline. With `standby` the run first waits for the lead.

        `exit_deadline` is armed if a failure of the run ends the whole service: it then ends even if a query hangs.
        """
        self._name, self._run, self._standby, self._exit_deadline = name, run, standby, exit_deadline
        self._request = StopRequest()
        self._service_ends = False
        self._outcome = Outcome(UnexpectedError("the thread of the pipeline has ended without a result"))
        self._thread = threading.Thread(target=self._work, name=f"sluice-{name}", daemon=True)
        self._thread.start()

    def stop(self, finish: float | None = None) -> None:
        """Requests the end of the run, and returns at once. The run ends in order.

        Its batch may take `finish` seconds. None: the whole service ends, and the batch may take the default.
        """
        self._service_ends = finish is None
        self._request.set(FINISH if finish is None else finish)

    def outcome(self) -> Outcome | None:
        """The end of the run; None while a query of it is active. The locks on the checkpoint are then released."""
        return None if self._thread.is_alive() else self._outcome

    @property
    def prepared(self) -> bool:
        """Whether the topics that the pipeline writes exist."""
        return self._run.prepared or (self._standby is not None and self._standby.waiting)

    def _work(self) -> None:
        PIPELINE.set(self._name)
        outcome = Outcome()
        try:
            with self._started() as may_run:
                if may_run:
                    outcome = self._ended()
                    if not isinstance(outcome.error, HungBatchError):
                        self._run.wait_for_queries()
            if not (self._service_ends or outcome.fatal):
                self._run.release()
        except Exception as error:  # noqa: BLE001 - the supervisor gets it
            outcome = _outcome_of(error)
        self._outcome = self._without_lead(outcome)

    def _started(self) -> AbstractContextManager[bool]:
        """Takes the locks on the checkpoint and, with a standby, the lead. Yields False if the run must not begin any
        more.
        """
        if self._standby is not None:
            return self._standby.lead(self._run.locks, self._request)
        return _with_true(self._run.locks())

    def _without_lead(self, outcome: Outcome) -> Outcome:
        """The same outcome or, if another instance has taken over, one after which the run waits for the lead again."""
        if self._standby is None or outcome.fatal or not self._standby.took_over(outcome.error):
            return outcome
        if self._exit_deadline is not None:
            self._exit_deadline.disarm()
        LOGGER.warning("another instance has taken over: %s", outcome.error or "the lead was lost")
        return Outcome(lost_lead=True)

    def _ending(self, failure: SluiceError | None) -> None:
        """Called when the queries of the run are about to be stopped."""
        if self._exit_deadline is None or failure is None or self._service_ends:
            return
        if self._standby is None or not self._standby.took_over(failure):
            arm(self._exit_deadline, failure)

    def _ended(self) -> Outcome:
        try:
            with explaining():
                self._run.run(self._request, self._ending)
        except Exception as error:  # noqa: BLE001 - the supervisor gets it
            return _outcome_of(error)
        return Outcome()


def arm(exit_deadline: ExitDeadline, failure: SluiceError | None) -> None:
    """Bounds the time until the service has ended: after this failure, or (None) after a request to stop."""
    exit_deadline.arm(failure.exit_code if failure else 0, masked(str(failure or "")))


def _outcome_of(error: Exception) -> Outcome:
    if isinstance(error, SluiceError):
        return Outcome(error, fatal=isinstance(error, FATAL))
    LOGGER.error("an unexpected error", exc_info=error)
    return Outcome(unexpected(error))
