from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sluice.kafka.batch_report import Report
from sluice.ops.exposition import Exposition
from sluice.ops.pipelines import HeldBack, Pipelines, Role, State
from tests.unit.ops.registered_pipelines import registered
from tests.unit.page.page_without_service import page


def samples(pipelines, **options):
    """name and labels -> value."""
    page = Exposition(pipelines, **options).page().decode()
    families = text_string_to_metric_families(page)
    return {(s.name, *sorted(s.labels.items())): s.value for family in families for s in family.samples}


@pytest.fixture
def pipelines():
    found = Pipelines(several=True)
    for name, state in (("a", State.RUNNING), ("b", State.WAITING)):
        found.register(registered(name, state, file=f"{name}.yaml", starts=3 if name == "b" else 1))
    return found


def test_series_of_several_pipelines_differ_by_their_label(pipelines):
    a, b = pipelines.members
    a.metrics.count(Report(read={"in": {"tuple": 5}}))
    b.metrics.count(Report(read={"in": {"tuple": 7}}))
    found = samples(pipelines)
    assert found["sluice_records_read_total", ("kind", "tuple"), ("pipeline", "a"), ("stream", "in")] == 5
    assert found["sluice_records_read_total", ("kind", "tuple"), ("pipeline", "b"), ("stream", "in")] == 7
    assert found["sluice_build_info", ("pipeline", "b"), ("version", "1")] == 1


def test_each_family_is_on_the_page_once(pipelines):
    lines = Exposition(pipelines).page().decode().splitlines()
    heads = [line for line in lines if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads))


def test_the_series_of_a_removed_pipeline_end(pipelines):
    pipelines.remove("b")
    assert not any(("pipeline", "b") in labels for labels in samples(pipelines))


def test_the_state_of_pipelines_and_files(pipelines):
    pipelines.set_wrong_files({"b.yaml": "expected a window", "c.yaml": "expected a topic"})
    found = samples(pipelines)
    assert found["sluice_pipeline_running", ("pipeline", "a")] == 1
    assert found["sluice_pipeline_running", ("pipeline", "b")] == 0
    assert found["sluice_pipeline_restarts_total", ("pipeline", "b")] == 2
    assert [found["sluice_pipeline_file_wrong", ("file", f"{name}.yaml")] for name in "abc"] == [0, 1, 1]


def test_only_a_pipeline_with_a_standby_has_a_leader(pipelines):
    pipelines.register(registered("leads", State.RUNNING, role=Role.LEADER))
    pipelines.register(registered("waits", State.STANDBY, role=Role.STANDBY))
    found = {tuple(labels): value for (name, *labels), value in samples(pipelines).items() if name == "sluice_leader"}
    assert found == {(("pipeline", "leads"),): 1, (("pipeline", "waits"),): 0}


@pytest.mark.parametrize(
    ("state", "error", "ready"),
    [
        (State.STANDBY, "", 1),
        (State.STANDBY, "the store does not answer", 0),
        (State.STOPPING, "", 0),  # it has lost the lead, and its run has not ended yet
        (State.FAILED, "no topic", 0),
    ],
)
def test_a_standby_is_ready_if_it_can_take_over(pipelines, state, error, ready):
    pipelines.register(registered("leads", State.RUNNING, role=Role.LEADER))
    pipelines.register(registered("waits", state, role=Role.STANDBY, error=error))
    found = {key[1:]: value for key, value in samples(pipelines).items() if key[0] == "sluice_standby_ready"}
    assert found == {(("pipeline", "waits"),): ready}


def test_the_memory_of_processes_has_no_pipeline(pipelines):
    found = samples(pipelines, memory=lambda: {"service": 5, "java": 7})
    assert found["sluice_memory_bytes", ("process", "java")] == 7
    assert found["sluice_memory_limit_bytes",] > 1 << 20


def test_how_long_the_running_batch_of_a_pipeline_runs_and_may_run(pipelines):
    pipelines.members[0].health.report(began=True, batch=7.5)
    found = samples(pipelines)
    assert found["sluice_running_batch_seconds", ("pipeline", "a")] == 7.5
    assert found["sluice_running_batch_seconds", ("pipeline", "b")] == 0
    assert found["sluice_running_batch_limit_seconds", ("pipeline", "b")] == 300


def test_how_long_each_operator_has_been_held_back():
    pipelines = Pipelines()
    shop = replace(registered("shop", State.RUNNING), pipeline=page().pipeline)
    pipelines.register(shop)
    place = ("sluice_held_back_seconds", ("operator", "per_minute"), ("pipeline", "shop"))
    assert samples(pipelines)[place] == 0
    pipelines.held_back = lambda _: [HeldBack("per_minute", 180.0, "it waits")]
    assert samples(pipelines)[place] == 180
    pipelines.update("shop", state=State.STOPPING)
    assert samples(pipelines)[place] == 0


@pytest.mark.parametrize("began", [False, True])
def test_a_pipeline_that_starts_is_running_as_soon_as_it_has_begun(began):
    pipelines = Pipelines()
    pipelines.register(registered("a", began=began))
    assert samples(pipelines)["sluice_pipeline_running", ("pipeline", "a")] == began
    assert pipelines.described()["pipelines"][0]["state"] == ("running" if began else "starting")
