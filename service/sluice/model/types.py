"""The types that an attribute can have."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """The kind of a type. The values of `TIMESTAMP` are nanoseconds since 1970-01-01 UTC."""

    BOOLEAN = "boolean"
    INT64 = "int64"
    FLOAT64 = "float64"
    STRING = "string"
    TIMESTAMP = "timestamp"
    LIST = "list"


@dataclass(frozen=True, slots=True)
class Type:
    """The type of an attribute. Its text is that of the pipeline file: `int64`, `list<string>`."""

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

#: name in the pipeline file -> type; the names after the first of each type are SPL's or other common ones
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
    """The type that `text` names. Raises ValueError, whose message has the known names, if there is none."""
    word = text.strip()
    if word.startswith("list<") and word.endswith(">"):
        return list_of(parse_type(word[5:-1]))
    if word not in SCALARS:
        msg = f"one of {', '.join(SCALARS)}, or list<...> of one of them"
        raise ValueError(msg)
    return SCALARS[word]


Schema = tuple[tuple[str, Type], ...]
"""The attributes of a stream, in the order of the file."""
