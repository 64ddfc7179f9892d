"""The data of a pipeline for the page, as values of JSON: the answer of `/api/pipelines/NAME`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sluice.model.spec import Operator, Pipeline, Stream
from sluice.ops.metrics import WHOLE
from sluice.page.history import Rates
from sluice.page.next_firing import next_firing, since
from sluice.page.pipeline_pages import Aged, Pages, PipelinePage, StagePage
from sluice.page.stage_inspections import StageInspection, StreamProgress, TopicPartition
from sluice.page.why_not_firing import Answer
from sluice.planning.explain_plan import Step
from sluice.time_units import MILLISECOND, SECOND

Status = dict[str, Any]
#: stands for an inspection that was not made, and for a topic partition without any report
NOT_INSPECTED: Aged[StageInspection] = Aged(None, 0.0, pending=False)
UNKNOWN = TopicPartition(None, None)


def summary(page: PipelinePage, described: Mapping[str, Any]) -> Status:
    """One line of the list of pipelines. `described`: its part of `Pipelines.described` (ops/pipelines.py)."""
    entries = [stage.history.last for stage in page.stages]
    rates = [stage.history.rates() for stage in page.stages]
    return {
        "name": page.name, "state": described["state"], "trouble": described["trouble"], "file": described["file"],
        "held_back": described["held_back"], "role": described["role"],
        "since": round(described["since"] * SECOND), "starts": described["starts"],
        "last_batch_at": max((e.at * MILLISECOND for e in entries if e is not None), default=None),
        "read": sum(sum(by_kind.values()) for rate in rates for by_kind in rate.read.values()),
        "written": sum(sum(by_kind.values()) for rate in rates for by_kind in rate.written.values()),
        "dead_letters": sum(sum(by_kind.values()) for rate in rates for by_kind in rate.dead_letters.values()),
        "unread": sum(lag.unread for stage in page.stages for lag in stage.history.lags),
        "state_bytes": sum(stage.history.report.state.get("held", 0) for stage in page.stages),
    }  # fmt: skip


def status(page: PipelinePage, described: Mapping[str, Any], *, inspecting: bool = True) -> Status:
    """The status of a pipeline, without its records. Times are in nanoseconds since 1970, rates are per second.

    `inspecting`: whether the state servers are inspected; if not, the reports of the last batches are the source.
    """
    aged = [stage.inspection() if inspecting else NOT_INSPECTED for stage in page.stages]
    why = page.answers([seen.value or StageInspection() for seen in aged])
    return summary(page, described) | {"stages": list(map(_stage, page.stages, aged, why))}


def overview(pages: Pages, memory: Callable[[], Mapping[str, int]]) -> Status:
    """The status of all pipelines, without an inspection of state servers: the answer of `/status`, for `sluice top`.

    `memory` gives the bytes by kind of process.
    """
    described = pages.described()
    described_pages = [page for page in pages.all if page.name in described]
    return {
        "pipelines": [status(page, described[page.name], inspecting=False) for page in described_pages],
        "wrong_files": pages.wrong_files, "memory": dict(memory()),
    }  # fmt: skip


def _stage(stage: StagePage, aged: Aged[StageInspection], why: Mapping[str, Sequence[Answer]]) -> Status:
    inspection = aged.value or StageInspection()
    history, last, rates = stage.history, stage.history.last, stage.history.rates()
    report = history.report
    took, latency = history.means()
    return {
        "name": stage.pipeline.name,
        "clock": report.clock if inspection.clock is None else inspection.clock,
        "due": report.due if inspection.clock is None else inspection.due,
        "batch": None if last is None else last.batch,
        "batch_at": None if last is None else last.at * MILLISECOND,
        "batch_rate": rates.batches, "batch_seconds": took, "latency_seconds": latency,
        "look": {"possible": stage.can_inspect, "pending": aged.pending, "age": aged.age, "silent": inspection.silent},
        "inputs": [_input(stream, stage, inspection, rates) for stream in stage.pipeline.inputs],
        "operators": [
            _operator(operator, step, stage, inspection, why[operator.name])
            for operator, step in zip(stage.pipeline.operators, stage.explained.steps, strict=True)
        ],
        "outputs": [_output(stream, rates) for stream in stage.pipeline.outputs],
        "buckets": [_bucket(answer) for answer in inspection.answers],
        "spread": stage.explained.spread,
        "together": stage.explained.together,
        "batches": [
            {
                "batch": batch.number, "at": batch.at, "records": batch.records,
                "seconds": batch.phases.get(WHOLE, 0.0),
                "phases": {name: took for name, took in batch.phases.items() if name != WHOLE},
            }
            for batch in history.batches
        ],
    }  # fmt: skip


def _input(stream: Stream, stage: StagePage, inspection: StageInspection, rates: Rates) -> Status:
    progress = inspection.streams.get(stream.name, StreamProgress())
    finals = inspection.finals.get(stream.name, [])
    lags = {lag.partition: lag for lag in stage.history.lags if lag.topic == stream.topic}
    partitions = [
        {
            "topic_partition": number,
            "next_offset": lags[number].next if number in lags else None,
            "unread": lags[number].unread if number in lags else None,
            "final": number in finals,
            **({} if stream.event_time is None else progress.partitions.get(number, UNKNOWN)._asdict()),
        }
        for number in range(max(len(lags), stage.topic_partitions.get(stream.name, 0)))
    ]
    read = rates.read.get(stream.name, {})
    return {
        "stream": stream.name, "topic": stream.topic, "rates": read, "rate": sum(read.values()),
        "unread": sum(lag.unread for lag in lags.values()), "event_time": stream.event_time is not None,
        "watermark": _watermark(stream, stage, progress), "topic_partitions": partitions,
        "dead_letters": sum(rates.dead_letters.get(stream.name, {}).values()),
    }  # fmt: skip


def _watermark(stream: Stream, stage: StagePage, progress: StreamProgress) -> int | None:
    """The watermark in the last inspection, else in the last report, nanoseconds since 1970; None without any."""
    if progress.watermark is not None:
        return progress.watermark
    return stage.history.report.watermarks.get(stream.name)


def _operator(
    operator: Operator, step: Step, stage: StagePage, inspection: StageInspection, why: Sequence[Answer]
) -> Status:
    counts = stage.history.rates().operators.get(operator.name, {})
    held = stage.history.report.operators.get(operator.name, {})
    times = {
        name: _watermark(stage.pipeline.streams[name], stage, inspection.streams.get(name, StreamProgress()))
        for name in operator.inputs
        if stage.pipeline.streams[name].event_time is not None
    }
    return {
        "name": operator.name, "kind": step.kind, "windows": step.windows, "fires": step.fires, "waits": step.waits,
        "read": counts.get("in", 0.0), "written": counts.get("out", 0.0), "fired": counts.get("windows", 0.0),
        "partitions": held.get("partitions"), "tuples": held.get("tuples"), "watermarks": times,
        "waits_for": [answer.text for answer in why], "held_back": [answer.text for answer in why if answer.cause][:1],
    }  # fmt: skip


def _output(stream: Stream, rates: Rates) -> Status:
    written = rates.written.get(stream.name, {})
    return {"stream": stream.name, "topic": stream.topic, "rates": written, "rate": sum(written.values())}


def _bucket(answer: Mapping[str, Any]) -> Status:
    sizes = answer.get("sizes", {})
    return {
        "bucket": answer["bucket"], "bytes": answer.get("held", 0), "clock": answer.get("clock"),
        "due": answer.get("due"), "operators": sizes, "partitions": sum(partitions for partitions, _ in sizes.values()),
        "tuples": sum(tuples for _, tuples in sizes.values()),
    }  # fmt: skip


def _stream_of(pipeline: Pipeline, window: Mapping[str, Any]) -> str:
    """The input stream whose tuples the window holds."""
    operator = next(candidate for candidate in pipeline.operators if candidate.name == window["operator"])
    return operator.inputs[-1 if window.get("side") == "right" else 0]


def windows_of(page: PipelinePage, key: str | None) -> Status:
    """The windows of a key in all stages, and windows without keys: the answer of `/api/pipelines/NAME/windows`."""
    windows, silent, possible, too_large = [], 0, False, False
    for stage in page.stages:
        inspection = stage.windows(key)
        silent += inspection.silent
        possible = possible or stage.can_inspect
        too_large = too_large or inspection.too_large
        for window in inspection.windows:
            more = {"since": since(window), "fires": next_firing(stage.pipeline, window, inspection)}
            windows.append(
                {"stage": stage.pipeline.name, "stream": _stream_of(stage.pipeline, window), **window, **more}
            )
    return {"key": key, "windows": windows, "silent": silent, "possible": possible, "too_large": too_large}
