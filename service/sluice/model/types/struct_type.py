"""The type of structs, which SPL calls tuple."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluice.model.types.type_contract import Type, Value, top_level

#: a member as the pipeline file writes it, `id: int64`, and as SPL writes it, `int64 id`
MEMBER = re.compile(
    r"\s*(?P<name>[^\W\d]\w*)\s*:\s*(?P<type>.*\S)\s*|\s*(?P<spl>\S.*?)\s+(?P<last>[^\W\d]\w*)\s*", re.DOTALL
)


def _of_members(name: str) -> Any:  # noqa: ANN401 - the type of a member of Type
    return property(lambda struct: tuple(getattr(type_, name) for _, type_ in struct.members))


@dataclass(frozen=True, slots=True)
class StructType(Type):
    """Values with named members, each of a type of its own. A value of the model is the tuple of its members' values,
    in the order of the type.
    """

    word = "tuple"
    notation = "tuple<name: type, ...>"
    foreign = ("struct", "record", "row", "object")
    empty = _of_members("empty")
    samples = property(lambda struct: tuple(tuple(type_.samples[n] for _, type_ in struct.members) for n in (0, 1)))
    comparable = False

    members: tuple[tuple[str, Type], ...] = field()

    def __str__(self) -> str:
        return f"{self.word}<{', '.join(f'{name}: {type_}' for name, type_ in self.members)}>"

    @property
    def parts(self) -> tuple[Type, ...]:
        return tuple(type_ for _, type_ in self.members)

    def with_parts(self, parts: Sequence[Type]) -> Type:
        return StructType(tuple((name, part) for (name, _), part in zip(self.members, parts, strict=False)))

    @classmethod
    def read(cls, text: str, inner: Callable[[str], Type]) -> Type | None:
        # ST1: as the file writes members, and as SPL does
        if not (text.startswith("tuple<") and text.endswith(">")):
            return None
        members = [MEMBER.fullmatch(part) for part in top_level(text[len("tuple<") : -1])]
        named = [(m["name"] or m["last"], m["type"] or m["spl"]) for m in members if m is not None]
        if not named or len(named) < len(members) or len(dict(named)) < len(named):
            raise ValueError(f"{cls.notation} with members of different names")
        return cls(tuple((name, inner(type_)) for name, type_ in named))

    def from_definition(self, value: Value) -> Value:
        assert isinstance(value, tuple | list)  # noqa: S101 - the members
        return tuple(type_.from_definition(item) for type_, item in zip(self.parts, value, strict=True))


def struct_of(**members: Type) -> Type:
    return StructType(tuple(members.items()))
