"""The plan of a pipeline, as data and as text: its stages, their topics and buckets, and when each operator fires."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sluice.model.changes.operator_changes import kind_of
from sluice.model.changes.operator_data import has_state
from sluice.model.lateness.late_words import findings
from sluice.model.spec import (  # fmt: skip
    LATENCIES,
    Aggregate,
    Barrier,
    Custom,
    Dedup,
    Delay,
    Each,
    InWords,
    Join,
    KeyedMap,
    Map,
    Operator,
    Pipeline,
    Settings,
    Sort,
    Split,
    Stream,
    by_keys,
)
from sluice.model.spreading import layout, writer_lines
from sluice.model.stages import keys_apart, stages
from sluice.model.stream_marks import written_marks
from sluice.model.topology import RETURNING
from sluice.model.unparse import expression, expressions, seconds
from sluice.planning.firing_words import firing, lateness
from sluice.planning.footprint import Footprint, footprints


@dataclass(frozen=True, slots=True)
class Step:
    """One operator: its windows, when they fire, how long a tuple waits for that, and its state, in words."""

    name: str
    kind: str
    #: the window clauses; for a join each with its stream
    windows: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    fires: str
    waits: str
    #: from which age on a tuple is late; empty if none can be
    late: str
    #: None: the operator has no state
    state: str | None
    #: for each output that may be late for what reads it, why and what to write instead (Q9)
    behind: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """The part of a pipeline that runs in one query, with a checkpoint and a ledger of its own.

    spread      how the tuples of each stream are spread over buckets; None if all tuples are in one bucket
    together    the reasons why all tuples are in one bucket
    instead     what to change in the file so that the tuples are spread
    apart       the reasons why operators that read the same inputs are in other stages
    writers     who writes each output, if the buckets write what they can
    """

    name: str
    checkpoint: str
    reads: tuple[Stream, ...]
    writes: tuple[Stream, ...]
    spread: tuple[str, ...] | None
    together: tuple[str, ...]
    instead: tuple[str, ...]
    apart: tuple[str, ...]
    steps: tuple[Step, ...]
    writers: tuple[str, ...] = ()


def plan(pipeline: Pipeline) -> tuple[Stage, ...]:
    """The stages, upstream first."""
    needs, reasons = footprints(pipeline), keys_apart(pipeline)
    behind: dict[str, tuple[str, ...]] = {}
    for finding in findings(pipeline):
        behind[finding.operator.name] = (*behind.get(finding.operator.name, ()), finding.text)
    return tuple(_stage(stage, needs, reasons, behind) for stage in stages(pipeline))


def _stage(
    stage: Pipeline, needs: Mapping[str, Footprint], apart: tuple[str, ...], behind: Mapping[str, tuple[str, ...]]
) -> Stage:
    placing = layout(stage)
    spread = None
    if placing.keys is not None:
        spread = tuple(f"{name} by {expressions(key) or 'topic partition'}" for name, key in placing.keys.items())
    other = () if any(stream.exchange for stream in stage.inputs) else apart
    steps = tuple(
        _step(operator, stage, needs.get(operator.name), behind.get(operator.name, ())) for operator in stage.operators
    )
    waits = any(map(has_state, stage.operators))
    instead = placing.instead if waits and stage.settings.buckets != 1 else ()
    writers = tuple(writer_lines(stage)) if stage.settings.writers == "buckets" else ()
    return Stage(
        stage.name, stage.checkpoint, stage.inputs, stage.outputs, spread, placing.why, instead, other, steps, writers
    )  # fmt: skip


def _step(operator: Operator, stage: Pipeline, needs: Footprint | None, behind: tuple[str, ...]) -> Step:
    fires, waits = firing(operator, stage)
    outputs = tuple(output.stream for output in operator.outputs)
    kind = kind_of(operator)
    late, state = lateness(operator, stage), _state(operator, needs)
    windows = operator.clauses if isinstance(operator, InWords) else _windows(operator)
    return Step(operator.name, kind, windows, operator.inputs, outputs, fires, waits, late, state, behind)


def _windows(operator: Operator) -> tuple[str, ...]:
    match operator:
        case Join():
            return _windows_of_join(operator)
        case Aggregate() | Sort() | Custom():
            return (operator.window.clause() + by_keys(operator.partition_by),)
        case Dedup():
            return (f"{operator.clause} by {expressions(operator.by)}",)
        case Split():
            pairs = zip(operator.outputs, operator.conditions, strict=True)
            return tuple(f"{o.stream}: {'all others' if c is None else expression(c)}" for o, c in pairs)
        case Map(each=Each() as each):
            return (f"each {each.clause}",)
        case _:
            return ()


def _windows_of_join(join: Join) -> tuple[str, ...]:
    if join.window is not None:
        return (join.window.clause() + _where(join),)
    if join.table:
        return (f"the table {join.right.stream}: the newest row of each key{_where(join)}",)
    return tuple(
        f"{side.stream}: {side.window.clause()}{by_keys(side.partition_by)}" for side in (join.left, join.right)
    )


def _where(join: Join) -> str:
    """The equalities of a join in words."""
    if not join.left.equality:
        return ""
    left, right = (f"{expressions(side.equality)} of {side.stream}" for side in (join.left, join.right))
    return f" where {left} = {right}"


def _state(operator: Operator, needs: Footprint | None) -> str | None:
    """The size of the state in words: bytes for each window partition, and for what it stores in it."""
    if isinstance(operator, Custom):
        return "what its window holds, and what the class remembers of it, as JSON"
    if isinstance(operator, Delay):
        return "the tuples that wait" + (", and the time of the last one of each key" if operator.partition_by else "")
    if needs is None:
        return None
    parts = [f"{needs.partition:,} bytes for each {_partition_of(operator, needs)}"]
    if needs.time:
        parts.append(f"{needs.time:,} for each {_time_of(operator)} in it")
    if needs.tuple:
        parts.append(f"{needs.tuple:,} for {_tuples_of(operator, needs)}")
    *before, last = parts
    return f"{', '.join(before)} and {last}" if before else last


def _partition_of(operator: Operator, needs: Footprint) -> str:
    """What `Footprint.partition` is the size of."""
    if isinstance(operator, Dedup | KeyedMap | Barrier):
        return "key with one period" if isinstance(operator, Dedup) and needs.tuple else "key"
    return operator.window.partition_in_words if isinstance(operator, Aggregate) else "window partition"


def _tuples_of(operator: Operator, needs: Footprint) -> str:
    """The tuples that a window partition stores."""
    if isinstance(operator, Dedup):
        return "its stored tuple"
    count = _held(operator)
    if count is None:
        return "each tuple in it"
    return f"each of its {count:,} tuples: {needs.partition + count * needs.tuple:,}"


def _time_of(operator: Operator) -> str:
    """What a window over event time keeps for the tuples of one time, in words."""
    return operator.window.time_in_words if isinstance(operator, Aggregate | Sort) else "event time"


def _held(operator: Operator) -> int | None:
    """The most tuples that a window partition stores, if its eviction policy is a count; else None.

    The tuple that fills a tumbling window flushes it, so that a tumbling window stores one tuple less.
    """
    if isinstance(operator, KeyedMap):
        return operator.longest
    if not isinstance(operator, Aggregate | Sort):
        return None
    return operator.window.tuples_when_full


def lines(pipeline: Pipeline, stages: Sequence[Stage]) -> Iterator[str]:
    """The lines that `sluice explain` prints."""
    count = f"{len(stages)} stages, one query each" if len(stages) > 1 else "1 stage, one query"
    yield f"pipeline {pipeline.name}: {count}"
    yield from (f"  {line}" for line in _settings(pipeline.settings))
    if pipeline.dead_letters:
        yield f"  records that cannot be used go to topic {pipeline.streams[pipeline.dead_letters].topic}"
    for number, stage in enumerate(stages, 1):
        yield ""
        yield from _stage_lines(pipeline, stage, number)


def _settings(settings: Settings) -> Iterator[str]:
    most = f"{settings.max_records_per_batch:,} records or about {settings.max_bytes_per_batch / 2**20:,.0f} MB at most"
    yield f"a batch starts {_pace(settings)}, and takes {most}"
    if settings.direct_records:
        most = f"{settings.direct_records:,} records"
        yield f"the service's own process reads a batch of at most {most}, readers a larger one"
    follows = "records and the time of day" if settings.clock == "processing" else "the timestamps of records alone"
    yield f"the clock follows {follows}"


def _pace(settings: Settings) -> str:
    if settings.trigger_interval:
        return f"every {seconds(settings.trigger_interval)} s"
    if isinstance(settings.latency, int):
        return f"as soon as records are there, or later, so that a record waits about {seconds(settings.latency)} s"
    share = LATENCIES[settings.latency]
    limit = f", or later, so that the fixed work of batches takes at most {share} of a processor"
    return f"as soon as records are there{limit if share < 1 else ''}"


def _stage_lines(pipeline: Pipeline, stage: Stage, number: int) -> Iterator[str]:
    yield f"stage {number}: {stage.name}"
    yield f"  checkpoint  {stage.checkpoint}"
    yield from _listed("reads", [_stream(stream) for stream in stage.reads])
    written = [f"{_stream(stream)}, {written_marks(pipeline, stream)}" for stream in stage.writes]
    yield from _listed("writes", written)
    yield from _listed("apart", [f"since {why}" for why in stage.apart])
    yield from _buckets(stage)
    yield from _listed("writers", stage.writers)
    if len(stage.steps) > 1:
        yield f"  fused       {', '.join(step.name for step in stage.steps)}: tuples pass between them in memory"
    for step in stage.steps:
        yield from _step_lines(step)


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
        yield from _listed("buckets", [f"tuples are spread: {spread}" for spread in stage.spread])


def _step_lines(step: Step) -> Iterator[str]:
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
