import pytest

from sluice.ops.health import BATCH_TIMEOUT_S, REPORT_TIMEOUT_S, Health


@pytest.fixture
def clock():
    return [100.0]


@pytest.fixture
def life(clock):
    return Health(lambda: clock[0])


def test_while_it_starts_it_is_healthy_and_not_ready(life, clock):
    clock[0] += 10 * REPORT_TIMEOUT_S
    assert (life.healthy(), life.ready()) == (None, "starting")


def test_it_is_ready_once_the_query_has_asked_kafka(life):
    life.looked(began=False)
    assert life.ready() == "starting"
    life.looked(began=True)
    life.looked(began=False)
    assert life.ready() is None


def test_a_query_that_nobody_can_look_at_is_not_healthy(life, clock):
    life.looked(began=True)
    clock[0] += REPORT_TIMEOUT_S + 1
    assert life.healthy() == life.ready() == "Spark has not answered for 61 seconds"
    life.looked(began=True)
    assert life.healthy() is None


def test_a_batch_beyond_its_bound_is_not_healthy(life, clock):
    life.looked(began=True, batch=BATCH_TIMEOUT_S)
    assert life.healthy() is None
    clock[0] += 1
    assert life.healthy() == life.ready() == "a batch has been running for 301 seconds, more than 300"
    life.looked(began=True, batch=0.0)
    clock[0] += 1
    assert life.healthy() is None


def test_the_environment_sets_the_bound_of_a_batch(monkeypatch):
    monkeypatch.setenv("SLUICE_BATCH_SECONDS", "20")
    life = Health()
    life.looked(began=True, batch=21.0)
    assert "more than 20" in life.healthy()
