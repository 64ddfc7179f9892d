"""The type of maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sluice.model.types.type_contract import Type, Value, top_level


@dataclass(frozen=True, slots=True)
class MapType(Type):
    """Maps from keys of one type to values of one type. A value of the model has its entries in the order of the keys,
    as pairs; no key occurs twice.
    """

    word = "map"
    notation = "map<key, value>"
    foreign = ("dict", "hashmap", "mapping")
    empty = ()
    samples = ((), ())
    comparable = False

    key: Type = field()
    value: Type = field()

    def __str__(self) -> str:
        return f"{self.word}<{self.key}, {self.value}>"

    @property
    def parts(self) -> tuple[Type, ...]:
        return self.key, self.value

    @classmethod
    def read(cls, text: str, inner: Callable[[str], Type]) -> Type | None:
        parts = top_level(text[len("map<") : -1]) if text.startswith("map<") and text.endswith(">") else ()
        if len(parts) != len(("key", "value")):
            return None
        key, value = map(inner, parts)
        if not key.names_entries:
            raise ValueError(f"a key of a map that is compared exactly, such as string or int64, not {key}")
        return cls(key, value)

    def with_parts(self, parts: Sequence[Type]) -> Type:
        return MapType(*parts)

    def from_definition(self, value: Value) -> Value:
        assert isinstance(value, tuple | list)  # noqa: S101 - pairs
        return tuple((self.key.from_definition(key), self.value.from_definition(item)) for key, item in value)  # type: ignore[misc, str-unpack]


def map_of(key: Type, value: Type) -> Type:
    return MapType(key, value)
