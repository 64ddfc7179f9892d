"""The contract of a type: what the model says about the values of an attribute.

Each type is one class in one module, with one row in the table of types (type_table.py). What another floor needs of a
type stands in one row of a table of that floor, found by the class:

columns/column_forms.py              Arrow, the words that kernels read, order, keys, JSON of events, users' classes
wire/json/json_types.py              JSON, CSV and plain texts
model/avro_schema.py                 Avro
model/protobuf/proto_fit.py          Protobuf
config/checks/constants.py           values in the pipeline file, for types that do not read them alone (`from_file`)
engine/aggregates/function_table.py  sums and means, for the types that have them
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import ClassVar, NamedTuple

#: the value of an attribute; a list is a tuple. None is null, a value of optional types only
Value = bool | int | float | str | tuple["Value", ...] | None


class Distance(NamedTuple):
    """How the size of a delta window is given for values of a type (W8).

    size    the word of the type that an expression of a size has
    unit    the number of units of the type in 1 of the pipeline file; None if a size is a float64, which is not exact
    exact   the sizes that are allowed, for messages
    """

    size: str
    unit: int | None = None
    exact: str = ""

    @property
    def in_seconds(self) -> bool:
        """Whether sizes are given in seconds and the values count in a smaller unit."""
        return self.unit is not None and self.size == "float64"


class TimeForm(Enum):
    """How a value is a time since 1970: as an event time (W16), or as the timestamp of a record."""

    INSTANT = auto()  # in nanoseconds
    COUNT = auto()  # in a resolution that the stream declares
    SECONDS = auto()  # in seconds with a fraction


@dataclass(frozen=True, slots=True)
class Type(ABC):
    """The type of an attribute. Its text is that of the pipeline file: `int64`, `list<string>`.

    A type has parameters if its class has fields. Types are equal if their classes and parameters are.
    """

    #: the word in the pipeline file
    word: ClassVar[str]
    #: more words that the pipeline file has for it: SPL's and other common ones
    aliases: ClassVar[tuple[str, ...]] = ()
    #: how a type of this class is written, for messages; empty: as `word`
    notation: ClassVar[str] = ""
    #: words of other systems that the pipeline file does not have, for messages
    foreign: ClassVar[tuple[str, ...]] = ()
    #: words of types, and in small letters of functions, of other systems without an equal -> what to write instead
    instead: ClassVar[Mapping[str, str]] = {}
    functions_instead: ClassVar[Mapping[str, str]] = {}
    #: the value of an attribute without a given value: SPL's default
    empty: ClassVar[Value]
    #: two values that differ, for the compilation of kernels
    samples: ClassVar[tuple[Value, Value]]
    #: whether the values may be absent: the type is `T?` (optional_type.py)
    optional: ClassVar[bool] = False
    #: whether the values are numbers, which can have a sign
    numeric: ClassVar[bool] = False
    #: whether a sort can order by the values (O3)
    sortable: ClassVar[bool] = False
    #: whether the values are compared with each other, and may be keys: false for values with an inside (ST6)
    comparable: ClassVar[bool] = True
    #: why the values are doubtful as a key; empty if they are not
    doubt_as_key: ClassVar[str] = ""
    #: words of the types to which an argument is converted where a function needs it
    promoted: ClassVar[tuple[str, ...]] = ()
    #: whether a number is a value only if it has no more digits than the type, so that none is rounded
    exact: ClassVar[bool] = False
    #: whether the numbers of a value have all digits of the record's text, which a float64 has not
    keeps_digits: ClassVar[bool] = False
    #: None if the values are no times
    time: ClassVar[TimeForm | None] = None
    #: None if the values have no difference, so that no delta window can compare them
    distance: ClassVar[Distance | None] = None

    def __str__(self) -> str:
        return self.word

    def __hash__(self) -> int:
        return hash(self.word)  # a class with fields is a dataclass, and has a hash of them

    @property
    def element(self) -> Type | None:
        """The type of the elements of a list; None for a type that is no list."""
        return None

    @property
    def parts(self) -> tuple[Type, ...]:
        """The types inside: of the elements of a list, of the keys and values of a map, of the members of a struct."""
        return () if self.element is None else (self.element,)

    def with_parts(self, parts: Sequence[Type]) -> Type:
        """The type with other types inside."""
        return self

    @property
    def digits(self) -> tuple[int, ...]:
        """The numbers in the text of the type, which are the constants in a conversion: `decimal(x, 18, 2)`."""
        return ()

    @property
    def names_entries(self) -> bool:
        """Whether the values may be the keys of a map."""
        return self.comparable and not self.optional and not self.doubt_as_key

    @property
    def present(self) -> Type:
        """The type without `?`: that of the values that are not null."""
        return self

    @property
    def described(self) -> str:
        """The type with its article, for messages: `an int64`."""
        return f"{'an' if self.word[0] in 'aeiou' else 'a'} {self}"

    @classmethod
    def pattern(cls) -> str:
        """A regular expression of the texts that name a type of this class."""
        return "|".join((cls.word, *cls.aliases))

    @classmethod
    def read(cls, text: str, inner: Callable[[str], Type]) -> Type | None:  # noqa: ARG003 - for types with parameters
        """The type that the text names; None if it names none of this class. `inner` reads the text of a parameter."""
        return cls() if text in (cls.word, *cls.aliases) else None

    @classmethod
    def similar(cls, text: str) -> str | None:  # noqa: ARG003 - for types with parameters
        """The type of this class with the parameters in a text of another system; None if there is none."""
        return None

    @classmethod
    def of_digits(cls, text: str) -> Type | None:  # noqa: ARG003 - for exact types
        """The least type of this class that has the number with these digits; None if none has it."""
        return None

    def of_number(self, value: Value) -> Value:
        """The value of the type for a constant number of another type, which an argument is converted from."""
        return value

    def from_file(self, value: object) -> Value:
        """The value that a value of YAML gives. Raises ValueError for others, as types do that another floor reads."""
        raise ValueError(value)

    def joined(self, other: Type) -> Type | None:
        """The type that has the values of this type and of another one; None if this type does not say it."""
        return other if other.word in self.promoted else None

    def literal(self, value: Value) -> str:
        """The text of a value in an expression."""
        return str(value).lower()

    def from_definition(self, value: Value) -> Value:
        """The value that stands as `value` in the definition of a pipeline, which is JSON (model/fingerprint.py)."""
        return value


OPENING, CLOSING = "<([{", ">)]}"


def top_level(text: str) -> tuple[str, ...]:
    """The parts of a text between its commas, without those inside of brackets; none of an empty text."""
    depth, parts, start = 0, [], 0
    for place, sign in enumerate(text):
        depth += (sign in OPENING) - (sign in CLOSING)
        if sign == "," and not depth:
            parts.append(text[start:place].strip())
            start = place + 1
    return (*parts, text[start:].strip()) if text.strip() else ()
