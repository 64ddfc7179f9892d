"""The type of values that may be absent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sluice.model.types.type_contract import Type, Value

#: the texts around the inner type, in the long form
BEFORE, AFTER = "optional<", ">"


def _of_present(name: str) -> Any:  # noqa: ANN401 - the type of a member of Type
    """A member that the inner type has, too."""
    return property(lambda optional: getattr(optional.of, name))


@dataclass(frozen=True, slots=True)
class OptionalType(Type):
    """The values of a type, and null (NU1). An optional type of an optional type is that type."""

    word = "optional"
    notation = "T?"
    optional = True
    empty = None
    samples = property(lambda optional: (None, optional.of.samples[0]))
    numeric = _of_present("numeric")
    sortable = _of_present("sortable")
    doubt_as_key = _of_present("doubt_as_key")
    time = _of_present("time")
    distance = _of_present("distance")
    exact = _of_present("exact")
    keeps_digits = _of_present("keeps_digits")
    element = _of_present("element")
    comparable = _of_present("comparable")
    parts = _of_present("parts")
    described = property(lambda optional: f"{optional.of.described}?")

    of: Type = field()

    def __post_init__(self) -> None:
        object.__setattr__(self, "of", self.of.present)

    def __str__(self) -> str:
        return f"{self.of}?"

    @property
    def present(self) -> Type:
        return self.of

    @classmethod
    def read(cls, text: str, inner: Callable[[str], Type]) -> Type | None:
        if text.endswith("?"):
            return cls(inner(text[:-1]))
        return cls(inner(text[len(BEFORE) : -1])) if text.startswith(BEFORE) and text.endswith(AFTER) else None

    def literal(self, value: Value) -> str:
        return "null" if value is None else self.of.literal(value)

    def from_definition(self, value: Value) -> Value:
        return None if value is None else self.of.from_definition(value)


def optional_of(type_: Type) -> Type:
    """`T?` of `T`, and of `T?` itself."""
    return OptionalType(type_)


def takes(type_: Type, other: Type) -> bool:
    """Whether each value of the given type is a value of the type: `T?` takes `T`, at any depth (NU33)."""
    return united(type_, other) == type_


def united(first: Type, second: Type) -> Type | None:
    """The type with the values of both, if they differ only in their `?`, at any depth; else None (NU33)."""
    if first.optional or second.optional:
        present = united(first.present, second.present)
        return None if present is None else optional_of(present)
    if not first.parts or type(first) is not type(second) or first.with_parts(second.parts) != second:
        return first if first == second else None
    parts = [united(*both) for both in zip(first.parts, second.parts, strict=True)]
    united_parts = [part for part in parts if part is not None]
    return first.with_parts(united_parts) if len(united_parts) == len(parts) else None
