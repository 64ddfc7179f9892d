"""The types that an attribute can have."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from sluice.model.errors import nearest


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
    "int64": INT64, "long": INT64, "int": INT64, "integer": INT64, "bigint": INT64,
    "float64": FLOAT64, "double": FLOAT64, "float": FLOAT64,
    "string": STRING, "rstring": STRING, "ustring": STRING, "str": STRING, "text": STRING, "varchar": STRING,
    "timestamp": TIMESTAMP,
}  # fmt: skip

#: words of other systems that this pipeline file does not have -> the type that is meant, for messages
OTHER_NAMES = {
    **dict.fromkeys(("int8", "int16", "int32", "uint8", "uint16", "uint32", "uint64", "short"), "int64"),
    **dict.fromkeys(("float32", "real", "decimal", "numeric", "number"), "float64"),
    **dict.fromkeys(("datetime", "date", "time", "timestamptz", "instant"), "timestamp"),
    **dict.fromkeys(("char", "uuid", "enum", "bytes"), "string"),
    **dict.fromkeys(("array", "list"), "list<...>"),
}


#: a list as other systems write it: `array<string>`, `List[string]`, `ARRAY(VARCHAR)`, `string[]`
LISTS = re.compile(r"(array|list)\s*[<(\[](?P<of>[^<>\[\]()]+)[>)\]]|(?P<of_brackets>[^<>\[\]()]+)\[\]")


def list_of(element: Type) -> Type:
    return Type(Kind.LIST, element)


def parse_type(text: str) -> Type:
    """The type that `text` names. Raises ValueError, whose message has the known names, if there is none."""
    word = text.strip()
    if word.startswith("list<") and word.endswith(">"):
        return list_of(parse_type(word[5:-1]))
    if word not in SCALARS:
        names = ", ".join(kind.value for kind in Kind if kind is not Kind.LIST)
        msg = f"one of {names}, or list<...> of one of them"
        raise ValueError(msg)
    return SCALARS[word]


def similar_type(text: str) -> str | None:
    """The type that a text of another system means, or that it resembles: `list<int64>` for `ARRAY<INT>`; None if none
    is known.
    """
    word = text.strip().lower().removesuffix("?")
    if found := LISTS.fullmatch(word):
        element = similar_type(found["of"] or found["of_brackets"])
        return None if element is None else f"list<{element}>"
    word = word.partition("(")[0].strip()
    near = nearest(word, SCALARS, 0.75)
    return OTHER_NAMES.get(word) or (None if near is None else str(SCALARS[near]))


Schema = tuple[tuple[str, Type], ...]
"""The attributes of a stream, in the order of the file."""
