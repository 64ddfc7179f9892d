"""JSON Schema: what a schema says about attributes, and a schema that is derived from attributes.

`sluice check` reads this module, so it imports neither array libraries nor the validator.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sluice.model.members import NAME
from sluice.model.types import (
    BOOLEAN,
    FLOAT64,
    INT64,
    JSON,
    STRING,
    TIMESTAMP,
    Schema,
    StructType,
    Type,
    list_of,
    map_of,
    optional_of,
)
from sluice.wire.json.json_contract import JsonForm
from sluice.wire.json.json_types import object_schema

DRAFT = "http://json-schema.org/draft-07/schema#"
TYPES = {"boolean": BOOLEAN, "integer": INT64, "number": FLOAT64, "string": STRING}
#: the formats of a string that are times
TIMES = ("date-time", "date")
#: JSON Schema type -> the types whose values it has, for a schema that is written
HOLDS = {"integer": ("integer",), "number": ("integer", "number")}
#: the most objects and lists around a value with a type of its own; what is deeper, and a schema in itself, is JSON
MOST_INSIDE = 8
#: the deepest schema
MAX_DEPTH = 100
#: the most schemas that a value may be compared with, each as often as a way leads to it: 2 ms of a processor
MAX_COMPARISONS = 100_000
#: the words whose schemas a value itself is compared with, and not a part of it
OF_THE_VALUE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "$ref", "dependentSchemas", "dependencies")


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


def check_comparisons(schema: Any) -> None:  # noqa: ANN401
    """Raises JsonSchemaError if a value may be compared with more than MAX_COMPARISONS schemas: thirty parts, each of
    which refers twice to the next one, stand for a billion.
    """
    counts: dict[int, int] = {}
    if any(_comparisons(schema, node, counts) > MAX_COMPARISONS for node in _objects(schema)):
        raise JsonSchemaError(f"a JSON Schema that compares a value with at most {MAX_COMPARISONS:,} schemas")


def _comparisons(schema: Any, node: Any, counts: dict[int, int]) -> int:  # noqa: ANN401
    """The number of schemas that a value is compared with for `node`. A reference to a schema around counts as 0."""
    if not isinstance(node, dict):
        return 1
    if id(node) not in counts:
        counts[id(node)] = 0
        inner = [part for word in OF_THE_VALUE if word in node for part in _inner(schema, word, node[word])]
        counts[id(node)] = 1 + sum(_comparisons(schema, part, counts) for part in inner)
    return counts[id(node)]


def _inner(schema: Any, word: str, value: Any) -> list[Any]:  # noqa: ANN401
    """The schemas behind a word of OF_THE_VALUE."""
    if word == "$ref":
        return [_referred(schema, value)] if isinstance(value, str) else []
    if word.startswith("depend"):
        return [*value.values()] if isinstance(value, dict) else []
    return value if isinstance(value, list) else [value]


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:  # noqa: ANN401
    """All objects in a JSON value."""
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
        waiting += node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()


def attributes_of(schema: Any) -> Schema:  # noqa: ANN401
    """The attributes that the properties of an object give. Raises JsonSchemaError for one that fits no type."""
    properties = _properties(schema)
    if not properties:
        raise JsonSchemaError("a JSON Schema of an object with properties")
    required = schema.get("required", ())
    listed = ((name, attribute_type(schema, part, name)) for name, part in properties.items())
    return tuple((name, type_ if name in required else optional_of(type_)) for name, type_ in listed)


def attribute_type(schema: Any, part: Any, name: str, around: tuple[int, ...] = ()) -> Type:  # noqa: ANN401
    """The type of the attribute that a property gives: of an object a struct, of one with any members a map, else JSON.
    Raises JsonSchemaError if it fits none.

    around  the identities of the schemas of the objects and lists around the value
    """
    branches = list(_branches(schema, part))
    values = [branch for branch in branches if branch.get("type") != "null"]
    type_ = _type(schema, values[0], name, around) if len(values) == 1 else None
    if type_ is None:
        raise JsonSchemaError(f"a schema that names the attributes and their types, as {name} stands for none")
    return type_ if len(values) == len(branches) else optional_of(type_)


def _type(schema: Any, part: Mapping[str, Any], name: str, around: tuple[int, ...]) -> Type | None:  # noqa: ANN401
    word = part.get("type")
    if word in ("array", "object") and (id(part) in around or len(around) == MOST_INSIDE):
        return JSON
    if word == "string" and part.get("format") in TIMES:
        return TIMESTAMP
    if word == "array" and isinstance(part.get("items"), dict):
        return list_of(attribute_type(schema, part["items"], name, (*around, id(part))))
    if word == "object":
        return _object_type(schema, part, name, (*around, id(part)))
    if word is None and _all_texts(part):
        return STRING
    return TYPES.get(word) if isinstance(word, str) else None


def _object_type(schema: Any, part: Mapping[str, Any], name: str, around: tuple[int, ...]) -> Type:  # noqa: ANN401
    """The type of an object: a struct if all of its properties can be members of one, and have types."""
    properties, further = _properties(part), part.get("additionalProperties")
    try:
        if properties and all(map(NAME.fullmatch, properties)):
            required = part.get("required", ())
            inner = ((member, attribute_type(schema, value, name, around)) for member, value in properties.items())
            return StructType(
                tuple((member, type_ if member in required else optional_of(type_)) for member, type_ in inner)
            )
        if not properties and isinstance(further, dict):
            return map_of(STRING, attribute_type(schema, further, name, around))
    except JsonSchemaError:
        return JSON
    return JSON


def _all_texts(part: Mapping[str, Any]) -> bool:
    values = part.get("enum", [part["const"]] if "const" in part else [])
    return bool(values) and all(isinstance(value, str) for value in values)


def _properties(schema: Any) -> Mapping[str, Any]:  # noqa: ANN401
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return properties if isinstance(properties, dict) else {}


def _branches(schema: Any, part: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:  # noqa: ANN401
    """The schemas of `oneOf`, `anyOf` or a list of types, of which a value follows one."""
    if depth > MAX_DEPTH or not isinstance(part, dict):
        return
    inner = part.get("oneOf") or part.get("anyOf")
    if isinstance(part.get("$ref"), str):
        inner = [_referred(schema, part["$ref"])]
    elif isinstance(part.get("type"), list):
        inner = [part | {"type": word} for word in part["type"]]
    if not isinstance(inner, list):
        yield part
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
    part = _properties(schema).get(name)
    if part is None:
        if isinstance(schema, dict) and schema.get("additionalProperties") is False:
            raise JsonSchemaError(f"a property {name}")
        return
    allowed = {branch.get("type") for branch in _branches(schema, part)}
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
