"""The file's parts put together: names resolved, expressions typed, all that is wrong reported."""

from __future__ import annotations

from collections.abc import Mapping

from service.pipeline.clause import Clause
from service.pipeline.codings import Codings
from service.pipeline.file import AggregateShape, JoinShape, MapShape, SortShape
from service.pipeline.grammar import over_group
from service.pipeline.joins import join
from service.pipeline.report import Report
from service.pipeline.settings import settings
from service.pipeline.shape import Shaped
from service.pipeline.sorts import sort
from service.pipeline.spec import Aggregate, Map, Operator, Pipeline
from service.pipeline.streams import Streams
from service.pipeline.typed import Typed
from service.pipeline.windows import window


def build(shaped: Shaped, environment: Mapping[str, str] | None, report: Report) -> Pipeline:
    """The pipeline; it means something only if the report holds no problems."""
    file = shaped.file
    codings = Codings(report, "url" in file.registry)
    streams = Streams(shaped, report, codings)
    streams.check()
    operators = tuple(map(Operators(streams, shaped, report).operator, streams.order()))
    declared = {
        name: codings.stream(name, shape, streams.schemas.get(name), written=name in streams.writers)
        for name, shape in file.streams.items()
    }
    return Pipeline(file.pipeline, declared, operators, settings(file, environment, report), file.dead_letters)


class Operators(Typed):
    def operator(self, index: int) -> Operator:
        match self.streams.operators[index]:
            case AggregateShape() as shape:
                return self.aggregate(index, shape)
            case MapShape() as shape:
                return self.map(index, shape)
            case JoinShape() as shape:
                return join(self, index, shape)
            case SortShape() as shape:
                return sort(self, index, shape)

    def aggregate(self, index: int, shape: AggregateShape) -> Aggregate:
        scope = self.scope(shape.aggregate)
        clause, found = window(shape.window, self.path(index, "window"), scope, self.report)
        partition_by, group_by = (
            self.keys(self.path(index, key), getattr(shape, key), self.scope(shape.aggregate, f"in {key}"))
            for key in ("partition_by", "group_by")
        )
        self.check_window(index, shape, clause)
        outputs = tuple(
            self.output(index, stream, {name: over_group(e) for name, e in given.items()}, sound=sound)
            for stream, given, sound in self.given(index, shape, scope, self.unchanged(shape.aggregate))
        )
        incomplete = shape.aggregate_incomplete_windows
        return Aggregate(shape.name, shape.aggregate, found, outputs, partition_by, group_by, incomplete)

    def check_window(self, index: int, shape: AggregateShape, clause: Clause) -> None:
        if clause.faults or self.shaped.partly(self.path(index)):
            return
        self.check_partitioned(index, "window", "partition_by", partitioned=clause.partitioned)
        if shape.aggregate_incomplete_windows and clause.tumbling:
            path = self.path(index, "aggregate_incomplete_windows")
            self.report.problem(path, "false, as the window is tumbling (rule W20)")

    def map(self, index: int, shape: MapShape) -> Map:
        where = self.condition(self.path(index, "where"), shape.where, self.scope(shape.map, "in where"))
        outputs = self.outputs(index, shape, self.scope(shape.map, "in a map"), self.unchanged(shape.map))
        return Map(shape.name, shape.map, outputs, where)
