"""Checks the envelopes of streams of change events (rules EN1 to EN9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sluice.config.checks.records.member_checks import keys_of
from sluice.config.syntax.file_models.stream_models import KeyShape, StreamShape
from sluice.config.syntax.problem_report import Report
from sluice.model.envelopes.change_events import DEBEZIUM, OP, SOURCE, TIMES, Envelope, row_schema, types_of
from sluice.model.errors import Path, nearest
from sluice.model.spec import Coding, Stream
from sluice.model.types import Type
from sluice.wire.formats.avro_format import SCHEMA, AvroOptions
from sluice.wire.formats.format_contract import Finder

#: the formats in which change events of Debezium are read
OF_DEBEZIUM = ("json", "avro", "avro-confluent")
#: the keys of a stream that need an envelope
NEED_ENVELOPE = ("deletes", "change")
MEMBERS = (OP, *TIMES, *(SOURCE + word for word in TIMES))


def envelope(shape: StreamShape) -> Envelope | None:
    if shape.envelope is None:
        return None
    return Envelope(shape.envelope, shape.deletes == "include", tuple(shape.change.items()))


def key_shape(key: KeyShape, shape: StreamShape) -> KeyShape:
    """The key of the stream. Debezium's keys are objects, so the format of its key is by default that of the value."""
    if shape.envelope != DEBEZIUM or "format" in key.model_fields_set:
        return key
    in_format: KeyShape = key.model_copy(update={"format": shape.format})
    return in_format


def check_envelope(
    report: Report, path: Path, shape: StreamShape, schema: Mapping[str, Type], *, written: bool
) -> None:  # fmt: skip
    if shape.envelope is None:
        for key in NEED_ENVELOPE:
            if getattr(shape, key):
                report.problem((*path, key), f"no {key}, as the stream has no envelope (debezium or upsert)", key)
        return
    _check_stream(report, path, shape, written=written)
    for attribute, member in shape.change.items():
        _check_member(report, (*path, "change", attribute), shape, member, schema.get(attribute))


def _check_stream(report: Report, path: Path, shape: StreamShape, *, written: bool) -> None:
    if written or shape.topic is None:
        why = "an operator writes the stream" if written else "the stream has no topic"
        report.problem((*path, "envelope"), f"no envelope, as {why}: change events are read from Kafka (rule EN1)")
    if shape.envelope == DEBEZIUM and shape.format not in OF_DEBEZIUM:
        expected = f"a format in which change events are read ({', '.join(OF_DEBEZIUM)}), as the envelope is debezium"
        report.problem((*path, "format"), f"{expected} (rule EN1)", shape.format)
    if shape.envelope != DEBEZIUM and not keys_of(shape):
        expected = "a key, as the envelope is upsert: a record without a value deletes the row of its key (rule EN7)"
        report.problem((*path, "key"), expected, None)
    if shape.table and shape.deletes is not None:
        expected = "no deletes, as the stream is a table: a deletion removes the row (rule EN4)"
        report.problem((*path, "deletes"), expected, shape.deletes)


def _check_member(report: Report, path: Path, shape: StreamShape, member: str, type_: Type | None) -> None:
    members = MEMBERS if shape.envelope == DEBEZIUM else (OP,)
    of_source = shape.envelope == DEBEZIUM and member.startswith(SOURCE) and member.count(".") == 1
    if member not in members and not of_source:
        names = ", ".join(members) + (", or another member of source" if shape.envelope == DEBEZIUM else "")
        report.problem(path, f"a member of the change event: {names} (rule EN5)", member, nearest(member, members))
    elif type_ is not None and type_ not in types_of(member):
        types = " or ".join(str(allowed) for allowed in types_of(member))
        report.problem(path, f"an attribute of the type {types} for {member}, not {type_} (rule EN5)")


def row_coding(stream: Stream, finder: Finder) -> Coding:
    """The coding of the rows in the values of a stream. Reports an Avro schema that is not one of change events."""
    options = stream.value.options
    if stream.envelope is None or stream.envelope.word != DEBEZIUM or not isinstance(options, AvroOptions):
        return stream.value
    rows = None if options.avro_schema is None else row_schema(options.avro_schema)
    if rows is None and options.avro_schema is not None:
        expected = "the schema of a change event, with op and the records before and after, as the envelope is debezium"
        finder.problem(SCHEMA, f"{expected} (rule EN1)")
    return replace(stream.value, options=AvroOptions(rows))
