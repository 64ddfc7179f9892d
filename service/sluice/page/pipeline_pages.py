"""The pipelines that the page shows, with the sources of their data: histories, state servers, and topics."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from sluice.model.spec import Pipeline
from sluice.model.stages import stages
from sluice.ops.pipelines import HeldBack, Pipelines
from sluice.page.history import History
from sluice.page.last_records import last_records
from sluice.page.stage_inspections import Inspect, StageInspection, StreamProgress, TopicPartition, inspect_all
from sluice.page.times import moment
from sluice.page.why_not_firing import Answer, StageFacts, answers
from sluice.planning.explain_plan import Stage, plan
from sluice.time_units import MILLISECOND, SECOND

T = TypeVar("T")
LOGGER = logging.getLogger("sluice.page")


class Aged(NamedTuple, Generic[T]):
    """A value, its age in seconds, and whether a newer value was requested and has not arrived in time."""

    value: T | None
    age: float
    pending: bool


class Refreshed(Generic[T]):
    """The value that `read` returns. It is read only when `get` is called, and at most once at a time."""

    def __init__(
        self, read: Callable[[], T], *, fresh_s: float, wait_s: float, now: Callable[[], float] = time.monotonic
    ) -> None:
        """A value younger than `fresh_s` seconds is not read again. `get` waits at most `wait_s` for a new one."""
        self._read, self._fresh_s, self._patience_s, self._now = read, fresh_s, wait_s, now
        self._lock = threading.Lock()
        self._value: T | None = None
        self._at: float | None = None
        self._reading: threading.Thread | None = None

    def get(self) -> Aged[T]:
        """The newest value that is there in time."""
        with self._lock:
            fresh = self._at is not None and self._now() - self._at < self._fresh_s
            if not fresh and (self._reading is None or not self._reading.is_alive()):
                self._reading = threading.Thread(target=self._run, name="sluice-page-reader", daemon=True)
                self._reading.start()
            reading = self._reading
        if not fresh and reading is not None:
            reading.join(self._patience_s)
        with self._lock:
            age = 0.0 if self._at is None else self._now() - self._at
            return Aged(self._value, age, not fresh and reading is not None and reading.is_alive())

    def _run(self) -> None:
        try:
            value = self._read()
        except Exception:  # whatever fails: the page shows the value before, and the service goes on
            LOGGER.debug("the page could not read", exc_info=True)
            return
        with self._lock:
            self._value, self._at = value, self._now()


#: seconds for which answers of state servers, and the last records of topics, are shown without a new request
INSPECTION_FRESH_S, RECORDS_FRESH_S = 1.0, 4.0
#: most keys that are offered
MAX_KEYS = 12
#: seconds that a page waits for new ones; then it shows those before
INSPECTION_PATIENCE_S, RECORDS_PATIENCE_S = 0.7, 0.7


class StagePage:
    """The data of a stage for the page. `running` is called whenever its query starts."""

    def __init__(self, pipeline: Pipeline, explained: Stage, history: History | None = None) -> None:
        self.pipeline, self.explained = pipeline, explained
        self.history = history or History()
        self.buckets = 0
        self.topic_partitions: Mapping[str, int] = {}
        self._inspect: Inspect | None = None
        self._inspection = Refreshed(self._inspect_all, fresh_s=INSPECTION_FRESH_S, wait_s=INSPECTION_PATIENCE_S)

    def running(self, buckets: int, topic_partitions: Mapping[str, int], inspect: Inspect | None) -> None:
        """The query of the stage starts. `inspect` inspects a state server; None: they cannot be inspected."""
        self.buckets, self.topic_partitions, self._inspect = buckets, topic_partitions, inspect

    def facts(self, inspection: StageInspection, now: float, upstream: Mapping[str, Answer]) -> StageFacts:
        """The facts about the stage, from the inspection; without one, from the report of the last batch.

        `now`: seconds since 1970. `upstream` as in StageFacts.
        """
        report, looked = self.history.report, bool(inspection.answers)
        streams = {
            name: StreamProgress(
                report.watermarks.get(name), {number: TopicPartition(*times) for number, *times in partitions}
            )
            for name, partitions in report.slowest.items()
        }
        watermarks = {name: StreamProgress(time) for name, time in report.watermarks.items()}
        last = self.history.last
        return StageFacts(
            self.pipeline, round(now * SECOND), round(self.history.began * SECOND),
            0 if last is None else last.at * MILLISECOND,
            inspection.streams if looked else watermarks | streams,
            inspection.clock if looked else report.clock, inspection.due if looked else report.due,
            inspection.finals, inspection.waiting if looked else report.waiting, self.history.waiting_s(),
            {name: (counts.get("partitions", 0), counts.get("tuples", 0)) for name, counts in report.operators.items()},
            self.history.rates(), self.history.lags, upstream,
        )  # fmt: skip

    @property
    def can_inspect(self) -> bool:
        return self._inspect is not None

    def inspection(self) -> Aged[StageInspection]:
        """The last answers of the state servers."""
        return self._inspection.get()

    def windows(self, key: str | None) -> StageInspection:
        """The windows of a key, and windows without keys. Waits for the state servers."""
        return self._answers({"key": key})

    def keys(self, part: str) -> list[str]:
        """Keys of window partitions that contain the text. Waits for the state servers."""
        return self._answers({"keys": part}).keys

    def _inspect_all(self) -> StageInspection:
        return self._answers({})

    def _answers(self, question: Mapping[str, Any]) -> StageInspection:
        if self._inspect is None or not self.buckets:
            return StageInspection()
        return inspect_all(self._inspect, self.buckets, question)


class PipelinePage:
    """The data of a pipeline for the page."""

    def __init__(
        self, pipeline: Pipeline, *, histories: Sequence[History] = (),
        records: Callable[[], dict[str, list[dict[str, Any]]]] | None = None, now: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        """`histories` has the history of each stage. `records` reads the last records of topics."""
        self.name, self.pipeline, self.now = pipeline.name, pipeline, now
        parts, explained = stages(pipeline), plan(pipeline)
        all_histories = [*histories, *(History(now) for _ in parts[len(histories) :])]
        self.stages = [StagePage(*stage_parts) for stage_parts in zip(parts, explained, all_histories, strict=True)]
        self._records = Refreshed(records or self._read_records, fresh_s=RECORDS_FRESH_S, wait_s=RECORDS_PATIENCE_S)

    def answers(self, inspections: Sequence[StageInspection] = ()) -> list[dict[str, list[Answer]]]:
        """For each stage and each of its operators, by name: the answers to why the operator emits nothing.

        `inspections` has one of each stage, in their order. Without them the reports of batches are the source.
        """
        by_stage: list[dict[str, list[Answer]]] = []
        upstream: dict[str, Answer] = {}
        for number, stage in enumerate(self.stages):
            facts = stage.facts(inspections[number] if inspections else StageInspection(), self.now(), upstream)
            by_stage.append({operator.name: answers(operator, facts) for operator in stage.pipeline.operators})
            upstream |= _downstream(stage.pipeline, by_stage[-1])
        return by_stage

    def held_back(self) -> list[HeldBack]:
        """The operators that cannot emit what they hold, upstream first."""
        return [verdict for answers in self.answers() for verdict in verdicts(answers)]

    def progress_fields(self, name: str) -> dict[str, Any]:
        """About a stage, for the line that its log has every minute: its watermark (the lowest of its inputs), how many
        seconds that is behind the present, its dead letters since the start, and what holds its operators back.
        """
        stage = self.stage(name)
        watermarks = stage.history.report.watermarks
        times = [watermarks[stream.name] for stream in stage.pipeline.inputs if stream.name in watermarks]
        fields: dict[str, Any] = {"dead_letters": stage.history.dead_letters}
        if times:
            delay = round(self.now() - min(times) / SECOND, 1)
            fields |= {"watermark": moment(min(times)), "watermark_delay": delay}
        held = verdicts(self.answers()[self.stages.index(stage)])
        return fields | ({"held_back": "; ".join(verdict.text for verdict in held)} if held else {})

    def stage(self, name: str) -> StagePage:
        return next(stage for stage in self.stages if stage.pipeline.name == name)

    def records(self) -> Aged[dict[str, list[dict[str, Any]]]]:
        """The last records of the streams that the pipeline writes."""
        return self._records.get()

    def keys(self, part: str) -> list[str]:
        """At most MAX_KEYS keys that contain the text: keys of the last records, newest first, and then keys of
        windows.
        """
        of_records = [record["key"] for records in (self._records.get().value or {}).values() for record in records]
        of_windows = [key for stage in self.stages for key in (stage.keys(part) if part else _newest(stage))]
        return [key for key in dict.fromkeys([*of_records, *of_windows]) if key and part in key][:MAX_KEYS]

    def _read_records(self) -> dict[str, list[dict[str, Any]]]:
        records: dict[str, list[dict[str, Any]]] = {}
        for stage in self.stages:
            if stage.topic_partitions:
                records |= last_records(stage.pipeline, stage.topic_partitions)
        return records


def verdicts(answers_of: Mapping[str, Sequence[Answer]]) -> list[HeldBack]:
    """One verdict for each operator that has an answer with a cause."""
    causes = {name: next((answer for answer in answers if answer.cause), None) for name, answers in answers_of.items()}
    return [
        HeldBack(name, answer.seconds, f"`{name}` cannot fire: {answer.cause}")
        for name, answer in causes.items()
        if answer is not None
    ]


def _newest(stage: StagePage) -> list[str]:
    """The newest keys by the last inspection."""
    looked = stage.inspection().value
    return [] if looked is None else looked.keys


def _downstream(stage: Pipeline, answers_of: Mapping[str, Sequence[Answer]]) -> dict[str, Answer]:
    """By stream that the stage writes: why nothing comes from there, for the stages that read it."""
    by_stream = {}
    for operator in stage.operators:
        answers = [answer for answer in answers_of[operator.name] if answer.cause or answer.delays]
        answers.sort(key=lambda answer: not answer.cause)
        for stream in [output.stream for output in operator.outputs] if answers else []:
            by_stream[stream] = _passed_on(f"{stream} comes from `{operator.name}`", answers[0])
    return by_stream


def _passed_on(source: str, answer: Answer) -> Answer:
    if not answer.cause:
        return Answer(f"Its input {source}. {answer.text}", delays=True)
    cause = f"{source}, which cannot fire: {answer.cause}"
    return Answer(f"Its input {cause}.", cause, answer.seconds)


class Pages:
    """The pages of the pipelines of a service. `pipelines` has the status of each pipeline, and gets what holds the
    operators of each back.
    """

    def __init__(self, pipelines: Pipelines) -> None:
        self._pipelines = pipelines
        self._pages: dict[str, PipelinePage] = {}
        pipelines.held_back = self._held_back

    def _held_back(self, name: str) -> Sequence[HeldBack]:
        page = self.get(name)
        return () if page is None else page.held_back()

    def add(self, page: PipelinePage) -> PipelinePage:
        """Adds a page, or replaces the page of the same pipeline. Removes the pages of pipelines that were removed."""
        pages = {name: kept for name, kept in self._pages.items() if name in self._names}
        self._pages = pages | {page.name: page}
        return page

    def of(self, pipeline: Pipeline) -> PipelinePage:
        """The page of this pipeline, which stays the same over its starts until its file is changed or removed."""
        page = self._pages.get(pipeline.name)
        return page if page is not None and page.pipeline == pipeline else self.add(PipelinePage(pipeline))

    @property
    def several(self) -> bool:
        """Whether the service may have more than one pipeline. Then the first page is the list of pipelines."""
        return self._pipelines.several

    def get(self, name: str) -> PipelinePage | None:
        """The page of a pipeline; None if the service has no such pipeline."""
        return self._pages.get(name) if name in self._names else None

    @property
    def all(self) -> list[PipelinePage]:
        return [self._pages[name] for name in self._names if name in self._pages]

    @property
    def _names(self) -> list[str]:
        return [member.name for member in self._pipelines.members]

    def described(self) -> dict[str, dict[str, Any]]:
        """By name the status of each pipeline as a whole (`Pipelines.described`)."""
        return {status["name"]: status for status in self._pipelines.described()["pipelines"]}

    @property
    def wrong_files(self) -> list[dict[str, str]]:
        return list(self._pipelines.described()["wrong_files"])
