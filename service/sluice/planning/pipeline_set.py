"""Checks that pipelines which run beside each other do not conflict, and finds the topics that connect them.

Each pipeline is right by itself; these are problems of several of them. Pipelines of different Kafka clusters share no
topics. Two pipelines are on one cluster if the addresses of their brokers have one in common.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from sluice.model.errors import Hint, Problem
from sluice.model.kafka_properties import servers
from sluice.model.spec import Pipeline
from sluice.model.stages import stages
from sluice.model.topology import cycle, upstream_first


class Link(NamedTuple):
    """A topic that the pipeline `writer` writes and the pipeline `reader` reads; both are names of pipelines."""

    topic: str
    writer: str
    reader: str


class Written(NamedTuple):
    """A stream with a topic that a pipeline writes. `dead` is true for the stream of its dead letters."""

    stream: str
    topic: str
    dead: bool


def problems(pipelines: Mapping[str, Pipeline]) -> list[Problem]:
    """What prevents pipelines, by their files, from running beside each other.

    Each problem names the later one of two files. Two pipelines may share a topic of dead letters.
    """
    conflicts: list[Problem] = []
    before: list[tuple[str, Pipeline]] = []
    for file, pipeline in pipelines.items():
        for other_file, other in before:
            conflicts.extend(_between(file, pipeline, other_file, other))
        before.append((file, pipeline))
    return conflicts


def cautions(pipelines: Mapping[str, Pipeline]) -> list[Hint]:
    """A hint for a cycle of pipelines through topics, at the first of its files."""
    around = topic_cycle(list(pipelines.values()))
    if not around:
        return []
    files = {pipeline.name: file for file, pipeline in pipelines.items()}
    path = " -> ".join(f"{link.writer} -> topic {link.topic}" for link in around)
    text = f"a cycle of pipelines through topics ({path} -> {around[0].writer}): a record may go round for ever"
    return [Hint(files[around[0].writer], None, "", text)]


def links(pipelines: Sequence[Pipeline]) -> list[Link]:
    """The topics that connect these pipelines, in the order of the writers, then of the readers."""
    return [
        Link(topic, writer.name, reader.name)
        for writer in pipelines
        for reader in pipelines
        if reader is not writer and _same_cluster(writer, reader)
        for topic in sorted(
            {stream.topic for stream in _written(writer)} & {str(stream.topic) for stream in reader.inputs}
        )
    ]


def topic_cycle(pipelines: Sequence[Pipeline]) -> list[Link]:
    """A cycle of pipelines, as the topics that connect each with the next one; empty if there is no cycle."""
    all_links = links(pipelines)
    names = [pipeline.name for pipeline in pipelines]
    reads, writes = _streams(names, all_links)
    stuck = {*range(len(names))} - {*upstream_first(reads, writes)}
    if not stuck:
        return []
    numbers = cycle(reads, writes, stuck)
    first = numbers.index(min(numbers))
    around = [names[number] for number in numbers[first:] + numbers[:first]]
    following = zip(around, [*around[1:], around[0]], strict=True)
    return [next(link for link in all_links if (link.writer, link.reader) == pair) for pair in following]


def writers_first(names: Sequence[str], connections: Sequence[Link]) -> list[str]:
    """The names of pipelines, a writer before its readers. Pipelines in and after a cycle come last."""
    order = upstream_first(*_streams(names, connections))
    rest = [number for number in range(len(names)) if number not in order]
    return [names[number] for number in order + rest]


def _streams(names: Sequence[str], connections: Sequence[Link]) -> tuple[list[list[str]], dict[str, int]]:
    """The links as streams between operators (model/topology.py): what each name reads, and which name writes each.

    Each link is a stream of its own: several pipelines may write what one reads.
    """
    reads = [[str(number) for number, link in enumerate(connections) if link.reader == name] for name in names]
    writes = {str(number): names.index(link.writer) for number, link in enumerate(connections) if link.writer in names}
    return reads, writes


def _between(file: str, pipeline: Pipeline, other_file: str, other: Pipeline) -> Iterator[Problem]:
    """The problems of a pipeline and one of the files before it."""
    where = f"{other.name} of {other_file}"
    if shared := sorted(_names(pipeline) & _names(other)):
        expected = f"a name of its own ({where} has it: transactions and the ledger have the names of pipelines)"
        yield Problem(file, None, "pipeline", expected, shared[0])
    elif _folder(pipeline) == _folder(other):
        yield Problem(file, None, "checkpoint", f"a folder of its own ({where} has it)", pipeline.checkpoint)
    if _same_cluster(pipeline, other):
        theirs = {written.topic: written for written in _written(other)}
        for written in _written(pipeline):
            if written.topic in theirs and not (written.dead and theirs[written.topic].dead):
                expected = f"a topic that no other pipeline writes ({where} writes it)"
                yield Problem(file, None, f"streams.{written.stream}.topic", expected, written.topic)


def _names(pipeline: Pipeline) -> set[str]:
    """The names of the pipeline and of its stages: each stage has a ledger of its own."""
    return {pipeline.name, *(stage.name for stage in stages(pipeline))}


def _folder(pipeline: Pipeline) -> Path:
    return Path(pipeline.checkpoint).absolute()


def _written(pipeline: Pipeline) -> list[Written]:
    dead = pipeline.streams[pipeline.dead_letters] if pipeline.dead_letters else None
    outputs = [Written(stream.name, str(stream.topic), dead=False) for stream in pipeline.outputs]
    return outputs + ([Written(dead.name, str(dead.topic), dead=True)] if dead else [])


def _same_cluster(first: Pipeline, second: Pipeline) -> bool:
    return not _servers(first).isdisjoint(_servers(second))


def _servers(pipeline: Pipeline) -> set[str]:
    return {address.strip() for address in servers(pipeline.settings.kafka).split(",")}
