"""Checks how the tuples of streams are encoded: formats, keys, headers, defaults and Avro schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from sluice.config.checks.constants import read_value
from sluice.config.syntax.file_models import KeyShape, StreamShape
from sluice.config.syntax.problem_report import Report
from sluice.files import read_file
from sluice.model.avro_schema import Avro, AvroError, attributes_of, check_reading, check_writing, missing, parse
from sluice.model.errors import Path, nearest
from sluice.model.spec import Coding, Key, Stream
from sluice.model.types import Kind, Schema, Type

AVRO = ("avro", "avro-confluent")
#: formats that hold exactly one attribute
SINGLE = ("text", "raw")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: prefix of the headers that the service itself writes
RESERVED_PREFIX = "sluice-"


@dataclass(slots=True)
class StreamFormats:
    """Checks the encodings of the streams of a file, those of each stream after its attributes are known."""

    report: Report
    has_registry: bool
    #: parsed Avro schemas by their path in the file; None if a schema is wrong
    schemas: dict[Path, Avro | None] = field(default_factory=dict)

    # ---- Avro schemas ----

    def text(self, path: Path, given: str | dict[str, Any] | None) -> str | None:
        """The JSON text of an Avro schema, which is given as itself or as the path of a file. None if it is wrong."""
        if given is None or isinstance(given, dict):
            return None if given is None else json.dumps(given, separators=(",", ":"))
        file = FilePath(self.report.source.file).parent / given
        try:
            schema = json.loads(read_file(file))
            json.dumps(schema, ensure_ascii=False).encode()  # fails for a lone surrogate, which has no UTF-8 encoding
            return json.dumps(schema, separators=(",", ":"))
        except RecursionError:
            self.report.problem(path, "an Avro schema of less depth", str(file))
        except OSError as error:
            self.report.problem(path, f"a file that can be read ({error.strerror})", str(file))
        except ValueError as error:
            self.report.problem(path, f"a file with an Avro schema in JSON ({error})", str(file))
        return None

    def schema(self, path: Path, text: str | None) -> Avro | None:
        if text is not None and path not in self.schemas:
            self.schemas[path] = None
            try:
                self.schemas[path] = parse(text)
            except AvroError as error:
                self.report.problem(path, str(error))
        return self.schemas.get(path)

    def derived(self, name: str, shape: StreamShape) -> Schema | None:
        """The attributes of a stream without `schema`, taken from its Avro schema. None if they are unknown."""
        path = ("streams", name, "avro_schema")
        avro = self.schema(path, self.text(path, shape.avro_schema))
        if avro is None:
            return None
        if shape.key or shape.headers:
            self.report.problem(("streams", name, "schema"), "a schema, as attributes are in keys or headers", None)
            return None
        try:
            return attributes_of(avro)
        except AvroError as error:
            self.report.problem(path, str(error))
            return None

    # ---- streams ----

    def stream(self, name: str, shape: StreamShape, schema: Schema | None, *, written: bool) -> Stream:
        """The stream. `schema` is None if its attributes are unknown; `written` says whether an operator writes it."""
        path: Path = ("streams", name)
        stream = Stream(
            name, schema or (), shape.topic,
            self.coding(path, shape),
            Key(tuple(shape.key.attributes), self.coding((*path, "key"), shape.key)) if shape.key else None,
            tuple(shape.headers.items()),
            tuple(self.defaults(name, shape, dict(schema or ()))),
            shape.marks, shape.watermarks, shape.partitions, exchange=shape.exchange,
        )  # fmt: skip
        if schema is not None and shape.topic is not None:
            self.check(stream, written=written)
        return stream

    def coding(self, path: Path, shape: StreamShape | KeyShape) -> Coding:
        theirs = (*path, "avro_schema"), (*path, "avro_writer_schema")
        own, writer = self.text(theirs[0], shape.avro_schema), self.text(theirs[1], shape.avro_writer_schema)
        self.schema(theirs[0], own)
        self.schema(theirs[1], writer)
        if shape.format not in AVRO and shape.avro_schema is not None:
            self.report.problem(theirs[0], f"no Avro schema, as the format is {shape.format}")
        if shape.format != "avro" and shape.avro_writer_schema is not None:
            self.report.problem(theirs[1], f"no writer's schema, as the format is {shape.format}")
        if shape.format == "avro" and shape.avro_schema is None:
            self.report.problem(theirs[0], "an Avro schema, as the format is avro", None)
        if shape.format == "avro-confluent" and not self.has_registry:
            self.report.problem(
                ("registry", "url"), "the URL of a schema registry, as a format is avro-confluent", None
            )
        delimiter = shape.delimiter if isinstance(shape, StreamShape) else ","
        if delimiter in '"\r\n':
            self.report.problem((*path, "delimiter"), "a character that is no quote and no line end")
        return Coding(shape.format, own, writer, delimiter)

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

    def unknown(self, path: Path, attribute: str, known: Iterable[str]) -> None:
        known = list(known)
        self.report.problem(
            path, f"an attribute of the stream ({', '.join(known)})", attribute, nearest(attribute, known)
        )

    # ---- whether the parts fit together ----

    def check(self, stream: Stream, *, written: bool) -> None:
        path: Path = ("streams", stream.name)
        known = dict(stream.schema)
        before = len(self.report.problems)
        self.check_places(path, stream, known)
        if written and stream.defaults:
            self.report.problem((*path, "defaults"), "no defaults, as an operator writes this stream")
        if len(self.report.problems) > before:
            return
        defaults = dict(stream.defaults)
        self.check_part(path, stream.value, stream.value_schema, set(defaults), written=written)
        if stream.key:
            self.check_part((*path, "key"), stream.key.coding, stream.key_schema, set(defaults), written=written)

    def check_places(self, path: Path, stream: Stream, known: dict[str, Type]) -> None:
        """Checks that each attribute in the key or in headers exists, and that it is in only one of these places."""
        taken: set[str] = set()
        for position, attribute in enumerate(stream.key.attributes if stream.key else ()):
            self.check_place((*path, "key", "attributes", position), attribute, known, taken)
        for attribute, header in stream.headers:
            self.check_place((*path, "headers", attribute), attribute, known, taken)
            if not header or header.startswith(RESERVED_PREFIX):
                what = f"the name of a header that does not begin with {RESERVED_PREFIX}"
                self.report.problem((*path, "headers", attribute), what, header)

    def check_place(self, path: Path, attribute: str, known: dict[str, Type], taken: set[str]) -> None:
        if attribute not in known:
            self.unknown(path, attribute, known)
        elif attribute in taken:
            self.report.problem(path, "an attribute that is in no other place", attribute)
        taken.add(attribute)

    def check_part(self, path: Path, coding: Coding, schema: Schema, defaults: set[str], *, written: bool) -> None:
        names = ", ".join(name for name, _ in schema) or "none"
        if coding.format in SINGLE and len(schema) != 1:
            what = f"a format of several attributes ({coding.format} has one) for {names}"
            self.report.problem((*path, "format"), what, coding.format)
        elif coding.format == "raw" and (written or schema[0][1].kind is not Kind.STRING):
            what = "another format, as raw is for reading an attribute of the type string"
            self.report.problem((*path, "format"), what, coding.format)
        elif coding.format == "csv" and not schema:
            self.report.problem((*path, "format"), "json or avro, as there are no attributes", coding.format)
        elif coding.format in AVRO:
            self.check_avro(path, coding, schema, defaults, written=written)

    def check_avro(self, path: Path, coding: Coding, schema: Schema, defaults: set[str], *, written: bool) -> None:
        place = (*path, "avro_schema")
        avro = self.schemas.get(place)
        if avro is None:
            if coding.avro_schema is None and written:
                self.check_names(path, schema)
            return
        if avro.meant(avro.root).type != "record" and len(schema) != 1:
            self.report.problem(place, f"an Avro schema of a record, as there are {len(schema)} attributes")
            return
        writer = self.schemas.get((*path, "avro_writer_schema")) or avro
        for name, type_ in schema:
            try:
                if written:
                    check_writing(avro, name, type_)
                else:
                    check_reading(writer, avro, name, type_, has_default=name in defaults)
            except AvroError as error:
                self.report.problem(place, f"a schema with {error} (attribute {name})")
        lacking = missing(avro, [name for name, _ in schema]) if written else []
        if lacking:
            self.report.problem(place, f"a default for each field that no attribute has ({', '.join(lacking)})")

    def check_names(self, path: Path, schema: Schema) -> None:
        """Checks that Avro permits the names of the attributes from which a schema is generated."""
        for name, _ in schema:
            if not NAME.fullmatch(name):
                self.report.problem((*path, "avro_schema"), f"a schema, as Avro has no names like {name}", None)
