"""The supervisor: it starts the pipelines of a service, starts failed ones again, and follows changes of their files.

It uses neither Spark nor Kafka nor threads: `launch` starts a run of a pipeline, and `tick`, which is called several
times a second, checks all runs. A pipeline that fails affects no other one. Each failure doubles the time to the next
start (`Backoff`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from sluice.model.errors import SluiceError
from sluice.model.spec import Pipeline
from sluice.ops.metrics import Metrics
from sluice.ops.pipelines import Health, Pipelines, PipelineStatus, Registered, State
from sluice.planning.pipeline_set import links, problems, writers_first
from sluice.running.pipeline_folder import Wanted
from sluice.running.service_options import Restart

LOGGER = logging.getLogger("sluice")
#: seconds that the batch of a pipeline may take to finish if the pipeline is removed or changed while others go on
FINISH_S = 60.0


#: seconds before the second start, and the most seconds before a later one; each failure doubles the time
FIRST_S, MOST_S = 1.0, 60.0
#: seconds without a failure after which a pipeline counts as repaired, so that its next failure is a first one
REPAIRED_S = 60.0


class Outcome(NamedTuple):
    """The end of a run.

    fatal       the error ends the whole service, because no pipeline can run without a new start
    lost_lead   the run ended because another instance has the lead: a new start waits for the lead, even if failures
                are not followed by a new start. It is no failure, and delays no start further: this may be the instance
                that takes over next
    """

    error: SluiceError | None = None
    fatal: bool = False
    lost_lead: bool = False


class Run(Protocol):
    """A run of a pipeline that was launched."""

    def stop(self, finish: float | None = None) -> None:
        """Requests the end of the run, and returns at once. The run ends in order.

        Its batch may take `finish` seconds. None: the whole service ends, and the batch may take the default.
        """

    def outcome(self) -> Outcome | None:
        """The end of the run; None while anything of it is active."""

    @property
    def prepared(self) -> bool:
        """Whether the topics that the pipeline writes exist."""


class Launch(Protocol):
    """Starts a run. `first` is true for the first run of the pipeline in this service."""

    def __call__(self, member: Registered, *, first: bool) -> Run: ...


@dataclass(slots=True)
class Backoff:
    """The ends of one pipeline so far. Times are in seconds on a monotonic clock."""

    ends: int = 0
    began: float = 0.0

    def started(self, now: float) -> None:
        self.began = now

    def delay(self, now: float) -> float:
        """The seconds from an end at `now` to the next start."""
        if now - self.began >= REPAIRED_S:
            self.ends = 0
        self.ends += 1
        return min(MOST_S, FIRST_S * 2.0 ** min(self.ends - 1, 16))


@dataclass(slots=True)
class Member:
    """A pipeline, and what happens to it next. `next_start` is on the monotonic clock; None: it is not started."""

    file: str
    pipeline: Pipeline
    metrics: Metrics
    next_start: float | None
    run: Run | None = None
    backoff: Backoff = field(default_factory=Backoff)
    #: number of starts since its file was added or changed
    starts: int = 0
    #: whether it was started in this service, with any version of its file
    launched: bool = False
    error: SluiceError | None = None
    #: the failure that a new start would repeat, as long as it lasts: nothing is started until then
    refusal: SluiceError | None = None
    #: whether its file was removed or changed and its run has not ended yet; then `wanted` takes its place
    leaving: bool = False
    #: the pipeline that its file has now; None: the file was removed
    wanted: Pipeline | None = None
    #: the digests of the modules of its classes, for which it is started again, too (FN15)
    modules: Mapping[str, str | None] = field(default_factory=dict)


class Supervisor:
    """The pipelines of a service. All methods are called from one thread."""

    def __init__(
        self, launch: Launch, pipelines: Pipelines, restart: Callable[[Pipeline], Restart], now: Callable[[], float],
        metrics: Callable[[Pipeline], Metrics],
    ) -> None:  # fmt: skip
        """`restart` says which ends of a pipeline are followed by a new start.

        `now` gives seconds on a monotonic clock, `metrics` makes the metrics of a new pipeline.
        """
        self._launch, self._pipelines, self._restart, self._now = launch, pipelines, restart, now
        self._new_metrics = metrics
        self._members: dict[str, Member] = {}
        self._stopping = False
        #: the first failure of a pipeline that is not started again, and an error that ends the service
        self.failure: SluiceError | None = None
        self.fatal: SluiceError | None = None

    def set_wanted(self, pipelines: Mapping[str, Wanted]) -> None:
        """Replaces the pipelines that should run, by name. A pipeline that has not changed continues."""
        for name, member in list(self._members.items()):
            if name not in pipelines and member.wanted is not None:
                self._replace(name, member, None)
        for name, (file, pipeline, modules) in pipelines.items():
            if name not in self._members:
                metrics = self._new_metrics(pipeline)
                added = Member(file, pipeline, metrics, self._now(), wanted=pipeline, modules=modules)
                self._members[name] = added
                self._register(added)
                continue
            member = self._members[name]
            if member.file != file:
                member.file = file
                self._pipelines.update(name, file=file)
            if member.wanted != pipeline or member.modules != modules:
                member.modules = modules
                self._replace(name, member, pipeline)

    def tick(self) -> None:
        """Handles the runs that have ended, and starts what is due. A refused start is due when its cause is gone."""
        for name, member in list(self._members.items()):
            outcome = member.run.outcome() if member.run is not None else None
            if outcome is not None:
                member.run = None
                self._ended(name, member, outcome)
            if member.refusal is not None and not member.refusal.lasts():
                member.refusal, member.next_start = None, self._now()
        if not self._stopping and self.fatal is None:
            self._start_due()

    def stop(self) -> None:
        """Requests the end of all pipelines. Nothing is started any more."""
        self._stopping = True
        for name, member in self._members.items():
            member.next_start = member.refusal = None
            if member.run is not None:
                member.run.stop()
                self._pipelines.update(name, state=State.STOPPING)

    @property
    def active(self) -> bool:
        """Whether a pipeline runs, or is to be started."""
        return any(
            member.run is not None or member.next_start is not None or member.refusal is not None
            for member in self._members.values()
        )

    @property
    def members(self) -> Sequence[str]:
        return [*self._members]

    def _replace(self, name: str, member: Member, pipeline: Pipeline | None) -> None:
        """Stops the pipeline. `pipeline` is started when it has ended; None: nothing is."""
        member.wanted, member.leaving = pipeline, True
        log_fields = {"pipeline": name, "file": member.file}
        cause = "was removed" if pipeline is None else "or a module of its classes was changed"
        LOGGER.info("stopping: its file %s", cause, extra=log_fields)
        if member.run is None:
            self._replaced(name, member)
        else:
            member.run.stop(FINISH_S)
            self._pipelines.update(name, state=State.STOPPING)

    def _replaced(self, name: str, member: Member) -> None:
        """Handles the end of a pipeline whose file was removed or changed."""
        if member.wanted is None:
            del self._members[name]
            self._pipelines.remove(name)
            return
        member.pipeline, member.leaving = member.wanted, False
        member.metrics = self._new_metrics(member.pipeline)
        member.backoff, member.error, member.next_start, member.starts = Backoff(), None, self._now(), 0
        member.refusal = None
        self._register(member)

    def _ended(self, name: str, member: Member, outcome: Outcome) -> None:
        failure = outcome.error
        if outcome.fatal and self.fatal is None:
            self.fatal = failure
        if failure is not None:
            LOGGER.error("the pipeline has failed: %s", failure, extra={"pipeline": name})
        if member.leaving and not self._stopping:
            self._replaced(name, member)
        elif self._stopping or not (
            outcome.lost_lead or self._restart(member.pipeline).follows(failed=failure is not None)
        ):
            member.next_start = None
            self.failure = self.failure or failure
            state = State.ENDED if failure is None else State.FAILED
            self._pipelines.update(name, state=state, error=str(failure or ""), next_start=None)
        elif failure is not None and failure.lasts():
            member.error = member.refusal = failure
            LOGGER.info("not started again until its file or its checkpoint is changed", extra={"pipeline": name})
            self._pipelines.update(name, state=State.FAILED, error=str(failure), next_start=None)
        else:
            delay = FIRST_S if outcome.lost_lead else member.backoff.delay(self._now())
            member.error, member.next_start = failure, self._now() + delay
            LOGGER.info("starting again", extra={"pipeline": name, "seconds": delay, "start": member.starts + 1})
            self._pipelines.waits(name, delay, str(failure or ""))

    def _start_due(self) -> None:
        """Starts what is due, writers first: a pipeline may read a topic that another one is about to create."""
        due = [
            name
            for name, member in self._members.items()
            if member.run is None and _passed(member.next_start, self._now())
        ]
        if not due:
            return
        all_links = links([member.pipeline for member in self._members.values()])
        for name in writers_first(due, all_links):
            writers = [self._members[link.writer].run for link in all_links if link.reader == name]
            ready = all(run is None or run.prepared for run in writers)
            if ready and not self._conflicting(name, self._members[name]):
                self._start(self._members[name])

    def _start(self, member: Member) -> None:
        member.starts += 1
        member.next_start = None
        member.backoff.started(self._now())
        first, member.launched = not member.launched, True
        member.run = self._launch(self._register(member), first=first)

    def _register(self, member: Member) -> Registered:
        """Registers the pipeline as one that starts, with a health of its own for this start."""
        status = PipelineStatus(
            State.STARTING, member.file, starts=max(1, member.starts), error=str(member.error or "")
        )
        registered = Registered(member.pipeline, member.metrics, Health(), status)
        self._pipelines.register(registered)
        return registered

    def _conflicting(self, name: str, member: Member) -> bool:
        """Whether a pipeline that has not stopped yet has the checkpoint of this one, or writes a topic of this one."""
        leaving = [other for key, other in self._members.items() if key != name and other.leaving]
        return any(problems({"": other.pipeline, member.file: member.pipeline}) for other in leaving)


def _passed(moment: float | None, now: float) -> bool:
    return moment is not None and moment <= now
