"""What health says of a pipeline whose instance gets and loses the lead."""

from __future__ import annotations

import pytest

from sluice.ops.pipelines import STOP_TIMEOUT_S, Pipelines, Role, State
from sluice.running.service import _report_role
from tests.unit.ops.registered_pipelines import registered


@pytest.fixture
def clock():
    return [1000.0]


@pytest.fixture
def pipelines(clock):
    found = Pipelines(now=lambda: clock[0])
    found.register(registered("p", State.STARTING, began=False))
    return found


@pytest.mark.parametrize(
    ("roles", "state"),
    [
        ([Role.STANDBY], State.STANDBY),
        ([Role.LEADER], State.STARTING),
        ([Role.STANDBY, Role.LEADER], State.STARTING),
        ([Role.LEADER, Role.STANDBY], State.STOPPING),
    ],
)
def test_a_role_begins_with_a_state(pipelines, roles, state):
    for role in roles:
        _report_role(pipelines, "p", role, "")
    assert pipelines.members[0].status.state is state


def test_a_run_that_does_not_stop_after_the_loss_of_the_lead_makes_the_service_unhealthy(pipelines, clock):
    _report_role(pipelines, "p", Role.LEADER, "")
    _report_role(pipelines, "p", Role.STANDBY, "it has lost the lead, and still stops")
    assert pipelines.healthy() is None
    clock[0] += STOP_TIMEOUT_S + 1
    assert "it was asked to stop 121 seconds ago" in pipelines.healthy()
