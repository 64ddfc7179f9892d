"""What the metrics, the log, the page and lag monitors get of Spark's progress reports; and a start with more topic
partitions.
"""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from unittest.mock import Mock, call

import pytest

from sluice.kafka.kafka_errors import TopicPartitionsAddedError
from sluice.spark.lanes import batch_lanes
from sluice.spark.lanes.batch_lanes import MAX_WORK_S, HungBatchError, OpenLanes
from sluice.spark.pipeline import pipeline_run
from sluice.spark.pipeline.pipeline_run import RESTART_S, PipelineRun, ProgressListener, run
from sluice.spark.query_watch import STOP

#: where the first batch starts
FIRST = {("in", 0): 6}


class Listening:
    """A listener whose receivers note their calls."""

    def __init__(self):
        self.metrics, self.offsets, self.log, self.history = (Mock() for _ in range(4))
        self.metrics.offsets.return_value = 3
        self.listener = ProgressListener("p", self.metrics, self.offsets, self.log, self.history, first=lambda: FIRST)


@pytest.fixture
def listening():
    return Listening()


def report(phases, records=5, start=10):
    source = {
        "numInputRows": records, "startOffset": None if start is None else {"in": {"0": start}},
        "endOffset": {"in": {"0": 15}}, "latestOffset": {"in": {"0": 18}},
    }  # fmt: skip
    return {"batchId": 7, "timestamp": "2026-01-01T00:00:00.000Z", "durationMs": phases, "sources": [source]}


def test_a_batch_counts_everywhere(listening):
    listening.listener([report({"addBatch": 40, "triggerExecution": 50})])
    assert listening.metrics.batch_ended.mock_calls == [call({"addBatch": 0.04, "triggerExecution": 0.05})]
    assert listening.log.batch_ended.mock_calls == [call(7, 5, 0.05, 3)]
    (shown,) = listening.history.batch_ended.mock_calls
    assert (shown.args[0].number, shown.args[0].records) == (7, 5)
    assert listening.offsets.commit.mock_calls == [call({("in", 0): 15})]


def test_the_offsets_of_the_newest_report_alone_are_committed(listening):
    older, newer = (report({"addBatch": 40}) for _ in range(2))
    newer["sources"][0]["endOffset"] = {"in": {"0": 17}}
    listening.listener([older, newer])
    assert listening.offsets.commit.mock_calls == [call({("in", 0): 17})]
    assert len(listening.log.batch_ended.mock_calls) == 2


@pytest.mark.parametrize(
    ("counted", "start", "records"),
    [
        pytest.param(3, 10, 3, id="Spark counts records, without markers of transactions"),
        pytest.param(0, 10, 5, id="a batch without a job: the number of offsets"),
        pytest.param(0, None, 9, id="the first batch without a job: from the offset that the query starts at"),
        pytest.param(0, 20, 0, id="a topic partition whose newest records were lost: none, not a number below 0"),
        pytest.param(4, None, 4, id="the first batch of a topic that is read from its beginning on"),
    ],
)
def test_the_records_of_a_batch(listening, counted, start, records):
    listening.listener([report({"addBatch": 40}, records=counted, start=start)])
    assert listening.log.batch_ended.call_args.args[1] == records


def test_a_report_without_a_batch_changes_only_the_lag(listening):
    listening.listener([report({"latestOffset": 1, "triggerExecution": 2}, records=0)])
    assert listening.metrics.batch_ended.mock_calls == []
    assert listening.log.mock_calls == listening.history.mock_calls == []
    assert listening.metrics.offsets.mock_calls == [call({("in", 0): 15}, {("in", 0): 18})]
    assert listening.metrics.behind.mock_calls == [call("p", 3)]
    assert listening.offsets.commit.mock_calls == [call({("in", 0): 15})]


def planned(name):
    """The plan of a pipeline that may not lose records."""
    return SimpleNamespace(pipeline=SimpleNamespace(name=name, settings=SimpleNamespace(on_data_loss="fail")))


