"""The formats avro and avro-confluent: a record in Avro's binary encoding. The codec is wire/avro/.

avro            the records have no schema; the pipeline file has it, and the writer's if that is another one
avro-confluent  each record begins with the id of its writer's schema in a schema registry (wire/confluent.py)
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from sluice.files import read_file
from sluice.model.avro_schema import (
    NAMED,
    PRIMITIVES,
    Avro,
    AvroError,
    attributes_of,
    check_reading,
    check_writing,
    missing,
    parse,
    schema_of,
)
from sluice.model.errors import SluiceError
from sluice.model.members import paths_of
from sluice.model.spec import FormatOptions
from sluice.model.types import Schema
from sluice.package_extras import EXIT_CODE, install
from sluice.wire.formats.format_contract import Codec, Finder, Format, FormatKey, Part

SCHEMA, WRITER_SCHEMA = "avro_schema", "avro_writer_schema"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# An Avro schema is the path of a file, or the schema itself: the name of a type, a mapping, or a list (a union).
# A tag distinguishes them in error messages.
FILE, INLINE, UNION = "<file>", "<inline>", "<union>"
AvroSchema = Annotated[
    Annotated[str, Tag(FILE)] | Annotated[dict[str, Any], Tag(INLINE)] | Annotated[list[Any], Tag(UNION)],
    Discriminator(lambda value: {dict: INLINE, list: UNION}.get(type(value), FILE)),
]
#: the types that are a schema by their name alone
WORDS = frozenset(PRIMITIVES) - NAMED
SCHEMA_KEY = FormatKey(
    "Avro schema", AvroSchema | None,
    Field(
        None,
        description="For `avro` and `avro-confluent`: the Avro schema, or the path of its file from the pipeline file.",
        examples=["trade.avsc"],
    ),
    of_key="As `avro_schema` of a stream.",
)  # fmt: skip
WRITER_KEY = FormatKey(
    "writer's schema", AvroSchema | None,
    Field(
        None,
        description="For `avro`: the schema with which the records were written, if it differs from `avro_schema`.",
    ),
    of_key="As `avro_writer_schema` of a stream.",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AvroOptions(FormatOptions):
    """Avro schemas as JSON text: the schema of the stream and, if it is another one, the schema with which its records
    were written.
    """

    avro_schema: str | None = None
    avro_writer_schema: str | None = None


class NoRegistryClientError(SluiceError):
    """The packages of the schema registry's client are not installed."""

    exit_code = EXIT_CODE

    @classmethod
    def of(cls, error: ModuleNotFoundError) -> NoRegistryClientError:
        return cls(install(str(error.name), "registry"))


class ConfluentFormat(Format):
    """avro-confluent. Without `avro_schema` it writes a schema that is derived from the attributes."""

    keys = {SCHEMA: SCHEMA_KEY}  # noqa: RUF012 - a ClassVar of the base class
    in_keys = True
    has_paths = True
    lists_pairs = True
    needs_registry = True
    schema_keys = (SCHEMA,)

    def options(self, values: Mapping[str, Any], finder: Finder) -> AvroOptions:
        texts = {key: _text(key, values.get(key), finder) for key in self.keys}
        for key, text in texts.items():
            try:
                parse(text or '"null"')
            except AvroError as error:
                finder.problem(key, str(error))
        return AvroOptions(**texts)

    def attributes(self, options: AvroOptions, finder: Finder) -> Schema | None:
        avro = _parsed(options.avro_schema)
        try:
            return None if avro is None else attributes_of(avro)
        except AvroError as error:
            finder.problem(SCHEMA, str(error))
            return None

    def check(self, part: Part, finder: Finder) -> None:
        text = part.options.avro_schema
        avro = _parsed(text)
        if avro is not None:
            _check_fields(avro, _parsed(part.options.avro_writer_schema) or avro, part, finder)
        elif text is None and part.written:
            _check_names(part, finder)

    def codec(self, part: Part) -> Codec:
        try:
            from sluice.wire.confluent import Confluent  # noqa: PLC0415 - it imports compiled kernels
            from sluice.wire.schema_registry import registry  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise NoRegistryClientError.of(error) from None

        text = part.options.avro_schema
        written = text or schema_of(part.subject, part.schema, part.members)
        confluent = Confluent(
            part.schema, registry(part.registry), part.subject, written,
            parse(text) if text else None, part.defaults, part.members,
        )  # fmt: skip
        return Codec(confluent.decode, confluent.encode, confluent.refused)


