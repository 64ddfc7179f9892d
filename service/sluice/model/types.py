"""The types that an attribute can have."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What an attribute's values are. `TIMESTAMP` counts nanoseconds since 1970-01-01 UTC."""

    BOOLEAN = "boolean"
    INT64 = "int64"
    FLOAT64 = "float64"
    STRING = "string"
    TIMESTAMP = "timestamp"
    LIST = "list"


@dataclass(frozen=True, slots=True)
class Type:
    """A type as the pipeline file writes it: `int64`, `list<string>`."""

    kind: Kind
    element: Type | None = None

    def __str__(self) -> str:
        return f"list<{self.element}>" if self.element else self.kind.value

    @property
    def numeric(self) -> bool:
        return self.kind in (Kind.INT64, Kind.FLOAT64)


BOOLEAN = Type(Kind.BOOLEAN)
INT64 = Type(Kind.INT64)
FLOAT64 = Type(Kind.FLOAT64)
STRING = Type(Kind.STRING)
TIMESTAMP = Type(Kind.TIMESTAMP)

#: name in the pipeline file -> type; the second words are SPL's and the common ones for the same thing
SCALARS = {
    "boolean": BOOLEAN, "bool": BOOLEAN,
    "int64": INT64, "long": INT64,
    "float64": FLOAT64, "double": FLOAT64,
    "string": STRING, "rstring": STRING, "ustring": STRING,
    "timestamp": TIMESTAMP,
}  # fmt: skip


def list_of(element: Type) -> Type:
    return Type(Kind.LIST, element)


def parse_type(text: str) -> Type:
    """The type that `text` names. Raises ValueError with the known words when there is none."""
    word = text.strip()
    if word.startswith("list<") and word.endswith(">"):
        return list_of(parse_type(word[5:-1]))
    if word not in SCALARS:
        msg = f"one of {', '.join(SCALARS)}, or list<...> of one of them"
        raise ValueError(msg)
    return SCALARS[word]


Schema = tuple[tuple[str, Type], ...]
"""The attributes of a stream, in the order of the file."""
