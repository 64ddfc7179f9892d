"""The pipelines of a service: what each of them does now, for health checks, metrics and the pages of the HTTP server.
The part that runs pipelines registers them and writes their status; everything else only reads. All methods may be
called from any thread.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

from sluice.model.secrets import masked
from sluice.model.spec import Pipeline
from sluice.ops.metrics import Metrics

#: seconds without a report on the queries after which Spark counts as hung
REPORT_TIMEOUT_S = 60.0
#: seconds after which a running batch counts as hung; the first batch may compile kernels for minutes
BATCH_TIMEOUT_S = 300.0
#: name of an environment variable whose number of seconds replaces BATCH_TIMEOUT_S
BATCH_VARIABLE = "SLUICE_BATCH_SECONDS"


class Health:
    """The health of the service.

    The loop that watches the queries reports to it (`report`); the HTTP server reads it (`healthy`, `ready`).
    """

    def __init__(self, now: Callable[[], float] = time.monotonic, bound: float | None = None) -> None:
        """`bound` is the number of seconds after which a running batch counts as hung."""
        self._now = now
        self._bound = float(os.environ.get(BATCH_VARIABLE, BATCH_TIMEOUT_S)) if bound is None else bound
        self._reported: float | None = None
        self._began = False
        self._batch = 0.0

    def report(self, *, began: bool, batch: float = 0.0) -> None:
        """Reports that all queries are running.

        began   whether each query has finished a batch, or has found that there are no records yet
        batch   seconds for which the oldest running batch has been running; 0 if none runs
        """
        self._reported = self._now()
        self._began = self._began or began
        self._batch = batch

    def running(self) -> tuple[float, float]:
        """Seconds for which the oldest running batch runs (0 if none runs), and the seconds after which it is hung."""
        if not self._batch or self._reported is None:
            return 0.0, self._bound
        return self._batch + self._now() - self._reported, self._bound

    def healthy(self) -> str | None:
        """What is wrong, as a text; None if nothing is. Before the first report nothing is wrong: a start may take any
        time.
        """
        if self._reported is None:
            return None
        silent = self._now() - self._reported
        if silent >= REPORT_TIMEOUT_S:
            return f"Spark has not answered for {silent:.0f} seconds"
        batch, bound = self.running()
        if batch > bound:
            return f"a batch has been running for {batch:.0f} seconds, more than {bound:.0f}"
        return None

    def ready(self) -> str | None:
        return self.healthy() or (None if self._began else "starting")


#: seconds after which a pipeline that should stop counts as hung
STOP_TIMEOUT_S = 120.0


class Role(StrEnum):
    """Which of several instances of a pipeline this one is. ALONE: it does not wait for a lead."""

    ALONE = ""
    LEADER = "leader"
    STANDBY = "standby"


class State(StrEnum):
    """The state of a pipeline.

    STARTING   its query starts: topics, checkpoint and ledger are checked, and there was no batch yet
    STANDBY    another instance has the lead; this one waits for the lead, ready to take over (`sluice run --standby`)
    RUNNING    its query has finished a batch, or has found that there are no records yet
    WAITING    it has failed, and is started again at `PipelineStatus.next_start`
    STOPPING   it was requested to stop, and finishes its batch
    ENDED      it has ended because all its inputs are final, or because it was requested to stop
    FAILED     it has failed, and is not started again, or only after a change of its file or its checkpoint
    """

    STARTING = "starting"
    STANDBY = "standby"
    RUNNING = "running"
    WAITING = "waiting"
    STOPPING = "stopping"
    ENDED = "ended"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """The status of a pipeline. Times are in seconds since 1970.

    file         path of its file, "" if it has none
    since        when it got its present state; for RUNNING, when it started
    starts       number of starts since its file was added or changed; 1 after the first
    error        message of the failure before this start, or of the last one; "" if there was none
    next_start   when it is started again; None unless it is WAITING
    role         whether this instance has the lead, with `sluice run --standby`
    """

    state: State = State.STARTING
    file: str = ""
    since: float = 0.0
    starts: int = 1
    error: str = ""
    next_start: float | None = None
    role: Role = Role.ALONE


class HeldBack(NamedTuple):
    """An operator that cannot emit what it holds, for how many seconds that has lasted, and why, as a sentence."""

    operator: str
    seconds: float
    text: str


@dataclass(frozen=True, slots=True)
class Registered:
    """A pipeline of the service, with its metrics, its health and its status at one moment."""

    pipeline: Pipeline
    metrics: Metrics
    health: Health = field(default_factory=Health)
    status: PipelineStatus = field(default_factory=PipelineStatus)

    @property
    def name(self) -> str:
        return self.pipeline.name

    @property
    def state(self) -> State:
        """The state. A pipeline that starts is RUNNING as soon as its health says so."""
        ready = self.status.state is State.STARTING and self.health.ready() is None
        return State.RUNNING if ready else self.status.state


#: seconds of lag from which on a pipeline has a backlog
BACKLOG_S = 10.0


def _catching_up(member: Registered) -> str:
    """How far a pipeline is behind; empty without a backlog."""
    records, lag = member.metrics.backlog()
    if member.state is not State.RUNNING or lag < BACKLOG_S:
        return ""
    return f"catching up: {records:,} records are unread, the last one read is {lag:,.0f} s old"


class Pipelines:
    """The pipelines of one service, by name; and the files that are wrong, each with what is wrong with it."""

    def __init__(self, *, several: bool = False, now: Callable[[], float] = time.time) -> None:
        """`several`: whether the service may have more than one pipeline; messages then begin with the names."""
        self.several, self._now = several, now
        self._lock = threading.Lock()
        self._members: dict[str, Registered] = {}
        self._wrong: dict[str, str] = {}
        #: gives for the name of a pipeline its operators that are held back; the page sets it
        self.held_back: Callable[[str], Sequence[HeldBack]] = lambda _: ()

    def register(self, member: Registered) -> None:
        """Adds a pipeline, or replaces the one with the same name."""
        with self._lock:
            dated = replace(member.status, since=self._now())
            self._members[member.name] = replace(member, status=dated)

    def update(self, name: str, **changes: Any) -> None:  # noqa: ANN401 - fields of PipelineStatus
        """Changes fields of a pipeline's status. A new state begins now."""
        with self._lock:
            member = self._members[name]
            status = replace(member.status, **changes)
            if status.state != member.status.state:
                status = replace(status, since=self._now())
            self._members[name] = replace(member, status=status)

    def waits(self, name: str, seconds: float, error: str) -> None:
        """Writes into the status that the pipeline has ended with this error ("": with none) and is started again after
        these seconds.
        """
        self.update(name, state=State.WAITING, error=error, next_start=self._now() + seconds)

    def remove(self, name: str) -> None:
        with self._lock:
            self._members.pop(name, None)

    def set_wrong_files(self, wrong: Mapping[str, str]) -> None:
        """Replaces what is known of wrong files: path -> what is wrong."""
        with self._lock:
            self._wrong = dict(wrong)

    @property
    def members(self) -> tuple[Registered, ...]:
        """The pipelines in the order of their names."""
        with self._lock:
            return tuple(member for _, member in sorted(self._members.items()))

    @property
    def wrong_files(self) -> dict[str, str]:
        with self._lock:
            return dict(self._wrong)

    def healthy(self) -> str | None:
        """The troubles that only a new start of the service can repair, one line for each pipeline; None if there are
        none.

        A pipeline that has failed or waits for its next start is no reason to start the service again.
        """
        return self._joined(self._named(member, self._hung(member)) for member in self.members)

    def ready(self) -> str | None:
        """Names the pipelines that do not process records and the files without a running pipeline; None if none."""
        served = {member.status.file for member in self.members}
        files = [f"{file}: {text}" for file, text in self.wrong_files.items() if file not in served]
        return self._joined([*(self._named(member, self._not_ready(member)) for member in self.members), *files])

    def remarks(self) -> str:
        """Which pipelines this instance leads and for which it waits (--standby), which have a backlog, and which
        operators cannot emit what they hold, one line each. None of this makes the service unready.
        """
        lines = [
            (member, text)
            for member in self.members
            for text in [str(member.status.role), _catching_up(member), *self._held_back_texts(member)]
        ]
        return "\n".join(filter(None, (self._named(member, text) for member, text in lines)))

    def described(self) -> dict[str, Any]:
        """Health, readiness and the status of each pipeline and wrong file, as JSON data."""
        return {
            "healthy": self.healthy() is None,
            "ready": self.ready() is None,
            "pipelines": [self._described(member) for member in self.members],
            "wrong_files": [{"file": file, "problem": masked(text)} for file, text in self.wrong_files.items()],
        }

    def _described(self, member: Registered) -> dict[str, Any]:
        status = member.status
        return {
            "name": member.name,
            "file": status.file,
            "state": str(member.state),
            "since": status.since,
            "starts": status.starts,
            "error": masked(status.error),
            "next_start": status.next_start,
            "role": str(status.role),
            "trouble": masked(self._not_ready(member) or ""),
            "held_back": self._held_back_texts(member),
        }

    def _held_back_texts(self, member: Registered) -> list[str]:
        return [held_back.text for held_back in self.held_back_of(member)]

    def held_back_of(self, member: Registered) -> Sequence[HeldBack]:
        """The operators of a pipeline that are held back, while it runs."""
        return self.held_back(member.name) if member.state is State.RUNNING else ()

    def _hung(self, member: Registered) -> str | None:
        status = member.status
        trouble = member.health.healthy() if status.state in (State.STARTING, State.RUNNING) else None
        stopping = self._now() - status.since
        if status.state is State.STOPPING and stopping > STOP_TIMEOUT_S:
            trouble = f"it was asked to stop {stopping:.0f} seconds ago, and its batch has not ended"
        return trouble

    def _not_ready(self, member: Registered) -> str | None:
        if hung := self._hung(member):
            return hung
        status = member.status
        match status.state:
            case State.STARTING | State.RUNNING:
                trouble = member.health.ready()
                if trouble is not None and status.error:
                    trouble = f"{trouble} again: {status.error}"
            case State.WAITING:
                seconds = max(0.0, (status.next_start or 0.0) - self._now())
                trouble = f"{'failed' if status.error else 'ended'}, starts again in {seconds:.0f} seconds"
                trouble += f": {status.error}" if status.error else ""
            case State.FAILED:
                trouble = f"failed: {status.error}"
            case State.STOPPING:
                trouble = "stopping"
            case State.STANDBY:
                trouble = f"standby, but it could not take over: {status.error}" if status.error else None
            case State.ENDED:
                trouble = None
        return trouble

    def _named(self, member: Registered, trouble: str | None) -> str | None:
        return f"{member.name}: {trouble}" if trouble and self.several else trouble

    @staticmethod
    def _joined(troubles: Any) -> str | None:  # noqa: ANN401 - an iterable of str | None
        return masked("\n".join(filter(None, troubles))) or None
