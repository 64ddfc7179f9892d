"""The type string."""

from __future__ import annotations

import json

from sluice.model.types.type_contract import Type, Value


class StringType(Type):
    """Texts of Unicode. They compare by their UTF-8 bytes."""

    word = "string"
    aliases = ("rstring", "ustring", "str", "text", "varchar")
    foreign = ("char", "uuid", "enum")
    empty = ""
    samples = ("a", "b")
    sortable = True

    def from_file(self, value: object) -> Value:
        if isinstance(value, str):
            return value
        raise ValueError(value)

    def literal(self, value: Value) -> str:
        return json.dumps(value, ensure_ascii=False)


STRING = StringType()
