"""Checks how the tuples of streams are encoded: formats, keys, headers, timestamps and defaults.

Requirements of a single format are checked by its module in wire/formats/.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import Any

from sluice.config.checks.constants import read_value
from sluice.config.checks.records.envelope_checks import check_envelope, envelope, key_shape, row_coding
from sluice.config.checks.records.member_checks import MemberChecks, Members, keys_of
from sluice.config.syntax.file_models.stream_models import KeyShape, StreamShape
from sluice.config.syntax.problem_report import Report
from sluice.model.errors import AS_WRITTEN, Path, nearest, spell
from sluice.model.members import STRICT
from sluice.model.spec import Coding, Key, Stream
from sluice.model.types import MapType, Schema, TimeForm, Type
from sluice.wire.formats.format_contract import Part
from sluice.wire.formats.format_table import FORMATS
from sluice.wire.formats.pair_lists import PairsError, as_lists

#: prefix of the headers that the service itself writes
RESERVED_PREFIX = "sluice-"
#: key of a format in the pipeline file -> the noun for its value
NOUNS = {name: key.noun for form in FORMATS.values() for name, key in form.keys.items()}


@dataclass(frozen=True, slots=True)
class FormatReport:
    """Reports the problems of a format at the stream, or its block `key:`, with this format (contract: `Finder`)."""

    report: Report
    path: Path

    @property
    def folder(self) -> FilePath:
        return FilePath(self.report.source.file).parent

    def problem(self, key: str, expected: str, got: str | None = AS_WRITTEN) -> None:
        self.report.problem((*self.path, key), expected, got)


@dataclass(slots=True)
class StreamFormats:
    """Checks the encodings of the streams of a file, those of each stream after its attributes are known."""

    report: Report
    has_registry: bool
    #: codings by the path of their stream or key, so that the problems of each are reported once
    codings: dict[Path, Coding] = field(default_factory=dict)

    def schema_key(self, shape: StreamShape) -> str | None:
        """The key of this stream from whose value its attributes follow; None if it has no such key."""
        return next((key for key in FORMATS[shape.format].schema_keys if getattr(shape, key) is not None), None)

    def derived(self, name: str, shape: StreamShape) -> Schema | None:
        """The attributes of a stream without `schema`, by the value of its `schema_key`. None if unknown."""
        path: Path = ("streams", name)
        coding = self.coding(path, shape)
        if shape.key or shape.headers or shape.record_timestamp:
            where = "keys or headers" if shape.key or shape.headers else "the timestamp of the record"
            self.report.problem((*path, "schema"), f"a schema, as attributes are in {where}", None)
            return None
        return FORMATS[coding.format].attributes(coding.options, FormatReport(self.report, path))

    # ---- streams ----

    def stream(self, name: str, shape: StreamShape, schema: Schema | None, *, written: bool) -> Stream:
        """The stream. `schema` is None if its attributes are unknown; `written` says whether an operator writes it."""
        path: Path = ("streams", name)
        members = MemberChecks(self.report).of(name, shape, schema or (), written=written)
        stream = Stream(
            name, schema or (), shape.topic,
            self.coding(path, shape),
            self.key(path, shape, members),
            (*shape.headers.items(), *members.headers.items()),
            shape.record_timestamp,
            tuple(self.defaults(name, shape, dict(schema or ()))),
            members=tuple(members.members.items()),
            watermarks=shape.watermarks, partitions=shape.partitions, exchange=shape.exchange,
            table=shape.table, envelope=envelope(shape),
        )  # fmt: skip
        if written and stream.record_timestamp is not None and (shape.exchange or shape.topic is None):
            expected = (
                "the stream is an exchange: the clock of its readers follows the times at which its records were made"
                if shape.exchange
                else "the stream has no topic"
            )
            self.report.problem((*path, "record_timestamp"), f"no record_timestamp, as {expected}")
            stream = replace(stream, record_timestamp=None)
        check_envelope(self.report, path, shape, dict(schema or ()), written=written)
        if schema is not None and shape.topic is not None:
            self.check(stream, written=written)
        return stream

    def key(self, path: Path, shape: StreamShape, members: Members) -> Key | None:
        """The key: the attributes that the file names in `key`, and those whose path begins with `key` (PA3).

        Without a format a key is text. A path that leads into it makes it JSON if the values are JSON.
        """
        attributes = keys_of(shape)
        inside = next((name for name in members.keys if members.members[name].path), None)
        if shape.key is None and inside is None:
            return Key(attributes, Coding("text")) if attributes else None
        if not attributes:
            expected = "the attributes of the key, as none has `from: key`"
            self.report.problem((*path, "key", "attributes"), expected, None)
        if shape.key is None:
            if shape.format != "json":
                expected = f"the format of the key, such as {{format: avro}}, as the path of {inside} leads into it"
                self.report.problem((*path, "key"), expected, None)
            return Key(attributes, Coding("json"))
        if inside is not None and not FORMATS[shape.key.format].has_paths:
            expected = f"a format with members, such as json, as the path of {inside} leads into the key"
            self.report.problem((*path, "key", "format"), expected, shape.key.format)
        return Key(attributes, self.coding((*path, "key"), key_shape(shape.key, shape)))

    def coding(self, path: Path, shape: StreamShape | KeyShape) -> Coding:
        if path not in self.codings:
            self.codings[path] = self.read_coding(path, shape)
        return self.codings[path]

    def read_coding(self, path: Path, shape: StreamShape | KeyShape) -> Coding:
        word, finder = shape.format, FormatReport(self.report, path)
        form = FORMATS[word]
        for key, noun in NOUNS.items():
            if key not in form.keys and key in shape.model_fields_set and getattr(shape, key) is not None:
                finder.problem(key, f"no {noun}, as the format is {word}")
        if form.needs_registry and not self.has_registry:
            expected = f"the URL of a schema registry, as a format is {word}"
            self.report.problem(("registry", "url"), expected, None)
        return Coding(word, form.options({key: getattr(shape, key, None) for key in form.keys}, finder))

    def defaults(self, name: str, shape: StreamShape, schema: dict[str, Type]) -> Iterable[tuple[str, Any]]:
        for attribute, value in shape.defaults.items():
            path = ("streams", name, "defaults", attribute)
            if not schema:
                continue
            if attribute not in schema:
                self.unknown(path, attribute, schema)
                continue
            try:
                yield attribute, read_value(value, schema[attribute])
            except ValueError:
                self.report.problem(path, f"a value of the type {schema[attribute]}")

    def unknown(self, path: Path, attribute: str, attributes: Iterable[str]) -> None:
        attributes = list(attributes)
        self.report.problem(
            path, f"an attribute of the stream ({', '.join(attributes)})", attribute, nearest(attribute, attributes)
        )

    # ---- whether the parts fit together ----

    def check(self, stream: Stream, *, written: bool) -> None:
        path: Path = ("streams", stream.name)
        types = dict(stream.schema)
        before = len(self.report.problems)
        self.check_parts_of_record(path, stream, types, written=written)
        self.check_spellings(path, stream)
        if written and stream.defaults:
            self.report.problem((*path, "defaults"), "no defaults, as an operator writes this stream")
        if len(self.report.problems) > before:
            return
        defaults = dict(stream.defaults)
        elsewhere = frozenset(types) - frozenset(name for name, _ in stream.value_schema)
        members = dict(stream.members)
        coding = row_coding(stream, FormatReport(self.report, path))
        value = Part(coding, stream.value_schema, defaults, written=written, members=members, elsewhere=elsewhere)
        self.check_part(path, value)
        if stream.key:
            key = Part(stream.key.coding, stream.key_schema, defaults, written=written, members=members)
            self.check_part((*path, "key"), key)

    def check_parts_of_record(self, path: Path, stream: Stream, types: dict[str, Type], *, written: bool) -> None:
        """Checks that each attribute in the key, in headers or in the timestamp of the record exists, and that it is in
        only one of these parts.
        """
        taken: set[str] = set()
        for position, attribute in enumerate(stream.key.attributes if stream.key else ()):
            self.check_attribute_in_part((*path, "key", "attributes", position), attribute, types, taken)
        for attribute, header in stream.headers:
            place = self.place_of_header(path, attribute)
            self.check_attribute_in_part(place, attribute, types, taken)
            if not header or header.startswith(RESERVED_PREFIX):
                expected = f"the name of a header that does not begin with {RESERVED_PREFIX}"
                self.report.problem(place, expected, header)
        if stream.record_timestamp is not None:
            self.check_attribute_in_part((*path, "record_timestamp"), stream.record_timestamp, types, taken)
            self.check_timestamp(path, stream.record_timestamp, stream, written=written)
        for attribute, _ in stream.envelope.members if stream.envelope else ():
            self.check_attribute_in_part((*path, "change", attribute), attribute, types, taken)

    def place_of_header(self, path: Path, attribute: str) -> Path:
        """Where the file names the header of the attribute: in `headers`, or in its `from`."""
        place: Path = (*path, "headers", attribute)
        return place if place in self.report.source.texts else (*path, "schema", attribute, "from")

    def check_spellings(self, path: Path, stream: Stream) -> None:
        """Checks that the formats read the spellings of the attributes (PA10, PA11)."""
        words = dict.fromkeys(dict(stream.headers), "text")
        if stream.key:
            words |= dict.fromkeys(stream.key.attributes, stream.key.coding.format)
        types = dict(stream.schema)
        for attribute, member in stream.members:
            word = words.get(attribute, stream.value.format)
            if member.spelling == STRICT or FORMATS[word].coerces:
                continue
            inner = [spelling for _, part in member.spelling.inside for spelling in part.every()]
            listed = FORMATS[word].lists_pairs and isinstance(types[attribute].present, MapType)
            inner_spelling = replace(member.spelling, pairs=None) if listed else member.spelling
            for key in ("coerce", "unit", "pattern", "pairs"):
                if any(getattr(spelling, key) for spelling in (inner_spelling, *inner)):
                    place = self.place_of_spelling(path, attribute, key)
                    self.once(place, f"no {key}, as the format is {word}, whose values have types of their own")

    def place_of_spelling(self, path: Path, attribute: str, key: str) -> Path:
        """Where the file has this key for the attribute, for a value inside of it, or for the stream."""
        attribute_path: Path = (*path, "schema", attribute)
        inside = (
            place
            for place in self.report.source.texts
            if place[: len(attribute_path)] == attribute_path and key in place[len(attribute_path) :]
        )
        place = next(inside, (*path, key))
        return place[: place.index(key, len(path)) + 1]

    def once(self, path: Path, expected: str) -> None:
        if not any(problem.path == spell(path) for problem in self.report.problems):
            self.report.problem(path, expected)

    def check_timestamp(self, path: Path, attribute: str, stream: Stream, *, written: bool) -> None:
        """Each record has a timestamp, so the attribute needs no default."""
        type_ = dict(stream.schema).get(attribute)
        allowed = (TimeForm.INSTANT, TimeForm.COUNT) if written else (TimeForm.INSTANT,)
        if type_ is not None and type_.time not in allowed:
            expected = "a timestamp or an int64 with milliseconds since 1970" if written else "a timestamp"
            others = [name for name, kind in stream.schema if kind.time in allowed]
            meant = others[0] if len(others) == 1 else None
            self.report.problem(
                (*path, "record_timestamp"), f"{expected}, not {attribute}, a {type_}", attribute, meant
            )
        if attribute in dict(stream.defaults):
            expected = f"no default for {attribute}, as it is the timestamp of the record"
            self.report.problem((*path, "defaults", attribute), expected)

    def check_attribute_in_part(self, path: Path, attribute: str, types: dict[str, Type], taken: set[str]) -> None:
        if attribute not in types:
            self.unknown(path, attribute, types)
        elif attribute in taken:
            self.report.problem(path, "an attribute that is in no other place", attribute)
        taken.add(attribute)

    def check_part(self, path: Path, part: Part) -> None:
        form = FORMATS[part.coding.format]
        try:
            read = as_lists(part) if form.lists_pairs else part
        except PairsError as error:
            self.report.problem((*path, "schema", error.attribute, "pairs"), str(error))
        else:
            form.check(read, FormatReport(self.report, path))
