"""The type int64."""

from __future__ import annotations

from sluice.model.types.type_contract import Distance, TimeForm, Type, Value

#: the greatest number
MAX_INT64 = 2**63 - 1


class Int64Type(Type):
    """Whole numbers from -2**63 to 2**63 - 1."""

    word = "int64"
    aliases = ("long", "int", "integer", "bigint")
    foreign = ("int8", "int16", "int32", "uint8", "uint16", "uint32", "uint64", "short")
    empty = 0
    samples = (1, 2)
    numeric = True
    sortable = True
    promoted = ("float64",)
    time = TimeForm.COUNT
    distance = Distance("int64", 1, f"a whole size up to {MAX_INT64}, as the attribute is an int64")

    def from_file(self, value: object) -> Value:
        if type(value) is int and -MAX_INT64 <= value + 1 <= MAX_INT64 + 1:
            return value
        raise ValueError(value)


INT64 = Int64Type()
