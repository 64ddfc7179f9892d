"""Builds the Pipeline from the parsed file: it resolves names, types expressions, and reports all problems."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from graphlib import CycleError
from typing import Any

from sluice.config.checks.early_checks import early, emitted_rest
from sluice.config.checks.event_time_checks import window_functions
from sluice.config.checks.expression_checks import ExpressionChecks
from sluice.config.checks.mark_checks import check_keys, check_scopes, marks, with_marks
from sluice.config.checks.operators.custom_operators import custom
from sluice.config.checks.operators.dedup_checks import dedup
from sluice.config.checks.operators.empty_pane_checks import Filling, check_empty_panes
from sluice.config.checks.operators.join_checks import join
from sluice.config.checks.operators.key_time_checks import check_key_times
from sluice.config.checks.operators.map_checks import decided_before, keyed, looking_back, unnesting
from sluice.config.checks.operators.sort_checks import sort
from sluice.config.checks.operators.toolkit_checks import barrier, delay, split
from sluice.config.checks.operators.union_checks import Unions
from sluice.config.checks.result_warnings import check_cut_results, check_late_results
from sluice.config.checks.settings import settings
from sluice.config.checks.stream_checks import Streams
from sluice.config.checks.stream_formats import StreamFormats
from sluice.config.checks.table_checks import check_tables, over_table
from sluice.config.checks.wall_clock_alignment import align
from sluice.config.checks.watermark_checks import check_buckets, check_unused_event_times, check_watermark_sources
from sluice.config.checks.window_checks import window
from sluice.config.syntax.file_models.operator_models import (
    AggregateShape,
    BarrierShape,
    CustomShape,
    DedupShape,
    DelayShape,
    JoinShape,
    MapShape,
    OperatorShape,
    PairShape,
    SortShape,
    SplitShape,
    ThrottleShape,
)
from sluice.config.syntax.parse_model import ParsedModel
from sluice.config.syntax.problem_report import Report
from sluice.config.syntax.window_clause import ParsedClause
from sluice.model.expressions import Attribute, over_group
from sluice.model.spec import Aggregate, EventTime, Map, Operator, Pipeline, Stream
from sluice.model.stages import stages
from sluice.model.topology import separated
from sluice.model.windows.kinds import KINDS, kinds_reading


def build(shaped: ParsedModel, environment: Mapping[str, str] | None, report: Report) -> Pipeline:
    """The pipeline of a parsed file. It is valid only if the report has no problems."""
    file = shaped.file
    codings = StreamFormats(report, "url" in file.registry)
    streams = Streams(shaped, report, codings)
    streams.check()
    check_tables(streams)
    typed, unions = Operators(streams, shaped, report), Unions(streams)
    order = streams.order()
    operators = tuple(
        operator for index in order for operator in (unions.resolve(index), typed.operator(index)) if operator
    )
    declared = {
        name: codings.stream(name, shape, streams.schemas.get(name), written=name in streams.writers)
        for name, shape in file.streams.items()
    }
    declared = {
        name: replace(timed(stream, streams.event_times.get(name)), **marks(typed, name))
        for name, stream in declared.items()
    }
    declared |= {name: unions.stream(name) for name in unions.found}
    streams.check_watermarks()
    pipeline = Pipeline(file.pipeline, declared, operators, settings(file, environment, report), file.dead_letters)
    if not report.problems:
        pipeline = separated(pipeline, streams.feedback)
        check_stages(pipeline, report)
        check_watermark_sources(pipeline, report)
        check_unused_event_times(pipeline, report)
        check_buckets(pipeline, report)
        check_scopes(pipeline, file.streams, report)
        check_keys(pipeline, report)
        paths = [streams.path(index) for index in order]
        check_late_results(pipeline, paths, report)
        check_cut_results(pipeline.operators, paths, report)
        check_key_times(pipeline, paths, report)
        return with_marks(pipeline, file.streams, report)
    return pipeline


def timed(stream: Stream, event_time: EventTime | None) -> Stream:
    """The stream with its event time. Watermarks are written to an exchange, so that its readers get them."""
    watermarks = stream.watermarks or (stream.exchange and event_time is not None)
    return replace(stream, event_time=event_time, watermarks=watermarks)


def check_stages(pipeline: Pipeline, report: Report) -> None:
    try:
        stages(pipeline)
    except CycleError as error:
        around = " -> ".join(reversed(error.args[1]))
        for name, stream in pipeline.streams.items():
            if stream.exchange:
                expected = f"no cycle between stages ({around})"
                report.problem(("streams", name, "exchange"), expected)


#: the operators whose checks have a module of their own
BUILDERS: Mapping[type[OperatorShape], Callable[[ExpressionChecks, int, Any], Operator]] = {
    JoinShape: join, SortShape: sort, DedupShape: dedup, CustomShape: custom, SplitShape: split,
    BarrierShape: barrier, PairShape: barrier, DelayShape: delay, ThrottleShape: delay,
}  # fmt: skip


class Operators(ExpressionChecks):
    def operator(self, index: int) -> Operator:
        shape = self.streams.operators[index]
        match shape:
            case AggregateShape():
                return self.aggregate(index, shape)
            case MapShape():
                return self.map(index, shape)
        return BUILDERS[type(shape)](self, index, shape)

    def aggregate(self, index: int, shape: AggregateShape) -> Aggregate:
        scope = self.scope(shape.aggregate)
        clause, operator_window = window(shape.window, self.path(index, "window"), scope, self.report)
        if clause.sizes is not None:
            scope, operator_window = self.over_event_time(index, shape, shape.aggregate, clause, scope)
        elif scope is not None:
            scope = replace(scope, panes=window_functions(clause, None, scope.attributes))
        partition_by, group_by = (
            self.keys(self.path(index, key), getattr(shape, key), self.scope(shape.aggregate, f"in {key}"))
            for key in ("partition_by", "group_by")
        )
        self.check_window(index, shape, clause)
        operator_window = over_table(self, index, shape, align(self, index, shape, clause, operator_window), clause)
        can_be_full = operator_window.sliding or operator_window.table_key is not None
        incomplete = can_be_full and shape.aggregate_incomplete_windows
        check_empty_panes(self, index, shape, clause)
        filling = Filling(shape.empty_panes, partition_by)
        written = [
            (stream, {name: over_group(e) for name, e in expressions.items()}, sound)
            for stream, expressions, sound in self.given(index, shape, scope, self.unchanged(shape.aggregate))
        ]
        outputs = tuple(
            self.output(index, stream, filling.attributes(expressions), sound=sound)
            for stream, expressions, sound in written
        )
        return Aggregate(
            shape.name, shape.aggregate, operator_window, outputs, partition_by, group_by,
            incomplete, shape.aggregate_evicted_partitions,
            early(self, index, shape, clause, operator_window), emit_rest=emitted_rest(self, index, shape, clause),
            empty_panes=filling.spec([(stream, expressions) for stream, expressions, _ in written]),
        )  # fmt: skip

    def check_window(self, index: int, shape: AggregateShape, clause: ParsedClause) -> None:
        if clause.faults or self.shaped.partly(self.path(index)):
            return
        self.check_options(index, shape, clause)
        if clause.kind.says_partitioned:
            self.check_partitioned(index, "window", "partition_by", partitioned=clause.partitioned)
        self.check_incomplete(index, shape, clause)
        if shape.aggregate_evicted_partitions and not (clause.tumbling and clause.leaving):
            path = self.path(index, "aggregate_evicted_partitions")
            why = "has no partition eviction" if clause.tumbling else "is sliding"
            self.report.problem(path, f"false, as the window {why} (rule W20)")

    def check_incomplete(self, index: int, shape: AggregateShape, clause: ParsedClause) -> None:
        """Checks that the window of `aggregate_incomplete_windows` is sliding (W20, E35). Warns of a window
        without the key whose eviction policy may never fill it, so that it emits nothing (S18).
        """
        path = self.path(index, "aggregate_incomplete_windows")
        if "aggregate_incomplete_windows" in shape.model_fields_set and shape.aggregate_incomplete_windows:
            if clause.tumbling:
                self.report.problem(path, "false, as the window is tumbling (rule W20)")
            if clause.sizes is not None:
                self.report.problem(path, f"false, as the window is a {clause.kind.word} (rule E35)")
            if clause.whole:
                self.report.problem(path, "false, as the window has all rows of a table (rule EN10)")
        why = clause.policies[0].kind.may_never_fill if clause.policies else ""
        if why and not (clause.tumbling or shape.aggregate_incomplete_windows):
            self.report.caution(path, why)

    def check_options(self, index: int, shape: AggregateShape, clause: ParsedClause) -> None:
        """Checks that the window reads each given key that only some kinds of windows read."""
        for key in sorted({option for kind in KINDS.values() for option in kind.options}):
            if key in shape.model_fields_set and key not in clause.kind.options:
                early = (
                    "; early: count(1) gives a result with each tuple" if key == "emit" and clause.kind.early else ""
                )
                expected = f"{key} only with a {kinds_reading(key)} window{early}"
                self.report.problem(self.path(index, key), expected, clause.kind.word)

    def map(self, index: int, shape: MapShape) -> Map:
        unnest = None if shape.each is None else unnesting(self, index, shape)
        more = dict(unnest.attributes) if unnest else {}
        unknown = shape.each is not None and unnest is None
        conditions, values = (
            None if scope is None or unknown else replace(scope, attributes={**scope.attributes, **more})
            for scope in (self.scope(shape.map, "in where"), self.scope(shape.map, "in a map"))
        )
        where = self.condition(self.path(index, "where"), shape.where, decided_before(conditions))
        unchanged = self.unchanged(shape.map) | {name: Attribute(name, kind) for name, kind in more.items()}
        outputs = self.outputs(index, shape, looking_back(values), unchanged)
        return keyed(self, index, shape, values, Map(shape.name, shape.map, outputs, where, unnest))
