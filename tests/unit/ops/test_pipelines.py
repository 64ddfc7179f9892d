from dataclasses import replace

import pytest

from sluice.kafka.batch_report import Entry, Report
from sluice.ops.metrics import Metrics
from sluice.ops.pipelines import STOP_TIMEOUT_S, HeldBack, Pipelines, Role, State
from sluice.time_units import SECOND
from tests.unit.ops.registered_pipelines import registered


@pytest.fixture
def clock():
    return [1000.0]


@pytest.fixture
def pipelines(clock):
    return Pipelines(several=True, now=lambda: clock[0])


@pytest.mark.parametrize(
    ("member", "healthy", "ready"),
    [
        (registered("a", State.STARTING, began=False), None, "a: starting"),
        (registered("a", State.STARTING), None, None),
        (registered("a", State.RUNNING), None, None),
        (
            registered("a", State.RUNNING, batch=400.0),
            "a: a batch has been running for 400 seconds, more than 300",
            "a: a batch has been running for 400 seconds, more than 300",
        ),
        (
            registered("a", State.WAITING, error="no topic", next_start=1004.0),
            None,
            "a: failed, starts again in 4 seconds: no topic",
        ),
        (registered("a", State.STARTING, began=False, error="no topic", starts=2), None, "a: starting again: no topic"),
        (registered("a", State.FAILED, error="no topic"), None, "a: failed: no topic"),
        (registered("a", State.WAITING, batch=400.0, next_start=1000.0), None, "a: ended, starts again in 0 seconds"),
        (registered("a", State.STOPPING), None, "a: stopping"),
        (registered("a", State.ENDED), None, None),
        (registered("a", State.STANDBY, began=False), None, None),
        (
            registered("a", State.STANDBY, began=False, error="no snapshot is left"),
            None,
            "a: standby, but it could not take over: no snapshot is left",
        ),
    ],
)
def test_what_health_and_readiness_say_of_each_state(pipelines, member, healthy, ready):
    pipelines.register(member)
    assert (pipelines.healthy(), pipelines.ready()) == (healthy, ready)


def test_a_pipeline_that_does_not_stop_is_not_healthy(pipelines, clock):
    pipelines.register(registered("a", State.STOPPING))
    clock[0] += STOP_TIMEOUT_S + 1
    assert pipelines.healthy() == "a: it was asked to stop 121 seconds ago, and its batch has not ended"


def test_each_pipeline_in_trouble_has_a_line(pipelines):
    pipelines.register(registered("b", State.FAILED, error="x"))
    pipelines.register(registered("a", State.STARTING, began=False))
    pipelines.register(registered("c", State.RUNNING))
    assert pipelines.ready() == "a: starting\nb: failed: x"


def test_the_only_pipeline_of_a_service_is_not_named():
    pipelines = Pipelines()
    pipelines.register(registered("a", began=False))
    assert pipelines.ready() == "starting"


def test_a_state_begins_when_it_changes(pipelines, clock):
    pipelines.register(registered("a"))
    clock[0] += 5
    pipelines.update("a", starts=1)
    assert pipelines.members[0].status.since == 1000.0
    pipelines.update("a", state=State.RUNNING)
    assert pipelines.members[0].status.since == 1005.0


def test_a_wrong_file_matters_to_readiness_only_if_no_pipeline_of_it_runs(pipelines):
    pipelines.register(registered("a", State.RUNNING, file="f/a.yaml"))
    pipelines.set_wrong_files({"f/a.yaml": "expected a window"})
    assert pipelines.ready() is None
    pipelines.set_wrong_files({"f/a.yaml": "expected a window", "f/b.yaml": "expected a topic"})
    assert (pipelines.ready(), pipelines.healthy()) == ("f/b.yaml: expected a topic", None)


def test_the_json_says_which_pipelines_and_files(pipelines):
    pipelines.register(registered("a", State.WAITING, file="f/a.yaml", starts=3, error="no topic", next_start=1002.0))
    pipelines.register(registered("b", State.RUNNING, file="f/b.yaml"))
    pipelines.set_wrong_files({"f/b.yaml": "expected a window"})
    none = {"since": 1000.0, "error": "", "next_start": None, "role": "", "trouble": "", "held_back": []}
    waits = {"state": "waiting", "starts": 3, "error": "no topic", "next_start": 1002.0}
    assert pipelines.described() == {
        "healthy": True,
        "ready": False,
        "pipelines": [
            {"name": "a", "file": "f/a.yaml", **none, **waits}
            | {"trouble": "failed, starts again in 2 seconds: no topic"},
            {"name": "b", "file": "f/b.yaml", "state": "running", "starts": 1, **none},
        ],
        "wrong_files": [{"file": "f/b.yaml", "problem": "expected a window"}],
    }


def test_the_roles_of_pipelines_with_a_standby(pipelines):
    pipelines.register(registered("a", State.STANDBY, role=Role.STANDBY))
    pipelines.register(registered("b", State.RUNNING, role=Role.LEADER))
    pipelines.register(registered("c", State.RUNNING))
    assert pipelines.remarks() == "a: standby\nb: leader"


def test_an_operator_that_is_held_back_is_a_remark_and_does_not_make_the_service_unready(pipelines):
    pipelines.register(registered("a", State.RUNNING))
    pipelines.register(registered("b", State.FAILED, error="no topic"))
    pipelines.held_back = lambda name: [HeldBack("rate", 180.0, f"`rate` of {name} cannot fire: it waits")]
    assert pipelines.remarks() == "a: `rate` of a cannot fire: it waits"
    said = [one["held_back"] for one in pipelines.described()["pipelines"]]
    assert said == [["`rate` of a cannot fire: it waits"], []]
    pipelines.remove("b")
    assert pipelines.ready() is None


@pytest.mark.parametrize(
    ("unread", "lag", "remark"),
    [
        (1_234_567, 34.2, "a: catching up: 1,234,567 records are unread, the last one read is 34 s old"),
        (500, 0.4, ""),
        (0, 34.2, ""),
    ],
)
def test_a_backlog_is_a_remark_and_does_not_make_the_service_unready(pipelines, unread, lag, remark):
    metrics = Metrics("1", now=lambda: 1000.0)
    metrics.batch_written(Entry("a", "id", 1, 1_000_000, 0, Report(newest=round((1000 - lag) * SECOND))))
    metrics.behind("a", unread)
    pipelines.register(replace(registered("a", State.RUNNING), metrics=metrics))
    assert pipelines.remarks() == remark
    assert pipelines.ready() is None


def test_a_removed_pipeline_is_gone(pipelines):
    pipelines.register(registered("a", State.FAILED))
    pipelines.remove("a")
    assert (pipelines.members, pipelines.ready()) == ((), None)