class AvroFormat(ConfluentFormat):
    """avro. The pipeline file must have the schema."""

    keys = {SCHEMA: SCHEMA_KEY, WRITER_SCHEMA: WRITER_KEY}  # noqa: RUF012
    needs_registry = False

    def options(self, values: Mapping[str, Any], finder: Finder) -> AvroOptions:
        if values.get(SCHEMA) is None:
            finder.problem(SCHEMA, "an Avro schema, as the format is avro", None)
        return super().options(values, finder)

    def check(self, part: Part, finder: Finder) -> None:
        if part.options.avro_schema is not None:
            super().check(part, finder)

    def codec(self, part: Part) -> Codec:
        from sluice.wire.avro.avro_read import Reader  # noqa: PLC0415 - it imports compiled kernels
        from sluice.wire.avro.avro_write import Writer  # noqa: PLC0415

        text, written = str(part.options.avro_schema), part.options.avro_writer_schema
        schema = parse(text)
        theirs, meant = (parse(written), schema) if written else (schema, None)
        reader = Reader.of(part.schema, theirs, meant, part.defaults, part.members)
        writer = cache(lambda: Writer.of(part.schema, text, part.members))
        return Codec(reader.read, lambda tuples: writer().write(tuples), lambda tuples: writer().refused(tuples))


def _text(key: str, value: str | dict[str, Any] | list[Any] | None, finder: Finder) -> str | None:
    """The JSON text of an Avro schema, which is given as itself or as the path of a file. None if it is wrong."""
    if value is None or isinstance(value, dict | list) or value in WORDS:
        return None if value is None else json.dumps(value, separators=(",", ":"))
    file = finder.folder / value
    try:
        schema = json.loads(read_file(file))
        json.dumps(schema, ensure_ascii=False).encode()  # fails for a lone surrogate, which has no UTF-8 encoding
        return json.dumps(schema, separators=(",", ":"))
    except RecursionError:
        finder.problem(key, "an Avro schema of less depth", str(file))
    except OSError as error:
        finder.problem(key, f"a file that can be read ({error.strerror})", str(file))
    except ValueError as error:
        finder.problem(key, f"a file with an Avro schema in JSON ({error})", str(file))
    return None


def _parsed(text: str | None) -> Avro | None:
    """The schema, None if there is none or if `options` has reported it."""
    try:
        return None if text is None else parse(text)
    except AvroError:
        return None


def _check_fields(avro: Avro, writer: Avro, part: Part, finder: Finder) -> None:
    """Checks that the fields of the schema fit the attributes."""
    if avro.meant(avro.root).type != "record" and len(part.schema) != 1:
        finder.problem(SCHEMA, f"an Avro schema of a record, as there are {len(part.schema)} attributes")
        return
    for name, type_ in part.schema:
        path = part.members[name].path if name in part.members else None
        try:
            if part.written:
                check_writing(avro, name, type_, path)
            else:
                check_reading(writer, avro, name, type_, has_default=name in part.defaults, path=path)
        except AvroError as error:
            finder.problem(SCHEMA, f"a schema with {error} (attribute {name})")
    lacking = missing(avro, paths_of(part.schema, part.members)) if part.written else []
    if elsewhere := [name for name in lacking if name in part.elsewhere]:
        expected = "no field for an attribute that is in the key or in a header, unless it has a default"
        finder.problem(SCHEMA, f"{expected} ({', '.join(elsewhere)})")
    elif lacking:
        finder.problem(SCHEMA, f"a default for each field that no attribute has ({', '.join(lacking)})")


def _check_names(part: Part, finder: Finder) -> None:
    """Checks that Avro permits the names of the attributes from which a schema is generated."""
    for name in dict.fromkeys(str(step) for path in paths_of(part.schema, part.members) for step in path):
        if not NAME.fullmatch(name):
            finder.problem(SCHEMA, f"a schema, as Avro has no names like {name}", None)
