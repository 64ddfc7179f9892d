"""Writes a plan as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sluice.model.spec import Pipeline, Settings, Stream
from sluice.model.stream_marks import written_marks
from sluice.model.topology import RETURNING
from sluice.model.unparse import seconds
from sluice.planning.explain.explain_plan import Stage, Step


def lines(pipeline: Pipeline, stages: Sequence[Stage]) -> Iterator[str]:
    """The lines that `sluice explain` prints."""
    count = f"{len(stages)} stages, one query each" if len(stages) > 1 else "1 stage, one query"
    yield f"pipeline {pipeline.name}: {count}"
    yield from (f"  {line}" for line in _settings(pipeline.settings))
    if pipeline.dead_letters:
        yield f"  records that cannot be used go to topic {pipeline.streams[pipeline.dead_letters].topic}"
    for number, stage in enumerate(stages, 1):
        yield ""
        yield from _stage(pipeline, stage, number)


def _settings(settings: Settings) -> Iterator[str]:
    pace = (
        f"every {seconds(settings.trigger_interval)} s" if settings.trigger_interval else "as soon as records are there"
    )
    most = f"{settings.max_records_per_batch:,} records or about {settings.max_bytes_per_batch / 2**20:,.0f} MB at most"
    yield f"a batch starts {pace}, and takes {most}"
    if settings.direct_records:
        most = f"{settings.direct_records:,} records"
        yield f"the service's own process reads a batch of at most {most}, readers a larger one"
    follows = "records and the time of day" if settings.clock == "processing" else "the timestamps of records alone"
    yield f"the clock follows {follows}"


def _stage(pipeline: Pipeline, stage: Stage, number: int) -> Iterator[str]:
    yield f"stage {number}: {stage.name}"
    yield f"  checkpoint  {stage.checkpoint}"
    yield from _listed("reads", [_stream(stream) for stream in stage.reads])
    written = [f"{_stream(stream)}, {written_marks(pipeline, stream)}" for stream in stage.writes]
    yield from _listed("writes", written)
    yield from _listed("apart", [f"since {why}" for why in stage.apart])
    yield from _buckets(stage)
    if len(stage.steps) > 1:
        yield f"  fused       {', '.join(step.name for step in stage.steps)}: tuples pass between them in memory"
    for step in stage.steps:
        yield from _step(step)


def _stream(stream: Stream) -> str:
    exchange = ", an exchange" if stream.exchange else ""
    if stream.name.endswith(RETURNING):
        exchange = f": tuples of {stream.name.removesuffix(RETURNING)} that return in a later batch"
    table = ", a table: the first batch loads it and reads nothing else" if stream.table else ""
    time = f", {stream.record_timestamp} is the timestamp of the record" if stream.record_timestamp else ""
    return f"{stream.name}: topic {stream.topic}, {stream.value.format}{time}{exchange}{table}"


def _buckets(stage: Stage) -> Iterator[str]:
    if stage.spread is None:
        yield from _listed("one bucket", [f"since {why}" for why in stage.together])
        yield from _listed("instead", stage.instead)
    else:
        yield from _listed("buckets", [f"tuples are spread: {one}" for one in stage.spread])


def _step(step: Step) -> Iterator[str]:
    yield f"  {step.kind} {step.name}: {', '.join(step.inputs)} -> {', '.join(step.outputs)}"
    for window in step.windows:
        yield f"    window    {window}"
    yield f"    fires     {step.fires}"
    yield f"    latency   {step.waits}"
    if step.late:
        yield f"    late      {step.late}"
    yield f"    state     {step.state or 'none'}"
    yield from (f"    warning   {text}" for text in step.behind)


def _listed(title: str, values: Sequence[str]) -> Iterator[str]:
    for number, value in enumerate(values):
        yield f"  {'' if number else title:<12}{value}"
