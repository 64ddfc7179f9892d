"""JSON Schema: what a schema says about attributes, and a schema that is derived from attributes.

`sluice check` reads this module, so it imports neither array libraries nor the validator.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sluice.model.types import BOOLEAN, FLOAT64, INT64, STRING, TIMESTAMP, Schema, Type, list_of, optional_of
from sluice.wire.json.json_contract import JsonForm
from sluice.wire.json.json_types import object_schema

DRAFT = "http://json-schema.org/draft-07/schema#"
TYPES = {"boolean": BOOLEAN, "integer": INT64, "number": FLOAT64, "string": STRING}
#: the formats of a string that are times
TIMES = ("date-time", "date")
#: JSON Schema type -> the types whose values it has, for a schema that is written
HOLDS = {"integer": ("integer",), "number": ("integer", "number")}
#: the deepest schema
MAX_DEPTH = 100


class JsonSchemaError(ValueError):
    """A schema is wrong or does not fit. The message says what was expected."""


def schema_of(name: str, members: Sequence[tuple[str, JsonForm]]) -> str:
    """The text of a JSON Schema generated for records with these members."""
    return json.dumps({"$schema": DRAFT, "title": name, **object_schema(members)}, separators=(",", ":"))


def parse(text: str) -> Any:  # noqa: ANN401 - JSON
    """The schema in a JSON text: an object, true or false. Raises JsonSchemaError."""
    try:
        schema = json.loads(text)
    except RecursionError:
        raise JsonSchemaError("a JSON Schema of less depth") from None
    except ValueError as error:
        raise JsonSchemaError(f"a JSON Schema ({error})") from None
    if not isinstance(schema, dict | bool):
        raise JsonSchemaError("a JSON Schema: an object")
    return schema


def attributes_of(schema: Any) -> Schema:  # noqa: ANN401
    """The attributes that the properties of an object give. Raises JsonSchemaError for one that fits no type."""
    properties = _properties(schema)
    if not properties:
        raise JsonSchemaError("a JSON Schema of an object with properties")
    required = schema.get("required", ())
    listed = ((name, attribute_type(schema, one, name)) for name, one in properties.items())
    return tuple((name, type_ if name in required else optional_of(type_)) for name, type_ in listed)


def attribute_type(schema: Any, one: Any, name: str) -> Type:  # noqa: ANN401
    """The type of the attribute that a property gives. Raises JsonSchemaError if it fits none."""
    branches = list(_branches(schema, one))
    values = [branch for branch in branches if branch.get("type") != "null"]
    type_ = _type(schema, values[0], name) if len(values) == 1 else None
    if type_ is None:
        raise JsonSchemaError(f"a schema that names the attributes and their types, as {name} stands for none")
    return type_ if len(values) == len(branches) else optional_of(type_)


def _type(schema: Any, one: Mapping[str, Any], name: str) -> Type | None:  # noqa: ANN401
    word = one.get("type")
    if word == "string" and one.get("format") in TIMES:
        return TIMESTAMP
    if word == "array" and isinstance(one.get("items"), dict):
        return list_of(attribute_type(schema, one["items"], name))
    if word is None and _all_texts(one):
        return STRING
    return TYPES.get(word) if isinstance(word, str) else None


def _all_texts(one: Mapping[str, Any]) -> bool:
    values = one.get("enum", [one["const"]] if "const" in one else [])
    return bool(values) and all(isinstance(value, str) for value in values)


def _properties(schema: Any) -> Mapping[str, Any]:  # noqa: ANN401
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return properties if isinstance(properties, dict) else {}


def _branches(schema: Any, one: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:  # noqa: ANN401
    """The schemas of which a value follows one: those of `oneOf`, `anyOf` and of a list of types."""
    if depth > MAX_DEPTH or not isinstance(one, dict):
        return
    inner = one.get("oneOf") or one.get("anyOf")
    if isinstance(one.get("$ref"), str):
        inner = [_referred(schema, one["$ref"])]
    elif isinstance(one.get("type"), list):
        inner = [one | {"type": word} for word in one["type"]]
    if not isinstance(inner, list):
        yield one
        return
    for branch in inner:
        yield from _branches(schema, branch, depth + 1)


def _referred(schema: Any, reference: str) -> Any:  # noqa: ANN401
    """The part of the schema that a reference within it names; None for another reference."""
    if not reference.startswith("#"):
        return None
    for part in reference[1:].split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        schema = schema.get(name) if isinstance(schema, dict) else None
    return schema


def check_writing(schema: Any, name: str, form: JsonForm) -> None:  # noqa: ANN401
    """Raises JsonSchemaError if the schema says that the property has another type than is written."""
    one = _properties(schema).get(name)
    if one is None:
        if isinstance(schema, dict) and schema.get("additionalProperties") is False:
            raise JsonSchemaError(f"a property {name}")
        return
    allowed = {branch.get("type") for branch in _branches(schema, one)}
    type_ = form.type
    word = (form.inside[0] if type_.optional else form).schema.get("type")
    if None not in allowed and word is not None:
        if not allowed.intersection([*(key for key, words in HOLDS.items() if word in words), word]):
            raise JsonSchemaError(f"{type_}, which {' or '.join(sorted(map(str, allowed)))} does not hold")
        if type_.optional and name in schema.get("required", ()) and "null" not in allowed:
            raise JsonSchemaError(f"{type_}, as the property is required and not null")


def missing(schema: Any, names: set[str]) -> list[str]:  # noqa: ANN401
    """The required properties that are not among the attributes."""
    required = schema.get("required", ()) if isinstance(schema, dict) else ()
    return [name for name in required if name not in names]