class Restarting:
    """A query that fails because of new topic partitions, while the batch of another one goes on for `stopping` seconds
    after the request to stop, and a batch of it that has begun early for `early` seconds.
    """

    def __init__(self, monkeypatch, stopping=0.0, early=0.0):
        self.now, self.stopping, self.early, self.events = 0.0, stopping, early, []
        clock = SimpleNamespace(monotonic=lambda: self.now, sleep=self.passes)
        monkeypatch.setattr(pipeline_run, "time", clock)
        monkeypatch.setattr(batch_lanes, "time", clock)
        monkeypatch.setattr(pipeline_run, "prepare", lambda *_, **__: planned("grown"))
        monkeypatch.setattr(pipeline_run, "start", self._start)

    def run(self):
        run(None, [planned("first")], self._watching, opened=OpenLanes())

    def passes(self, seconds):
        self.now += seconds

    def _start(self, _, plan, __, opened, *, observe):
        self.events.append(f"start {plan.pipeline.name}")
        opened.add(Lanes(self, plan.pipeline.name))
        return Stopping(self)

    def _watching(self, _):
        if self.events[-1] == "start grown":
            return
        message = "topic in has more topic partitions"
        raise TopicPartitionsAddedError(message)


class Stopping:
    """A query of `Restarting` that was asked to stop, as Spark shows it."""

    isActive = False  # noqa: N815

    def __init__(self, world):
        self._world = world

    @property
    def status(self):
        active = self._world.now < self._world.stopping
        if not active:
            self._world.events.append("ended")
        return {"isTriggerActive": active, "message": ""}


class Lanes:
    """The lanes of a query of `Restarting`."""

    def __init__(self, world, name):
        self._world, self._name = world, name

    def end(self, seconds):
        self._world.passes(min(seconds, max(0.0, self._world.early - self._world.now)))
        ended = self._world.now >= self._world.early
        self._world.events.append("early work ended" if ended else "early work goes on")
        return ended

    def close(self):
        self._world.events.append(f"close {self._name}")


def test_queries_start_again_when_those_before_have_ended_and_their_clients_are_closed(monkeypatch):
    restarting = Restarting(monkeypatch, stopping=5.0, early=7.0)
    restarting.run()
    ended = ["ended", "early work ended", "close first"]
    assert restarting.events == ["start first", *ended, "start grown", "early work ended"]


def test_queries_do_not_start_again_beside_one_that_does_not_end(monkeypatch):
    restarting = Restarting(monkeypatch, stopping=RESTART_S + 10)
    with pytest.raises(TopicPartitionsAddedError):
        restarting.run()
    assert restarting.events == ["start first", "early work ended"]


def test_queries_do_not_start_again_beside_a_batch_that_has_begun_early_and_does_not_end(monkeypatch):
    restarting = Restarting(monkeypatch, early=RESTART_S + 10)
    with pytest.raises(TopicPartitionsAddedError):
        restarting.run()
    assert restarting.events == ["start first", "ended", "early work goes on", "early work goes on"]


@pytest.mark.parametrize("ends", [True, False])
def test_the_wait_for_a_run_waits_for_a_batch_that_has_begun_early_and_has_a_bound(monkeypatch, ends):
    waits = []
    opened = SimpleNamespace(end=lambda seconds: waits.append(seconds) or ends)
    monkeypatch.setattr(pipeline_run, "OpenLanes", lambda: opened)
    run = PipelineRun(SimpleNamespace(pipeline=None), page=None, session=None)
    with nullcontext() if ends else pytest.raises(HungBatchError, match="cannot start again beside it"):
        run.wait_for_queries()
    assert waits == [pytest.approx(MAX_WORK_S, abs=60)]


@pytest.mark.parametrize("failure", [None, ValueError("a query failed")])
def test_a_run_that_ends_or_fails_waits_for_a_batch_that_has_begun_early_as_long_as_for_a_query(failure):
    opened, watching = Mock(), Mock(side_effect=[failure])
    with pytest.raises(ValueError, match="a query failed") if failure else nullcontext():
        run(None, [], watching, opened=opened)
    assert opened.mock_calls == [call.end(STOP)]
