"""Splits a pipeline into stages: at its exchange topics, and between operators that read one input with different keys.
Each stage runs as a Spark query of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from graphlib import TopologicalSorter
from itertools import combinations

from sluice.model.spec import Operator, Pipeline, Union
from sluice.model.spreading import Keys, layout, shared_times


def stages(pipeline: Pipeline) -> tuple[Pipeline, ...]:
    """The stages, upstream first; each is a Pipeline. If there is one stage, it is the pipeline itself.

    Operators that are connected by streams other than exchanges form a group. All groups that read no exchange topic
    are one stage, which keeps the name of the pipeline, unless some of them read one input with different keys
    (`keys_apart`): then each key has a stage. Every other group is a stage of its own. A stage without the name of the
    pipeline is named `PIPELINE.OPERATOR`, after its first operator. Raises CycleError if stages form a cycle.

    A record that several stages read and cannot decode becomes a dead letter of the first of them.
    """
    parts = _parts(pipeline)
    first = _by_key(pipeline, [part for part in parts if not _reads_exchange(pipeline, part)])
    behind = [part for part in parts if _reads_exchange(pipeline, part)]
    if len(first) + len(behind) <= 1 and not any(stream.exchange for stream in pipeline.streams.values()):
        return (pipeline,)
    named = {pipeline.name: first[0]} if first else {}
    named |= {f"{pipeline.name}.{_first_of(part).name}": part for part in [*first[1:], *behind]}
    ordered = [_stage(pipeline, named[name], name) for name in _upstream_first(pipeline, named)]
    return tuple(_reporting(stage, ordered[:number]) for number, stage in enumerate(ordered))


def keys_apart(pipeline: Pipeline) -> tuple[str, ...]:
    """The reasons why operators that read no exchange are in several stages; () if they are in one."""
    first = [part for part in _parts(pipeline) if not _reads_exchange(pipeline, part)]
    if len(_by_key(pipeline, first)) <= 1:
        return ()
    return tuple(dict.fromkeys(why for _, why in _conflicts(pipeline, first)))


def spread_operators(pipeline: Pipeline) -> frozenset[str]:
    """The names of the operators whose tuples may be spread over buckets. Their outputs must have an order that several
    buckets can give, too.

    `buckets` has no influence: the outputs of one bucket are those of several. So the stages are those of a pipeline
    with several buckets. `pipeline` may be a stage; its operators are then spread as they are in the whole pipeline.
    """
    several = replace(pipeline, settings=replace(pipeline.settings, buckets=2))
    keyed = [stage for stage in stages(several) if layout(stage).keys is not None]
    return frozenset(operator.name for stage in keyed for operator in stage.operators)


def _by_key(pipeline: Pipeline, parts: list[list[Operator]]) -> list[list[Operator]]:
    """The groups, put together as stages. They are one stage unless two groups that could each be spread over buckets
    read an input with different keys: together they would be in one bucket. Then each group joins the first stage with
    whose keys it agrees, and the groups that need one bucket, or whose event times all buckets share, are a stage.

    A stage costs a query of Spark, and each stage reads the input. It pays only if there are several buckets.
    """
    all_parts = _in_order(pipeline, parts)
    if pipeline.settings.buckets == 1 or not any(_conflicts(pipeline, parts)):
        return [all_parts] if all_parts else []
    stages: list[list[list[Operator]]] = []
    undivided: list[list[Operator]] = []
    for part in parts:
        if _spread(pipeline, [part]) is None:
            undivided.append(part)
            continue
        fitting = next((stage for stage in stages if _spread(pipeline, [*stage, part]) is not None), None)
        if fitting is None:
            stages.append([part])
        else:
            fitting.append(part)
    ordered = [_in_order(pipeline, stage) for stage in [*stages, undivided] if stage]
    return sorted(ordered, key=lambda stage: _positions(pipeline)[stage[0].name])


def _conflicts(pipeline: Pipeline, parts: list[list[Operator]]) -> Iterator[tuple[str, str]]:
    """The inputs that two groups read with different keys, each with the reason why one bucket would be needed."""
    keyed = [(part, keys) for part in parts if (keys := _spread(pipeline, [part])) is not None]
    for (first, keys), (second, others) in combinations(keyed, 2):
        for name in keys.keys() & others.keys():
            if keys[name] != others[name] and keys[name] and others[name]:
                yield name, "; ".join(layout(_stage(pipeline, _in_order(pipeline, [first, second]), pipeline.name)).why)


def _spread(pipeline: Pipeline, parts: list[list[Operator]]) -> Mapping[str, Keys] | None:
    """The keys by which a stage of these groups is spread over buckets; None if it needs one bucket, or if all buckets
    would share its event times. Such groups stay together, as in checkpoints of versions that had them in one bucket.
    """
    stage = _stage(pipeline, _in_order(pipeline, parts), pipeline.name)
    return None if shared_times(stage) else layout(stage).keys


def _in_order(pipeline: Pipeline, parts: list[list[Operator]]) -> list[Operator]:
    """The operators of these groups, upstream before downstream."""
    positions = _positions(pipeline)
    return sorted((operator for part in parts for operator in part), key=lambda operator: positions[operator.name])


def _positions(pipeline: Pipeline) -> dict[str, int]:
    return {operator.name: position for position, operator in enumerate(pipeline.operators)}


def _reporting(stage: Pipeline, before: list[Pipeline]) -> Pipeline:
    """The stage, which does not report records again that a stage before it reports."""
    read_before = {stream.name for other in before for stream in other.inputs}
    twice = {s.name: replace(s, reported=False) for s in stage.inputs if s.name in read_before}
    return replace(stage, streams={**stage.streams, **twice}) if twice else stage


def _first_of(part: list[Operator]) -> Operator:
    """The first operator that the file names."""
    return next(operator for operator in part if not isinstance(operator, Union))


def _upstream_first(pipeline: Pipeline, stages: Mapping[str, list[Operator]]) -> Iterator[str]:
    writer = {
        output.stream: name for name, stage in stages.items() for operator in stage for output in operator.outputs
    }
    before = {
        name: {
            writer[stream]
            for operator in stage
            for stream in operator.inputs
            if pipeline.streams[stream].exchange and stream in writer  # what returns comes from a later stage
        }
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
    return [_in_order(pipeline, [part]) for part in parts]


def _linked(pipeline: Pipeline, part: list[Operator], operator: Operator) -> bool:
    written = {output.stream for upstream in part for output in upstream.outputs}
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
