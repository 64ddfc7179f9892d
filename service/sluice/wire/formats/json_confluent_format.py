"""The format json-confluent: JSON behind the id of its JSON Schema in a schema registry. The codec is wire/json/."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from sluice.files import read_file
from sluice.model.members import nested
from sluice.model.types import Schema
from sluice.wire.formats.avro_format import FILE, INLINE, NoRegistryClientError
from sluice.wire.formats.format_contract import Codec, Finder, FormatKey, Part
from sluice.wire.formats.json_format import JsonFormat, JsonOptions, json_options
from sluice.wire.json.json_contract import JsonForm
from sluice.wire.json.json_schema import JsonSchemaError, attributes_of, check_writing, missing, parse, schema_of
from sluice.wire.json.json_types import json_form

SCHEMA = "json_schema"
JsonSchema = Annotated[
    Annotated[str, Tag(FILE)] | Annotated[dict[str, Any], Tag(INLINE)],
    Discriminator(lambda value: INLINE if isinstance(value, dict) else FILE),
]


@dataclass(frozen=True, slots=True)
class JsonSchemaOptions(JsonOptions):
    """The options of JSON, and a JSON Schema as text: records that are read follow it, and an output declares it."""

    json_schema: str | None = None


class JsonConfluentFormat(JsonFormat):
    """json-confluent. Without `json_schema` it writes a schema that is derived from the attributes."""

    keys = {  # noqa: RUF012 - a ClassVar of the base class
        **JsonFormat.keys,
        SCHEMA: FormatKey(
            "JSON Schema", JsonSchema | None,
            Field(
                None,
                description="For `json-confluent`: the JSON Schema, or the path of its file from the pipeline file. "
                "Without it a record follows the schema that it names.",
                examples=["order.schema.json"],
            ),
            of_key="As `json_schema` of a stream.",
        ),
    }  # fmt: skip
    needs_registry = True
    schema_keys = (SCHEMA,)

    def options(self, values: Mapping[str, Any], finder: Finder) -> JsonSchemaOptions:
        schema, of_json = values.get(SCHEMA), json_options(values)
        if schema is None:
            return JsonSchemaOptions(**of_json)
        try:
            if isinstance(schema, str):
                schema = parse(read_file(finder.folder / schema).decode("utf-8-sig"))
            return JsonSchemaOptions(**of_json, json_schema=json.dumps(schema, separators=(",", ":")))
        except OSError as error:
            finder.problem(SCHEMA, f"a file that can be read ({error.strerror})", str(finder.folder / values[SCHEMA]))
        except (JsonSchemaError, UnicodeDecodeError) as error:
            expected = str(error) if isinstance(error, JsonSchemaError) else "a text in UTF-8"
            finder.problem(SCHEMA, expected, str(finder.folder / values[SCHEMA]))
        return JsonSchemaOptions(**of_json)

    def attributes(self, options: JsonSchemaOptions, finder: Finder) -> Schema | None:
        try:
            return None if options.json_schema is None else attributes_of(parse(options.json_schema))
        except JsonSchemaError as error:
            finder.problem("schema", str(error), None)
            return None

    def check(self, part: Part, finder: Finder) -> None:
        text = part.options.json_schema
        if text is None or not part.written:
            return
        schema = parse(text)
        members = _members(part)
        for name, form in members:
            try:
                check_writing(schema, name, form)
            except JsonSchemaError as error:
                finder.problem(SCHEMA, f"a schema with {error} (attribute {name})")
        if lacking := missing(schema, {name for name, _ in members}):
            finder.problem(SCHEMA, f"an attribute for each required property ({', '.join(lacking)})")

    def codec(self, part: Part) -> Codec:
        try:
            from sluice.wire.json.json_confluent import JsonConfluent  # noqa: PLC0415 - it imports compiled kernels
            from sluice.wire.schema_registry import registry  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise NoRegistryClientError.of(error) from None

        text = part.options.json_schema
        written = text or schema_of(part.subject, _members(part))
        confluent = JsonConfluent(
            part.schema, registry(part.registry), part.subject, written, super().codec(part), reads_by=text is not None,
        )  # fmt: skip
        return Codec(confluent.decode, confluent.encode)


def _members(part: Part) -> list[tuple[str, JsonForm]]:
    """The members of a record, for its schema."""
    return [(name, json_form(type_, part.options.spelling)) for name, type_ in nested(part.schema, part.members)]
