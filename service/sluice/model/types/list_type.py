"""The type of lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sluice.model.types.type_contract import Type, Value


@dataclass(frozen=True, slots=True)
class ListType(Type):
    """Lists of any length, also empty ones, whose elements have one type."""

    word = "list"
    notation = "list<...>"
    foreign = ("array", "list")
    empty = ()
    samples = ((), ())
    comparable = False

    element: Type = field()

    def __str__(self) -> str:
        return f"{self.word}<{self.element}>"

    @classmethod
    def read(cls, text: str, inner: Callable[[str], Type]) -> Type | None:
        return cls(inner(text[5:-1])) if text.startswith("list<") and text.endswith(">") else None

    def with_parts(self, parts: Sequence[Type]) -> Type:
        return ListType(*parts)

    def from_definition(self, value: Value) -> Value:
        assert isinstance(value, tuple)  # noqa: S101 - the elements
        return tuple(map(self.element.from_definition, value))


def list_of(element: Type) -> Type:
    return ListType(element)
