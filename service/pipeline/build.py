"""The file's parts put together: names resolved, expressions typed, all that is wrong reported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from service.pipeline.clause import Clause
from service.pipeline.codings import Codings
from service.pipeline.errors import Path
from service.pipeline.expressions import Attribute, Expression
from service.pipeline.file import AggregateShape, Attributes, MapShape
from service.pipeline.grammar import ExpressionError, Scope, check_syntax, over_group, parse
from service.pipeline.report import Report
from service.pipeline.settings import settings
from service.pipeline.shape import Shaped
from service.pipeline.spec import Aggregate, Map, Operator, Output, Pipeline
from service.pipeline.streams import Streams, input_of
from service.pipeline.types import BOOLEAN, FLOAT64, Kind
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


@dataclass(slots=True)
class Operators:
    """Types the expressions of operators, each of which says what the streams behind it hold."""

    streams: Streams
    shaped: Shaped
    report: Report

    def path(self, operator: int, *inner: str | int) -> Path:
        return self.streams.path(operator, *inner)

    def operator(self, index: int) -> Operator:
        operator = self.streams.operators[index]
        return self.aggregate(index, operator) if isinstance(operator, AggregateShape) else self.map(index, operator)

    def aggregate(self, index: int, shape: AggregateShape) -> Aggregate:
        clause, found = window(shape.window, self.path(index, "window"), self.scope(shape.aggregate), self.report)
        partition_by = self.keys(index, shape, "partition_by")
        group_by = self.keys(index, shape, "group_by")
        self.check_window(index, shape, clause)
        outputs = tuple(self.outputs(index, shape))
        incomplete = shape.aggregate_incomplete_windows
        return Aggregate(shape.name, shape.aggregate, found, outputs, partition_by, group_by, incomplete)

    def check_window(self, index: int, shape: AggregateShape, clause: Clause) -> None:
        if clause.faults or self.shaped.partly(self.path(index)):
            return
        if clause.partitioned and not shape.partition_by:
            what = "partition_by, as the window clause says partitioned (rule W19)"
            self.report.problem(self.path(index, "partition_by"), what, None)
        if shape.partition_by and not clause.partitioned:
            what = "partitioned in the window clause, as partition_by is given (rule W19)"
            self.report.problem(self.path(index, "window"), what)
        if shape.aggregate_incomplete_windows and clause.tumbling:
            path = self.path(index, "aggregate_incomplete_windows")
            self.report.problem(path, "false, as the window is tumbling (rule W20)")

    def keys(self, index: int, shape: AggregateShape, key: str) -> tuple[Expression, ...]:
        scope = self.scope(shape.aggregate, f"in {key}")
        found: list[Expression] = []
        for position, text in enumerate(getattr(shape, key)):
            path = self.path(index, key, position)
            expression = self.expression(path, text, scope)
            if expression is None:
                continue
            if expression.type.kind is Kind.LIST:
                self.report.problem(path, f"a key that is no list, not {expression.type}", text)
            elif expression.type == FLOAT64:
                self.report.caution(
                    path, "a float64 as key: 0.1 + 0.2 is not 0.3, and NaN is not even itself (rule A9)"
                )
            found.append(expression)
        return tuple(found)

    def map(self, index: int, shape: MapShape) -> Map:
        where = self.where(index, shape) if shape.where is not None else None
        return Map(shape.name, shape.map, tuple(self.outputs(index, shape)), where)

    def where(self, index: int, shape: MapShape) -> Expression | None:
        path, text = self.path(index, "where"), shape.where or ""
        where = self.expression(path, text, self.scope(shape.map, "in where"))
        if where is not None and where.type != BOOLEAN:
            self.report.problem(path, f"a boolean, not {where.type}", text)
        return where

    # ---- outputs ----

    def outputs(self, index: int, shape: AggregateShape | MapShape) -> Iterable[Output]:
        if not shape.output:
            self.report.problem(self.path(index, "output"), "at least one stream")
        for stream in shape.output:
            yield self.output(index, shape, stream)

    def output(self, index: int, shape: AggregateShape | MapShape, stream: str) -> Output:
        before = len(self.report.problems)
        given = self.unchanged(shape) if isinstance(shape.output, list) else self.computed(index, shape, stream)
        if isinstance(shape, AggregateShape):
            given = {name: over_group(expression) for name, expression in given.items()}
        clear = input_of(shape) in self.streams.schemas and stream not in self.shaped.unclear
        if clear and len(self.report.problems) == before and self.streams.writers.get(stream) == index:
            self.streams.derive(stream, shape.name, tuple((name, e.type) for name, e in given.items()))
        return Output(stream, tuple(given.items()))

    def unchanged(self, shape: AggregateShape | MapShape) -> dict[str, Expression]:
        return {name: Attribute(name, kind) for name, kind in self.streams.schemas.get(input_of(shape), ())}

    def computed(self, index: int, shape: AggregateShape | MapShape, stream: str) -> dict[str, Expression]:
        assert isinstance(shape.output, dict)  # noqa: S101 - a list is `unchanged`
        reason = None if isinstance(shape, AggregateShape) else "in a map"
        scope = self.scope(input_of(shape), reason)
        given: Attributes = shape.output[stream]
        if not given and stream not in self.shaped.unclear:
            self.report.problem(self.path(index, "output", stream), "at least one attribute")
        found: dict[str, Expression] = {}
        for name, text in given.items():
            path = self.path(index, "output", stream, name)
            self.streams.check_attribute(path, name)
            expression = self.expression(path, text, scope)
            if expression is not None:
                found[name] = expression
        return found

    # ---- expressions ----

    def scope(self, stream: str, no_aggregates: str | None = None) -> Scope | None:
        """None where the stream's attributes cannot be told."""
        schema = self.streams.schemas.get(stream)
        return None if schema is None else Scope(stream, dict(schema), no_aggregates)

    def expression(self, path: Path, text: str, scope: Scope | None) -> Expression | None:
        try:
            if scope is not None:
                return parse(text, scope)
            check_syntax(text)
        except ExpressionError as error:
            for fault in error.faults:
                self.report.fault(path, fault)
        return None
