"""The wait for the lead, with a lead that the test grants and takes away, and on a clock that only waiting moves."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from sluice.checkpoint.checkpoint_folder import OccupiedError
from sluice.config.load import load_text
from sluice.kafka.kafka_errors import FencedError, UnavailableError
from sluice.ops.pipelines import Role
from sluice.spark.pipeline import standby as module
from sluice.spark.pipeline.standby import FOLLOW_S, GRANTED_SOON_S, Standby
from sluice.spark.query_watch import StopRequest

FILE = """
pipeline: p
streams:
  in: {topic: in, schema: {k: string}}
  out: {topic: out}
operators:
  - {name: copy, map: in, output: [out]}
"""


class World:
    """The parts around a standby. `at` is the time in seconds; at `granted_at` Kafka grants the lead."""

    def __init__(self, folder, granted_at):
        self.at, self.granted_at = 0.0, granted_at
        #: the times at which the checkpoint followed the ledger, and at which this fails
        self.followed, self.failing = [], (0.0, 0.0)
        #: how often the locks are taken by another process before they are free
        self.occupied = 0
        self.roles = []
        self.stop = StopRequest()
        self.stop.wait = self.passes
        pipeline = load_text(f"checkpoint: {folder}\n{FILE}", "p.yaml")
        self.standby = Standby(pipeline, None, lambda role, trouble: self.roles.append((role, trouble)))

    def lead_of(self, kafka, pipeline, lost):
        self.lose = lost
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.left = True

    lost = False

    def wait(self, seconds):
        self.passes(seconds)
        return self.granted_at is not None and self.at >= self.granted_at

    def passes(self, seconds):
        self.at += seconds
        if self.at > 100:
            self.stop.set()

    def follow(self, stage, found):
        self.followed.append(self.at)
        if self.failing[0] <= self.at < self.failing[1]:
            message = "no broker answers"
            raise UnavailableError(message)

    @contextmanager
    def locks(self):
        if self.occupied:
            self.occupied -= 1
            message = "checkpoint c: another instance runs with it"
            raise OccupiedError(message)
        yield

    def changes(self):
        """The roles and troubles without repetitions."""
        return [one for number, one in enumerate(self.roles) if number == 0 or one != self.roles[number - 1]]


@pytest.fixture
def world(tmp_path, monkeypatch):
    def make(granted_at):
        one = World(tmp_path, granted_at)
        monkeypatch.setattr(module, "Lead", one.lead_of)
        monkeypatch.setattr(module, "check_topics", lambda _: {})
        monkeypatch.setattr(module, "require_java", lambda: None)
        monkeypatch.setattr(module, "follow_ledger", one.follow)
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: one.at))
        return one

    return make


def test_a_lead_that_nobody_has_is_granted_before_the_instance_follows_the_ledger(world):
    one = world(granted_at=1.0)
    with one.standby.lead(one.locks, one.stop) as may_run:
        assert may_run
        assert (one.followed, one.changes()) == ([], [(Role.LEADER, "")])


def test_a_standby_follows_the_ledger_until_it_leads(world):
    one = world(granted_at=20.0)
    with one.standby.lead(one.locks, one.stop) as may_run:
        assert may_run
    assert one.followed[0] >= GRANTED_SOON_S
    gaps = [after - before for before, after in zip(one.followed, one.followed[1:], strict=False)]
    assert all(FOLLOW_S <= gap < FOLLOW_S + 1 for gap in gaps)
    assert one.changes() == [(Role.STANDBY, ""), (Role.LEADER, "")]
    assert one.left


def test_a_standby_says_why_it_could_not_take_over_until_it_could(world):
    one = world(granted_at=20.0)
    one.failing = (8.0, 12.0)
    with one.standby.lead(one.locks, one.stop):
        pass
    trouble = (Role.STANDBY, "no broker answers")
    assert one.changes() == [(Role.STANDBY, ""), trouble, (Role.STANDBY, ""), (Role.LEADER, "")]


def test_a_standby_that_is_stopped_does_not_run(world):
    one = world(granted_at=None)
    with one.standby.lead(one.locks, one.stop) as may_run:
        assert not may_run
    assert one.left


def test_a_leader_waits_for_the_folder_that_an_earlier_leader_still_has(world):
    one = world(granted_at=1.0)
    one.occupied = 5
    with one.standby.lead(one.locks, one.stop) as may_run:
        assert (may_run, one.occupied) == (True, 0)


def test_the_loss_of_the_lead_stops_the_run(world):
    one = world(granted_at=1.0)
    with one.standby.lead(one.locks, one.stop):
        assert not one.stop.is_set()
        one.lose()
        assert one.stop.is_set()
    assert one.roles[-1][0] is Role.STANDBY


@pytest.mark.parametrize(
    ("lost", "error", "took_over"),
    [
        (False, None, False),
        (False, UnavailableError("no broker answers"), False),
        (False, FencedError("another instance has started"), True),
        (True, None, True),
        (True, UnavailableError("no broker answers"), True),
    ],
)
def test_which_ends_of_a_run_mean_that_another_instance_goes_on(world, lost, error, took_over):
    one = world(granted_at=1.0)
    with one.standby.lead(one.locks, one.stop):
        one.lost = lost
    assert one.standby.took_over(error) is took_over
