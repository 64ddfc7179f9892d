"""The table of types, and the types that texts name."""

from __future__ import annotations

import re
from itertools import accumulate

from sluice.model.errors import nearest
from sluice.model.types.boolean_type import BOOLEAN
from sluice.model.types.bytes_type import BYTES
from sluice.model.types.decimal_type import DecimalType
from sluice.model.types.float64_type import FLOAT64
from sluice.model.types.int64_type import INT64
from sluice.model.types.json_type import JSON
from sluice.model.types.list_type import ListType, list_of
from sluice.model.types.map_type import MapType, map_of
from sluice.model.types.optional_type import OptionalType, optional_of
from sluice.model.types.string_type import STRING
from sluice.model.types.struct_type import StructType, struct_of
from sluice.model.types.timestamp_type import TIMESTAMP
from sluice.model.types.type_contract import Type

#: a type of each class, in the order of messages; a new type is one more row
TYPES: tuple[Type, ...] = (
    BOOLEAN, INT64, FLOAT64, STRING, TIMESTAMP, list_of(INT64), optional_of(INT64), BYTES, JSON, map_of(STRING, INT64),
    struct_of(id=INT64, name=STRING), DecimalType(),
)  # fmt: skip
#: the rows of the types that have no type inside, and no null
SCALARS: tuple[Type, ...] = tuple(row for row in TYPES if not row.parts and not row.optional)

#: word of a type in the pipeline file -> the type as messages write it
_WORDS = {word: row.notation or row.word for row in SCALARS for word in (row.word, *row.aliases)}
#: word of another system -> the type that is meant, as messages write it
_FOREIGN = {word: row.notation or row.word for row in TYPES for word in row.foreign}

#: a list as other systems write it: `array<string>`, `List[string]`, `ARRAY(VARCHAR)`, `string[]`
_LISTS = re.compile(r"(array|list)\s*[<(\[](?P<of>[^<>\[\]()]+)[>)\]]|(?P<of_brackets>[^<>\[\]()]+)\[\]")

#: a map as other systems write it: `Map(String, Int64)`, `dict[str, int]`
_MAPS = re.compile(r"(map|dict)\s*[<(\[](?P<key>[^,<>\[\]()]+),(?P<value>.+)[>)\]]")

#: a type with null as other systems write it: `T?`, `Nullable(T)`, `Optional[T]`, `T NULL`, `T | None`
_OPTIONAL = re.compile(
    r"(.+)\?|(?:nullable|optional|option|maybe)\s*[<(\[](.+)[>)\]]|(.+?)(?<!not)(?:\s+|\s*\|\s*)(?:null|none)"
)


#: how deep a type may be, because functions walk through types by recursion
DEEPEST = 60


def is_too_deep(text: str) -> bool:
    """Whether a type has more than DEEPEST types one in the other: so many angles are open at once."""
    return max(accumulate((sign == "<") - (sign == ">") for sign in text), default=0) > DEEPEST


def parse_type(text: str) -> Type:
    """The type that `text` names. Raises ValueError, whose message has the known names, if there is none."""
    word = re.sub(r"(\?\s*)+$", "?", text.strip())
    if is_too_deep(word):
        raise ValueError(f"a type that is at most {DEEPEST} types deep")
    for row in TYPES:
        named = row.read(word, parse_type)
        if named is not None:
            return named
    names = ", ".join(row.notation or row.word for row in SCALARS)
    inside = f"{ListType.notation}, {MapType.notation} or {StructType.notation}"
    raise ValueError(f"one of {names}, or {inside} of them; {OptionalType.notation} may be null")


def similar_type(text: str) -> str | None:
    """The type that a text of another system means, or that it resembles: `list<int64>` for `ARRAY<INT>`; None if none
    is known. The text may say that a value can be absent: `int64?` for `Nullable(Int64)` and `INT NULL`.
    """
    word = text.strip().lower()
    if match := _OPTIONAL.fullmatch(word):
        present = similar_type(next(filter(None, match.groups())))
        return None if present is None else f"{present}?"
    if named := next(filter(None, (row.similar(word) for row in TYPES)), None):
        return named
    if match := _LISTS.fullmatch(word):
        element = similar_type(match["of"] or match["of_brackets"])
        return None if element is None else f"list<{element}>"
    if match := _MAPS.fullmatch(word):
        key, value = similar_type(match["key"]), similar_type(match["value"])
        return None if key is None or value is None else f"map<{key}, {value}>"
    word = word.partition("(")[0].strip()
    near = nearest(word, _WORDS, 0.75)
    return _FOREIGN.get(word) or (None if near is None else _WORDS[near])
