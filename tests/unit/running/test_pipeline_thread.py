"""Ends of a run in its own thread: the outcome, and which failures bound the end of the service."""

from __future__ import annotations

from contextlib import contextmanager
from unittest.mock import Mock, call

import pytest

from sluice.kafka.kafka_errors import FencedError, UnavailableError
from sluice.running.pipeline_thread import PipelineThread
from sluice.spark.lanes.batch_lanes import HungBatchError

LOST = UnavailableError("no broker answers")
FENCED = FencedError("another instance has started")
HUNG = HungBatchError("the last batch has not ended")


class Run:
    """A run whose queries end with this failure; None: after a request to stop."""

    prepared = True

    def __init__(self, failure=None, locks=None):
        self._failure, self._locks = failure, locks
        self.release, self.wait_for_queries = Mock(), Mock()

    @contextmanager
    def locks(self):
        if self._locks:
            raise self._locks
        yield

    def run(self, stop, ending):
        ending(self._failure)
        if self._failure:
            raise self._failure


class Standby:
    """A standby that has the lead, until it is `lost`."""

    def __init__(self, *, lost=False):
        self._lost = lost

    @contextmanager
    def lead(self, locks, stop):
        with locks():
            yield True

    def took_over(self, error):
        return self._lost or isinstance(error, FencedError)


def ended(*given):
    thread = PipelineThread("p", *given)
    thread._thread.join(10)  # noqa: SLF001
    return thread.outcome()


@pytest.mark.parametrize(
    ("failure", "lost", "armed"),
    [
        pytest.param(LOST, False, [call.arm(3, "no broker answers")], id="a failure that ends the service"),
        pytest.param(FENCED, False, [call.disarm()], id="another instance has started"),
        pytest.param(LOST, True, [call.disarm()], id="the lead was lost before"),
        pytest.param(None, True, [call.disarm()], id="the lead was lost"),
        pytest.param(None, False, [], id="a request to stop"),
    ],
)
def test_which_ends_of_a_run_bound_the_end_of_the_service(failure, lost, armed):
    exit_deadline = Mock()
    assert ended(Run(failure), Standby(lost=lost), exit_deadline).lost_lead is (armed == [call.disarm()])
    assert exit_deadline.mock_calls == armed


@pytest.mark.parametrize("failure", [None, LOST])
def test_a_batch_that_hangs_at_the_end_of_a_run_ends_the_service(failure):
    run = Run(failure)
    run.wait_for_queries = Mock(side_effect=HUNG)
    outcome = ended(run)
    assert (outcome.error, outcome.fatal) == (HUNG, True)
    assert not run.release.mock_calls, "the batch uses what the run has"


def test_a_run_that_failed_because_its_batch_hangs_ends_the_service_at_once():
    run = Run(HUNG)
    outcome = ended(run)
    assert (outcome.error, outcome.fatal) == (HUNG, True)
    assert not run.wait_for_queries.mock_calls


def test_an_unexpected_error_before_the_run_is_its_outcome():
    outcome = ended(Run(locks=OSError(28, "No space left on device")))
    assert (outcome.error.exit_code, outcome.fatal) == (70, False)
    assert "No space left on device" in str(outcome.error)
