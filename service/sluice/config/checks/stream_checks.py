"""Checks the streams of a file: names, topics, schemas, the operators that write and read them, and their order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sluice.config.checks.event_time_checks import event_time, inherited
from sluice.config.checks.records.member_checks import is_path
from sluice.config.checks.stream_formats import StreamFormats
from sluice.config.syntax.expression_grammar import RESERVED
from sluice.config.syntax.file_models.operator_models import UNMATCHED, JoinShape, OperatorShape, SplitShape, inputs_of
from sluice.config.syntax.file_models.pipeline_models import FileShape
from sluice.config.syntax.file_models.stream_models import MemberShape, StreamShape
from sluice.config.syntax.file_models.value_models import NAME
from sluice.config.syntax.other_systems import type_of_another_system
from sluice.config.syntax.parse_model import ParsedModel
from sluice.config.syntax.problem_report import Report
from sluice.model.errors import Path, nearest, one_of, spell
from sluice.model.expressions import Attribute, Call, Expression
from sluice.model.members import text_of
from sluice.model.spec import EventTime
from sluice.model.topology import RETURNING, closing, cycle, upstream_first
from sluice.model.types import Schema, Type, parse_type, similar_type, takes
from sluice.model.unparse import expression as written
from sluice.model.unparse import nulls

#: what stands between several streams in one text
SEVERAL = re.compile(r"\s*(?:,|\+|&|\bUNION(?:\s+ALL)?\b|\band\b)\s*", re.IGNORECASE)
ATTRIBUTE = re.compile(r"[^\W\d]\w*")
#: maximum length of a name in characters; a broker accepts ids of clients, groups and transactions of up to 32,767
MAX_NAME = 200
#: the keys of the stream of the dead letters that have an effect, or an error of their own, or say what is so anyway
OF_DEAD_LETTERS = {"topic", "partitions", "attributes", "exchange", "table", "watermarks", "marks"}
DEAD_LETTER_FORM = "a dead letter is the rejected record as it was read, with headers that say why"
TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


@dataclass(slots=True)
class Streams:
    shaped: ParsedModel
    report: Report
    codings: StreamFormats
    #: the streams whose attributes are known, from the file or from the operator that writes the stream
    schemas: dict[str, Schema] = field(default_factory=dict)
    #: the types of attributes that the file gives; None for one that is only written under another name
    stated: dict[str, dict[str, Type | None]] = field(default_factory=dict)
    #: the event time of streams that have one
    event_times: dict[str, EventTime] = field(default_factory=dict)
    #: stream -> index in `operators` of the operator that writes it
    writers: dict[str, int] = field(default_factory=dict)
    #: the exchanges whose tuples return to an operator before the one that writes them (model/topology.py)
    feedback: list[str] = field(default_factory=list)

    @property
    def file(self) -> FileShape:
        return self.shaped.file

    @property
    def operators(self) -> list[OperatorShape]:
        return self.file.operators

    def path(self, operator: int, *inner: str | int) -> Path:
        return ("operators", self.shaped.positions[operator], *inner)

    def check(self) -> None:
        self.check_names()
        self.find_writers()
        self.declare_streams()
        self.derive_from_formats()
        self.check_inputs()
        self.find_event_times()
        self.check_dead_letters()
        self.check_exchanges()
        self.check_use()

    # ---- names and streams ----

    def check_names(self) -> None:
        self.check_name(("pipeline",), self.file.pipeline)
        for stream in self.file.streams:
            self.check_name(("streams", stream), stream)
        seen: dict[str, int] = {}
        for index, operator in enumerate(self.operators):
            self.check_name(self.path(index, "name"), operator.name)
            if operator.name in seen:
                self.report.problem(self.path(index, "name"), "a name that no other operator has", operator.name)
            seen[operator.name] = index

    def check_name(self, path: Path, name: str) -> None:
        if not re.fullmatch(NAME, name):
            self.report.problem(path, "a name of letters, digits, points, hyphens and underscores", name)
        elif len(name) > MAX_NAME:
            self.report.problem(path, f"a name of at most {MAX_NAME} characters", name)

    def declare_streams(self) -> None:
        topics: dict[str, str] = {}
        for name, shape in self.file.streams.items():
            if shape.topic is not None:
                self.check_topic(name, shape.topic, topics)
            if shape.attributes is not None:
                self.declare_schema(name, shape.attributes)

    def check_topic(self, stream: str, topic: str, topics: dict[str, str]) -> None:
        path = ("streams", stream, "topic")
        if not TOPIC.fullmatch(topic) or topic in (".", ".."):
            self.report.problem(
                path, "a Kafka topic: up to 249 letters, digits, points, hyphens and underscores", topic
            )
        elif topic in topics:
            self.report.problem(path, f"a topic of its own ({topics[topic]} has this one)", topic)
        topics.setdefault(topic, stream)

    def declare_schema(self, stream: str, attributes: Mapping[str, str | MemberShape]) -> None:
        before = len(self.report.problems)
        path = ("streams", stream, "schema")
        if not attributes:
            self.report.problem(path, "at least one attribute")
        types: dict[str, Type | None] = {}
        for name, declared in attributes.items():
            self.check_attribute((*path, name), name, written=stream in self.writers)
            text = declared.type if isinstance(declared, MemberShape) else declared
            types[name] = None
            if text is not None:
                types[name] = self.type_of((*path, name, "type") if text is not declared else (*path, name), text)
        if len(self.report.problems) == before and stream not in self.shaped.unclear:
            self.stated[stream] = types
            if None not in types.values():
                self.schemas[stream] = tuple((name, kind) for name, kind in types.items() if kind is not None)

    def type_of(self, path: Path, text: str) -> Type | None:
        try:
            return parse_type(text)
        except ValueError as error:
            more = type_of_another_system(text)
            self.report.problem(path, f"{error}{more and f'; {more}'}", text, similar_type(text))
            return None

    def check_attribute(self, path: Path, name: str, *, written: bool = False) -> None:
        """Checks the name of an attribute. That of one in an object of an output is its path (PA8)."""
        if written and not ATTRIBUTE.fullmatch(name) and is_path(name):
            return
        if not ATTRIBUTE.fullmatch(name):
            expected, quoted = "a name of letters, digits and underscores", text_of((name,))
            if path[2:3] == ("schema",) and not written:
                expected += f"; {{from: '{quoted}', type: string}} reads a member of this name"
            self.report.problem(path, expected, name, quoted if written else None)
        elif name in RESERVED:
            self.report.problem(path, f"a name that is not a word of expressions ({', '.join(RESERVED)})", name)

    # ---- readers and writers ----

    def find_writers(self) -> None:
        for index, operator in enumerate(self.operators):
            for inner, stream in written_by(operator):
                path = self.path(index, *inner)
                if stream not in self.file.streams:
                    self.unknown_stream(path, stream)
                elif stream in self.writers:
                    other = self.operators[self.writers[stream]].name
                    self.report.problem(path, f"a stream that no other operator writes ({other} does)", stream)
                self.writers.setdefault(stream, index)

    def derive_from_formats(self) -> None:
        """Takes the attributes of a stream without `schema` from its format, if no operator writes the stream."""
        for name, shape in self.file.streams.items():
            key = self.codings.schema_key(shape)
            if shape.attributes is None and key is not None and name not in self.writers:
                schema = self.codings.derived(name, shape)
                if schema is not None and name not in self.shaped.unclear:
                    for attribute, _ in schema:
                        self.check_attribute(("streams", name, key), attribute)
                    self.schemas[name] = schema

    def unknown_stream(self, path: Path, stream: str) -> None:
        defined = self.file.streams
        several = SEVERAL.split(stream)
        listed = f"[{', '.join(several)}]" if len(several) > 1 and set(several) <= set(defined) else None
        expected = f"a stream that is defined under streams ({', '.join(defined)})"
        self.report.problem(path, expected, stream, listed or nearest(stream, defined))

    def check_inputs(self) -> None:
        outputs_known = self.outputs_known()
        for index, operator in enumerate(self.operators):
            for inner, name in inputs_of(operator):
                if name not in self.file.streams:
                    self.unknown_stream(self.path(index, *inner), name)
                elif name not in self.writers and outputs_known:
                    self.check_source(name, operator.name)

    def read(self) -> set[str]:
        return {stream for operator in self.operators for _, stream in inputs_of(operator)}

    def outputs_known(self) -> bool:
        """Whether the output streams of all operators are known, so that a stream without a writer is an input."""
        return (
            not self.shaped.left_out
            and all(o.output for o in self.operators)
            and self.writers.keys() <= self.file.streams.keys()
        )

    def check_source(self, name: str, reader: str) -> None:
        shape = self.file.streams[name]
        why = f"as {reader} reads {name} and no operator writes it"
        if shape.topic is None:
            self.once(("streams", name, "topic"), f"a topic, {why}")
        if shape.attributes is None and self.codings.schema_key(shape) is None:
            self.once(("streams", name, "schema"), f"a schema, {why}")

    def once(self, path: Path, expected: str) -> None:
        """Reports a problem of a stream once, though the check of each operator that reads the stream finds it."""
        if not any(problem.path == spell(path) for problem in self.report.problems):
            self.report.problem(path, expected, None)

    def check_dead_letters(self) -> None:
        name = self.file.dead_letters
        if name is None:
            return
        if name not in self.file.streams:
            self.unknown_stream(("dead_letters",), name)
            return
        shape, used = self.file.streams[name], name in self.writers or name in self.read()
        if shape.topic is None:
            self.report.problem(("streams", name, "topic"), "a topic for the dead letters", None)
        if shape.attributes is not None:
            self.report.problem(("streams", name, "schema"), "no schema: a dead letter holds the original bytes")
        for key in StreamShape.model_fields:
            if key in shape.model_fields_set and key not in OF_DEAD_LETTERS and not used:
                self.report.caution(("streams", name, key), f"{key} has no effect: {DEAD_LETTER_FORM}")
        if used:
            self.report.problem(("dead_letters",), "a stream that no operator reads or writes")

    def check_exchanges(self) -> None:
        for name, shape in self.file.streams.items():
            if shape.exchange:
                self.check_exchange(name, shape)

    def check_exchange(self, name: str, shape: StreamShape) -> None:
        path = ("streams", name)
        if shape.topic is None:
            self.report.problem((*path, "topic"), "a topic, as the stream is an exchange", None)
        if shape.marks not in (None, "record"):
            self.report.problem((*path, "marks"), "record, as the stream is an exchange, whose readers need the marks")
        if self.outputs_known() and not (name in self.writers and name in self.read()):
            self.report.problem(
                (*path, "exchange"), "an exchange between two operators: one writes it, another reads it"
            )

    def check_use(self) -> None:
        used = self.read() | self.writers.keys() | {self.file.dead_letters}
        for name in self.file.streams if self.outputs_known() else ():
            if name not in used:
                self.report.caution(("streams", name), "no operator reads or writes this stream")

    def order(self) -> list[int]:
        """The indices of the operators, upstream first. A cycle that no exchange closes is a problem; operators in or
        after it come last.
        """
        reads = [[stream for _, stream in inputs_of(operator)] for operator in self.operators]
        exchanges = [name for name, shape in self.file.streams.items() if shape.exchange]
        self.feedback = closing(reads, self.writers, exchanges)
        for name in self.feedback:
            self.check_feedback(name)
        writers = {name: writer for name, writer in self.writers.items() if name not in self.feedback}
        order = upstream_first(reads, writers)
        stuck = [index for index in range(len(reads)) if index not in order]
        if stuck:
            around = cycle(reads, writers, stuck)
            names = " -> ".join(self.operators[index].name for index in [*around, around[0]])
            before = {stream for _, stream in written_by(self.operators[around[-1]])}
            inner, stream = next(read for read in inputs_of(self.operators[around[0]]) if read[1] in before)
            path = self.path(around[0], *inner)
            remedy = f"with `exchange: true` the tuples of {stream} would return in a later batch (rule M11)"
            self.report.problem(path, f"no cycle of operators ({names}); {remedy}")
        return order + stuck

    def check_feedback(self, name: str) -> None:
        """Checks a stream that closes a cycle. It needs a schema, because its readers are built before its writer (M12,
        M13).
        """
        shape, path = self.file.streams[name], ("streams", name)
        writer = self.operators[self.writers[name]].name
        why = f"as the tuples of {name} return to an operator before {writer}"
        if shape.attributes is None:
            self.report.problem((*path, "schema"), f"a schema, {why} (rule M12)", None)
        for key in ("event_time", "watermarks", "marks"):
            if key in shape.model_fields_set and getattr(shape, key) not in (None, False):
                self.report.problem((*path, key), f"no {key}, {why}: only tuples return (rule M13)", key)
        if f"{name}{RETURNING}" in self.file.streams:
            expected = f"another name: {name}{RETURNING} is the input in which the tuples of {name} return"
            self.report.problem(("streams", f"{name}{RETURNING}"), expected, f"{name}{RETURNING}")

    # ---- event time ----

    def find_event_times(self) -> None:
        for name in self.file.streams:
            if name not in self.writers and name in self.schemas:
                self.state_event_time(name)

    def state_event_time(self, stream: str) -> bool:
        """Reads the event time that the file gives for a stream. Returns whether it gives one, even a wrong one."""
        shape = self.file.streams.get(stream)
        if shape is None or shape.event_time is None:
            return False
        path = ("streams", stream, "event_time")
        declared = event_time(shape.event_time, self.schemas[stream], stream, path, self.report)
        if declared is not None:
            self.event_times[stream] = declared
        return True

    def check_watermarks(self) -> None:
        """Checks that a stream with `watermarks` is written by an operator and has an event time."""
        for name, shape in self.file.streams.items():
            path = ("streams", name, "watermarks")
            if not shape.watermarks or self.shaped.partly(("streams", name)):
                continue
            if name not in self.writers and self.outputs_known():
                self.report.problem(path, "false, as no operator writes this stream")
            elif name in self.schemas and name not in self.event_times and shape.event_time is None:
                self.report.problem(path, "false, as this stream has no event time")

    # ---- what operators write ----

    def derive(self, stream: str, writer: str, sources: Sequence[str], outputs: Mapping[str, Expression]) -> None:
        """Sets the attributes of a stream to the outputs of its writer. A schema in the file must be equal to them,
        but may have a `?` where they have none (NU33).

        `sources` are the streams that the writer reads, from which the stream inherits its event time.
        """
        stated = self.file.streams[stream].attributes if stream in self.file.streams else None
        declared = self.stated.get(stream, {}) if stated is not None else {}
        if declared:
            self.compare(("streams", stream, "schema"), writer, declared, outputs)
        derived = tuple((name, _widest(e.type, declared.get(name))) for name, e in outputs.items())
        self.schemas[stream] = derived
        if stream not in self.feedback and not self.state_event_time(stream):
            upstream = [(self.event_times.get(source), self.schemas[source]) for source in sources]
            event_time = inherited(upstream, derived)
            if event_time is not None:
                self.event_times[stream] = event_time

    def compare(
        self, path: Path, writer: str, stated: Mapping[str, Type | None], derived: Mapping[str, Expression]
    ) -> None:
        for name, expression in derived.items():
            kind = expression.type
            if name not in stated:
                self.report.problem((*path, name), f"{kind}, which {writer} writes", None)
            elif stated[name] == kind.present != kind:
                expected = (
                    f"{kind}, as {writer} writes it: null comes from {nulls(expression)}; {without_null(expression)}"
                )
                self.report.problem((*path, name), expected, f"{stated[name]}")
            elif (declared := stated[name]) is not None and not takes(declared, kind):
                self.report.problem((*path, name), f"{kind}, as {writer} writes it")
        for name in stated:
            if name not in derived:
                self.report.problem(
                    (*path, name), f"only what {writer} writes ({', '.join(derived)})", name, nearest(name, derived)
                )


def _widest(written: Type, stated: Type | None) -> Type:
    return stated if stated is not None and takes(stated, written) else written


def without_null(expression: Expression) -> str:
    """What makes a value of an optional expression that is not null, for messages (NU32)."""
    present = expression.type.present
    calls = (Call("!", (expression,), present), Call("?:", (expression, Attribute("y", present)), present))
    return f"{one_of(map(written, calls))} is {present.described}"


def written_by(operator: OperatorShape) -> Iterator[tuple[Path, str]]:
    """The streams that an operator writes, each with its path within the operator."""
    if isinstance(operator, SplitShape):
        yield from operator.written
        return
    for stream in operator.output:
        yield ("output", stream) if isinstance(operator.output, dict) else ("output",), stream
    if isinstance(operator, JoinShape):
        for key in UNMATCHED:
            if stream := getattr(operator, key):
                yield (key,), stream
