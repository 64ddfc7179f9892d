"""Checks that all operators share: keys, conditions and outputs, whose expressions are typed in their scopes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sluice.config.checks.event_time_checks import sized_window, window_functions
from sluice.config.checks.records.member_checks import steps_of
from sluice.config.checks.stream_checks import Streams
from sluice.config.checks.window_checks import UNKNOWN
from sluice.config.syntax.expression_grammar import ExpressionError, check_syntax
from sluice.config.syntax.file_models.operator_models import (
    PLUS,
    AggregateShape,
    CustomShape,
    JoinShape,
    OperatorShape,
    SortShape,
    input_key,
    inputs_of,
)
from sluice.config.syntax.parse_model import ParsedModel
from sluice.config.syntax.problem_report import Report
from sluice.config.syntax.typed_expressions import NO_ATTRIBUTE, Scope, parse
from sluice.config.syntax.window_clause import ParsedClause
from sluice.model.errors import Fault, Path
from sluice.model.expressions import Attribute, Expression
from sluice.model.spec import Output, Window
from sluice.model.types import BOOLEAN, TimeForm

#: words without signs between them
WORDS = re.compile(r"\w+( \w+)+")


@dataclass(slots=True)
class ExpressionChecks:
    """Types the expressions of operators. The types of an operator's outputs become the schemas of its streams."""

    streams: Streams
    shaped: ParsedModel
    report: Report

    def path(self, operator: int, *inner: str | int) -> Path:
        return self.streams.path(operator, *inner)

    # ---- expressions ----

    def scope(self, stream: str, no_aggregates: str | None = None, name: str | None = None) -> Scope | None:
        """The scope of a stream; None if its attributes are unknown. `name` is its name in expressions, if another."""
        schema = self.streams.schemas.get(stream)
        return None if schema is None else Scope(name or stream, dict(schema), no_aggregates)

    def expression(
        self, path: Path, text: str, scope: Scope | None, *, perhaps_text: bool = False
    ) -> Expression | None:
        """The typed expression; None if it is wrong, which is reported. `perhaps_text`: it could be a text alone."""
        try:
            if scope is not None:
                return parse(text, scope)
            check_syntax(text)
        except ExpressionError as error:
            for fault in error.faults:
                self.report.fault(path, as_text(fault, text) if perhaps_text else fault)
        return None

    def condition(self, path: Path, text: str | None, scope: Scope | None) -> Expression | None:
        expression = None if text is None else self.expression(path, text, scope)
        if expression is not None and expression.type.present != BOOLEAN:
            self.report.problem(path, f"a boolean, not {expression.type}", text)
        return expression

    def keys(self, path: Path, texts: Sequence[str], scope: Scope | None) -> tuple[Expression, ...]:
        keys = (self.key((*path, position), text, scope) for position, text in enumerate(texts))
        return tuple(key for key in keys if key is not None)

    def key(self, path: Path, text: str, scope: Scope | None) -> Expression | None:
        key = self.expression(path, text, scope)
        if key is not None and not key.type.comparable:
            self.report.problem(path, f"a key without an inside (rule ST6), not {key.type}", text)
        elif key is not None and key.type.doubt_as_key:
            self.report.caution(path, key.type.doubt_as_key)
        return key

    def check_partitioned(self, index: int, window: str, partition_by: str, *, partitioned: bool) -> None:
        """Checks that the window clause is partitioned exactly if keys are given. `window` and `partition_by` are keys
        of the file.
        """
        has_key = bool(getattr(self.streams.operators[index], partition_by))
        if partitioned and not has_key:
            expected = f"{partition_by}, as the window clause says partitioned (rule W19)"
            self.report.problem(self.path(index, partition_by), expected, None)
        if has_key and not partitioned:
            expected = f"partitioned in the window clause, as {partition_by} is given (rule W19)"
            self.report.problem(self.path(index, window), expected)

    def over_event_time(
        self, index: int, shape: AggregateShape | SortShape | CustomShape, stream: str, clause: ParsedClause,
        scope: Scope | None,
    ) -> tuple[Scope | None, Window]:  # fmt: skip
        """The window of a clause with sized parts, and `scope`, that of the input, with the functions of the window.

        Most of these kinds need an input with an event time (W16). The scope is None if its input is wrong.
        """
        event_time = self.streams.event_times.get(stream)
        if scope is None or (event_time is None and self.wrong(stream)):
            return None, UNKNOWN
        if event_time is None and clause.kind.needs_event_time:
            expected = f"an input with event_time, as the window is a {clause.kind.word} (rule W16)"
            self.report.problem(self.path(index, input_key(shape)), expected + self.event_time_hint(stream))
            return None, UNKNOWN
        path = self.path(index)
        window = UNKNOWN if clause.faults else sized_window(clause, shape, event_time, path, self.report, scope=scope)
        return replace(scope, panes=window_functions(clause, event_time, scope.attributes)), window

    def event_time_hint(self, stream: str) -> str:
        """A hint how to give the stream an event time: by a line of the file, or by an attribute of its operator."""
        if all(self.streams.event_times.get(source) for source in stream.split(PLUS)):
            return "; the streams of a list have one if theirs are equal (rule R3)"
        if stream not in self.streams.writers:
            times = [name for name, kind in self.streams.schemas.get(stream, ()) if kind.time is TimeForm.INSTANT]
            return f"; {stream} has one with event_time: {{attribute: {times[0]}, lag: 5s}}" if times else ""
        writer = self.streams.operators[self.streams.writers[stream]]
        sources = [name for _, name in inputs_of(writer)]
        attributes = {event_time.attribute for name in sources if (event_time := self.streams.event_times.get(name))}
        if len(attributes) != 1 or attributes <= dict(self.streams.schemas.get(stream, ())).keys():
            return ""
        (time,) = attributes
        value = time
        if isinstance(writer, AggregateShape):
            value = "intervalLast()" if str(writer.window).startswith("timeInterval") else f"Last({time})"
        elif isinstance(writer, JoinShape) and all(
            time in dict(self.streams.schemas.get(source, ())) for source in sources
        ):
            value = f"left.{time}"
        return f"; {stream} has one if it has the attribute {time}, for example {time}: {value}"

    def wrong(self, stream: str) -> bool:
        """Whether the file has an event time for the stream, or an error in it, which another check has reported."""
        stated = stream in self.shaped.file.streams and self.shaped.file.streams[stream].event_time is not None
        return stated or self.shaped.partly(("streams", stream))

    # ---- outputs ----

    def outputs(
        self, index: int, shape: OperatorShape, scope: Scope | None, unchanged: Mapping[str, Expression]
    ) -> tuple[Output, ...]:
        """The outputs of an operator. `unchanged` has the attributes that are written if `output` is a list."""
        of_streams = self.given(index, shape, scope, unchanged)
        return tuple(self.output(index, stream, attributes, sound=sound) for stream, attributes, sound in of_streams)

    def given(
        self, index: int, shape: OperatorShape, scope: Scope | None, unchanged: Mapping[str, Expression]
    ) -> Iterator[tuple[str, Mapping[str, Expression], bool]]:
        """The streams under `output`, the attributes of each, and whether these attributes have no problem."""
        if not shape.output:
            self.report.problem(self.path(index, "output"), "at least one stream")
        for stream in shape.output:
            before = len(self.report.problems)
            texts = shape.output[stream] if isinstance(shape.output, dict) else None
            attributes = unchanged if texts is None else self.computed(index, stream, texts, scope)
            yield stream, attributes, len(self.report.problems) == before

    def output(self, index: int, stream: str, expressions: Mapping[str, Expression], *, sound: bool = True) -> Output:
        """An output. Its attributes become those of the stream, unless they are uncertain because of a problem."""
        shape = self.streams.operators[index]
        sources = [name for _, name in inputs_of(shape)]
        has_schemas = all(name in self.streams.schemas for name in sources)
        clear = has_schemas and stream not in self.shaped.unclear
        if clear and sound and self.streams.writers.get(stream) == index:
            self.streams.derive(stream, shape.name, sources, expressions)
        return Output(stream, tuple(expressions.items()))

    def unchanged(self, stream: str, side: str | None = None) -> dict[str, Expression]:
        """The attributes of an input as expressions. `side` is given if the input is one side of a join."""
        return {name: Attribute(name, kind, side) for name, kind in self.streams.schemas.get(stream, ())}

    def computed(self, index: int, stream: str, texts: Mapping[str, str], scope: Scope | None) -> dict[str, Expression]:
        if not texts and stream not in self.shaped.unclear:
            self.report.problem(self.path(index, "output", stream), "at least one attribute")
        expressions: dict[str, Expression] = {}
        for name, text in texts.items():
            path = self.path(index, "output", stream, *steps_of(name))
            self.streams.check_attribute(path, name, written=True)
            expression = self.expression(path, text, scope, perhaps_text=True)
            if expression is not None:
                expressions[name] = expression
        return expressions


def as_text(fault: Fault, text: str) -> Fault:
    """The fault, with the advice to quote the expression if it is probably a string literal.

    YAML removes the quotes around a value, so a string literal needs a second pair of quotes inside of them.
    """
    unknown = fault.got == text and fault.expected.startswith(NO_ATTRIBUTE)
    if fault.hint is not None or not (unknown or (fault.expected == "an operator" and WORDS.fullmatch(text))):
        return fault
    expected = f"{fault.expected} or a text in quotes inside of YAML's quotes"
    return replace(fault, expected=expected, hint=f"\"'{text}'\"")
