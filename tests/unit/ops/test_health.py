import pytest

from sluice.ops.pipelines import BATCH_TIMEOUT_S, REPORT_TIMEOUT_S, Health


@pytest.fixture
def clock():
    return [100.0]


@pytest.fixture
def health(clock):
    return Health(lambda: clock[0])


def test_while_it_starts_it_is_healthy_and_not_ready(health, clock):
    clock[0] += 10 * REPORT_TIMEOUT_S
    assert (health.healthy(), health.ready()) == (None, "starting")


def test_it_is_ready_when_the_query_has_begun(health):
    health.report(began=False)
    assert health.ready() == "starting"
    health.report(began=True)
    health.report(began=False)
    assert health.ready() is None


def test_a_query_that_does_not_answer_is_not_healthy(health, clock):
    health.report(began=True)
    clock[0] += REPORT_TIMEOUT_S + 1
    assert health.healthy() == health.ready() == "Spark has not answered for 61 seconds"
    health.report(began=True)
    assert health.healthy() is None


def test_a_batch_beyond_its_bound_is_not_healthy(health, clock):
    health.report(began=True, batch=BATCH_TIMEOUT_S)
    assert health.healthy() is None
    clock[0] += 1
    assert health.healthy() == health.ready() == "a batch has been running for 301 seconds, more than 300"
    health.report(began=True, batch=0.0)
    clock[0] += 1
    assert health.healthy() is None


def test_the_environment_sets_the_bound_of_a_batch(monkeypatch):
    monkeypatch.setenv("SLUICE_BATCH_SECONDS", "20")
    health = Health()
    health.report(began=True, batch=21.0)
    assert "more than 20" in health.healthy()
