"""The type json."""

from __future__ import annotations

import json

from sluice.model.types.type_contract import Type, Value


class JsonType(Type):
    """Any JSON value, kept as its text. Two texts of one value differ, so values are neither compared nor keys."""

    word = "json"
    foreign = ("jsonb", "variant", "object", "any", "super")
    empty = "null"
    samples = ("1", "{}")
    comparable = False
    keeps_digits = True

    def literal(self, value: Value) -> str:
        return json.dumps(value, ensure_ascii=False)


JSON = JsonType()
