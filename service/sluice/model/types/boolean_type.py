"""The type boolean."""

from __future__ import annotations

from sluice.model.types.type_contract import Type, Value


class BooleanType(Type):
    """true and false. False is less than true (A15)."""

    word = "boolean"
    aliases = ("bool",)
    empty = False
    samples = (True, False)

    def from_file(self, value: object) -> Value:
        if isinstance(value, bool):
            return value
        raise ValueError(value)


BOOLEAN = BooleanType()
