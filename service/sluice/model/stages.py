"""Splits a pipeline at its exchange topics into stages. Each stage runs as a Spark query of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from graphlib import TopologicalSorter

from sluice.model.spec import Operator, Pipeline, Union


def stages(pipeline: Pipeline) -> tuple[Pipeline, ...]:
    """The stages, upstream first; each is a Pipeline. Without an exchange the only stage is the pipeline itself.

    Operators that are connected by streams other than exchanges form a group. All groups that read no exchange topic
    are one stage, which keeps the name of the pipeline. Every other group is a stage named `PIPELINE.OPERATOR`, after
    its first operator. Raises CycleError if stages form a cycle.
    """
    if not any(stream.exchange for stream in pipeline.streams.values()):
        return (pipeline,)
    parts = _parts(pipeline)
    first = [operator for part in parts if not _reads_exchange(pipeline, part) for operator in part]
    behind = [part for part in parts if _reads_exchange(pipeline, part)]
    named = {pipeline.name: first} if first else {}
    named |= {f"{pipeline.name}.{_first_of(part).name}": part for part in behind}
    return tuple(_stage(pipeline, named[name], name) for name in _upstream_first(pipeline, named))


def _first_of(part: list[Operator]) -> Operator:
    """The first operator that the file names."""
    return next(operator for operator in part if not isinstance(operator, Union))


def _upstream_first(pipeline: Pipeline, stages: Mapping[str, list[Operator]]) -> Iterator[str]:
    writer = {output.stream: name for name, stage in stages.items() for one in stage for output in one.outputs}
    before = {
        name: {writer[stream] for one in stage for stream in one.inputs if pipeline.streams[stream].exchange}
        for name, stage in stages.items()
    }
    return iter(TopologicalSorter(before).static_order())


def _parts(pipeline: Pipeline) -> list[list[Operator]]:
    """The groups of operators that are connected by streams other than exchanges; each group is upstream first."""
    parts: list[list[Operator]] = []
    for operator in pipeline.operators:
        linked = [part for part in parts if _linked(pipeline, part, operator)]
        parts = [part for part in parts if part not in linked]
        parts.append([*(o for part in linked for o in part), operator])
    place = {operator.name: n for n, operator in enumerate(pipeline.operators)}
    return [sorted(part, key=lambda operator: place[operator.name]) for part in parts]


def _linked(pipeline: Pipeline, part: list[Operator], operator: Operator) -> bool:
    written = {output.stream for one in part for output in one.outputs}
    return any(name in written and not pipeline.streams[name].exchange for name in operator.inputs)


def _reads_exchange(pipeline: Pipeline, part: list[Operator]) -> bool:
    return any(pipeline.streams[name].exchange for operator in part for name in operator.inputs)


def _stage(pipeline: Pipeline, operators: list[Operator], name: str) -> Pipeline:
    used = set(_streams(operators)) | {pipeline.dead_letters}
    streams = {n: stream for n, stream in pipeline.streams.items() if n in used}
    settings = replace(pipeline.settings, checkpoint=f"{pipeline.checkpoint}/{name}")
    return Pipeline(name, streams, tuple(operators), settings, pipeline.dead_letters)


def _streams(operators: list[Operator]) -> Iterator[str]:
    for operator in operators:
        yield from operator.inputs
        yield from (output.stream for output in operator.outputs)
