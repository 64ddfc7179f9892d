"""The attributes that the properties of a JSON Schema give."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.wire.json.json_schema import JsonSchemaError, attributes_of

LINE = {"type": "object", "properties": {"sku": {"type": "string"}, "n": {"type": "number"}}, "required": ["sku"]}
TREE = {"type": "object", "properties": {"id": {"type": "integer"}, "inner": {"$ref": "#/definitions/tree"}}}


def type_of(part: dict[str, Any], *, required: bool = True) -> str:
    definitions = {"line": LINE, "tree": TREE}
    schema = {"type": "object", "properties": {"x": part}, "definitions": definitions}
    ((_, type_),) = attributes_of(schema | {"required": ["x"] if required else []})
    return str(type_)


@pytest.mark.parametrize(
    ("part", "type_"),
    [
        ({"type": "integer"}, "int64"),
        ({"type": ["number", "null"]}, "float64?"),
        ({"type": "string", "format": "date-time"}, "timestamp"),
        ({"enum": ["a", "b"]}, "string"),
        ({"type": "array", "items": {"type": "string"}}, "list<string>"),
        (LINE, "tuple<sku: string, n: float64?>"),
        ({"type": "array", "items": {"$ref": "#/definitions/line"}}, "list<tuple<sku: string, n: float64?>>"),
        ({"oneOf": [{"type": "null"}, {"$ref": "#/definitions/line"}]}, "tuple<sku: string, n: float64?>?"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "map<string, int64>"),
        ({"type": "object", "additionalProperties": LINE}, "map<string, tuple<sku: string, n: float64?>>"),
        ({"$ref": "#/definitions/tree"}, "tuple<id: int64?, inner: json?>"),
        ({"type": "object"}, "json"),
        ({"type": "object", "properties": {"order-id": {"type": "string"}}}, "json"),
        ({"type": "object", "properties": {"a": {"type": ["string", "integer"]}}}, "json"),
        ({"type": "object", "additionalProperties": True}, "json"),
    ],
)  # fmt: skip
def test_the_type_of_a_property(part: dict[str, Any], type_: str):
    assert type_of(part) == type_


def test_a_property_that_is_not_required_may_be_null():
    assert type_of(LINE, required=False) == "tuple<sku: string, n: float64?>?"


@pytest.mark.parametrize("part", [{}, {"type": ["string", "integer"]}, {"type": "array"}, {"enum": ["a", 1]}])
def test_a_property_of_no_type_is_refused(part: dict[str, Any]):
    with pytest.raises(JsonSchemaError, match="as x stands for none"):
        type_of(part)
