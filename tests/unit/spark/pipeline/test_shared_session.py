"""The start of Spark beside the work of the caller, without Spark."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from sluice.batch.kernel_warm_up import VARIABLE
from sluice.spark.failures import JavaEndedError
from sluice.spark.pipeline import shared_session
from sluice.spark.pipeline.early_processes import EarlyProcesses
from sluice.spark.pipeline.shared_session import SharedSession


class Starts:
    """In place of the function that starts Spark."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
        self.events, self._error = list[str](), error
        monkeypatch.setattr(shared_session, "session", self._session)
        monkeypatch.delenv(VARIABLE, raising=False)
        server = SimpleNamespace(begin=lambda _: self.events.append("fork server begins"))
        self.session = SharedSession("name", "local[1]", EarlyProcesses(SimpleNamespace(), server))

    def _session(self, *_: object) -> SimpleNamespace:
        self.events.append("started")
        if self._error:
            raise self._error
        return SimpleNamespace(
            sparkContext=SimpleNamespace(master="local[1]"), stop=lambda: self.events.append("stopped")
        )


def test_spark_starts_once_after_the_fork_server_has_its_pipelines_and_ends_with_the_context(monkeypatch):
    starts = Starts(monkeypatch)
    with starts.session as session:
        begun = session.begin([], pytest.fail)
        assert session.opened([], pytest.fail) is session.opened([], pytest.fail) is begun.result()
        assert starts.events == ["fork server begins", "started"]
    assert starts.events[2:] == ["stopped"]


def test_the_end_of_the_context_waits_for_a_start_and_ends_spark(monkeypatch):
    starts = Starts(monkeypatch)
    with starts.session as session:
        session.begin([], pytest.fail)
    assert starts.events == ["fork server begins", "started", "stopped"]


def test_an_error_of_the_start_is_raised_to_who_needs_the_session_and_to_nobody_else(monkeypatch):
    starts = Starts(monkeypatch, JavaEndedError("no Java"))
    with starts.session as session:
        session.begin([], pytest.fail)
    assert starts.events == ["fork server begins", "started"]
    with pytest.raises(JavaEndedError, match="no Java"):
        session.opened([], pytest.fail)


def test_a_start_that_hangs_has_a_bound(monkeypatch):
    monkeypatch.setattr(shared_session, "MAX_START_S", 0.01)
    starts, goes_on = Starts(monkeypatch), threading.Event()
    monkeypatch.setattr(shared_session, "session", lambda *_: goes_on.wait(30))
    with pytest.raises(JavaEndedError, match="Spark has not started for 0 seconds: Java hangs") as raised:
        starts.session.opened([], pytest.fail)
    assert raised.value.exit_code == 3
    goes_on.set()


def test_a_time_out_of_the_start_itself_stays_what_it_is(monkeypatch):
    starts = Starts(monkeypatch, TimeoutError("a request was too slow"))
    with starts.session as session, pytest.raises(TimeoutError, match="a request was too slow"):
        session.opened([], pytest.fail)


def test_without_a_session_nothing_starts(monkeypatch):
    starts = Starts(monkeypatch)
    with starts.session:
        pass
    assert starts.events == []
