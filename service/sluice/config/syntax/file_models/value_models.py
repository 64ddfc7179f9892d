"""The base of all models of the pipeline file, and the kinds of values that several of them have."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from sluice.config.syntax.durations import EXAMPLES, WITH_UNIT, seconds
from sluice.model.spec import LATENCIES
from sluice.model.types import SCALARS, parse_type

NAME = r"^[A-Za-z0-9_][A-Za-z0-9._-]*$"
SCALAR = "|".join(row.pattern() for row in SCALARS)
TYPE = rf"^\s*((list|optional)<\s*)*({SCALAR})\s*([>?]\s*)*$|^\s*(.*<)?\s*(map|tuple)<.*>"
# A discriminator returns the tag of a union's member. pydantic also inserts this tag into the path of an error.
MAPPING, NAMED = "<mapping>", "<named>"
#: the word for a limit that does not exist
NO_LIMIT = "none"


class FileModel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def written(value: object) -> object:
    """The text of a number or a boolean, which YAML reads as a value, while it is an expression here."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


#: text of a property or of a time, which a later check reads
Text = Annotated[str, BeforeValidator(written), WithJsonSchema({"type": ["string", "number", "boolean"]})]
Name = Annotated[str, WithJsonSchema({"type": "string", "pattern": NAME})]


#: a value that stands for a list of one
AS_LIST = BeforeValidator(lambda value: value if isinstance(value, list) else [value])


class PairsShape(FileModel):
    """Where a list of objects has the entries of a map."""

    key: str = Field(description="The path of the key in an element of the list.", max_length=4_000)
    value: Annotated[
        list[str],
        AS_LIST,
        WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
    ] = Field(
        min_length=1,
        description="The path of the value in an element of the list, or several, of which the first one that exists "
        "counts.",
    )


#: the keys of an attribute that say how its values are spelled
SPELLING = ("coerce", "unit", "pattern", "zone", "pairs")


def is_spelled(value: object) -> bool:
    """Whether a mapping inside of a type is a type and the spelling of its values, and no struct: it has `type` and
    keys of SPELLING, whose values are no types.
    """
    if not isinstance(value, dict) or "type" not in value or len(value) == 1:
        return False
    return all(name == "type" or (name in SPELLING and not _is_type(name, inner)) for name, inner in value.items())


def has_spelling(value: object) -> bool:
    """Whether the spelling of values stands somewhere in what the file has for a type."""
    if isinstance(value, list):
        return any(map(has_spelling, value))
    return isinstance(value, dict) and (is_spelled(value) or any(map(has_spelling, value.values())))


def _is_type(name: str, value: object) -> bool:
    if name == "pairs":
        try:
            PairsShape.model_validate(value)
        except ValidationError:
            return True
        return False
    if name == "coerce" or not isinstance(value, str):
        return not isinstance(value, bool)
    try:
        parse_type(value)
    except ValueError:
        return False
    return True


class TypeText(str):
    """The text of a type. `value` is what the file has for it."""

    __slots__ = ("value",)
    value: object

    @classmethod
    def of(cls, text: str, value: object) -> TypeText:
        typed = cls(text)
        typed.value = value
        return typed


def read_type(value: object, read: ValidatorFunctionWrapHandler) -> object:
    return value if isinstance(value, TypeText) else TypeText.of(read(type_text(value)), value)


def type_text(value: object) -> object:
    """The text of a type: a mapping is a struct, a list of one type the list of it."""
    if isinstance(value, dict) and is_spelled(value):
        return type_text(value["type"])
    if isinstance(value, dict):
        return f"tuple<{', '.join(f'{name}: {type_text(inner)}' for name, inner in value.items())}>"
    return f"list<{type_text(value[0])}>" if isinstance(value, list) and len(value) == 1 else value


TypeName = Annotated[
    str,
    Field(max_length=4_000),
    WrapValidator(read_type),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": TYPE},
                {"type": "object", "description": "A struct: its members and their types.", "minProperties": 1},
                {"type": "array", "description": "A list of values of this type.", "minItems": 1, "maxItems": 1},
            ],
            "examples": [
                "float64",
                "list<string>",
                "float64?",
                "map<string, int64>",
                {"id": "int64", "name": "string"},
            ],
        }
    ),
]
ExpressionText = Annotated[
    str,
    Field(max_length=20_000),
    BeforeValidator(written),
    WithJsonSchema({"type": ["string", "number", "boolean"], "examples": ["Sum(price * size) / Sum(size)", "symbol"]}),
]


def read_duration(value: object) -> object:
    """The seconds of a text such as `30s`. Other values are returned as they are."""
    if not isinstance(value, str):
        return value
    number = seconds(value.strip())
    if number is None:
        kind, message = "duration", "seconds or a duration, such as {examples}"
        raise PydanticCustomError(kind, message, {"examples": EXAMPLES})
    return float(number)


#: seconds; the file may also have a number with a unit
Duration = Annotated[
    float,
    BeforeValidator(read_duration),
    Field(ge=0, allow_inf_nan=False),
    WithJsonSchema(
        {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": rf"^\s*{WITH_UNIT}\s*$"}]}
    ),
]
Latency = Annotated[
    str,
    BeforeValidator(written),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": [*LATENCIES]},
                {"type": "number", "minimum": 0},
                {"type": "string", "pattern": rf"^\s*{WITH_UNIT}\s*$"},
            ]
        }
    ),
]
Seconds = Annotated[Duration, Field(le=2**33)]


def read_limit(value: object, read: ValidatorFunctionWrapHandler) -> object:
    return math.inf if value == NO_LIMIT else read(value)


#: seconds, infinite for the word `none`
Limit = Annotated[
    Seconds,
    WrapValidator(read_limit),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0},
                {"type": "string", "pattern": rf"^\s*{WITH_UNIT}\s*$"},
                {"type": "string", "const": NO_LIMIT},
            ]
        }
    ),
]
