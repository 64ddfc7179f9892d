"""How JSON and plain texts hold the values of each type: the table of the types for the formats json, csv and text.

`docs/formats.md` has these rules as a table, json_contract.py the contract of a form. The module imports no array
library, as `sluice check` reads it.
"""

from __future__ import annotations

import math
from base64 import b64decode
from binascii import Error as NotBase64Error
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import ROUND_HALF_EVEN, Decimal
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import orjson

from sluice.json_texts import is_too_deep, items_of, members_of
from sluice.model.members import STRICT, UNITS, Spelling, Steps
from sluice.model.types import (
    BooleanType,
    BytesType,
    Float64Type,
    Int64Type,
    JsonType,
    ListType,
    MapType,
    OptionalType,
    StringType,
    StructType,
    TimestampType,
    Type,
)
from sluice.model.types.decimal_type import DecimalType
from sluice.wire.json import json_decimals, time_patterns
from sluice.wire.json.json_contract import (
    JSON_NUMBER,
    MISSING,
    NUMBER_PATTERN,
    SCANNED_BOOLEAN,
    SCANNED_INT64,
    SCANNED_NUMBER,
    SCANNED_SECONDS,
    SCANNED_STRING,
    SCANNED_VALUE,
    JsonForm,
    number_in,
)
from sluice.wire.json.json_values import (
    INT64,
    LAST_SECOND,
    NOT_FINITE,
    NotOfTypeError,
    at_path,
    nanoseconds,
    parsed,
    require,
    shown,
    text_at,
    within_int64,
)

if TYPE_CHECKING:
    import polars as pl

#: the most digits of an int64; the text of an integer whose zero has no sign
INT64_DIGITS, MINUS_ZERO = 19, "-0"


class BooleanForm(JsonForm):
    scanned = SCANNED_BOOLEAN
    bare = "^(true|false)$"
    schema = {"type": "boolean"}  # noqa: RUF012 - a value that is not changed

    def read(self, value: Any) -> Any:  # noqa: ANN401
        require(type(value) is bool)
        return value

    def from_text(self, text: str) -> Any:  # noqa: ANN401
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        number = number_in(text)
        require(number in (0, 1))
        return number == 1


class Int64Form(JsonForm):
    scanned = SCANNED_INT64
    bare = "^[-0-9]+$"
    schema = {"type": "integer"}  # noqa: RUF012 - a value that is not changed

    def read(self, value: Any) -> Any:  # noqa: ANN401
        require(type(value) is int and value in INT64)
        return value

    def from_text(self, text: str) -> Any:  # noqa: ANN401
        number = number_in(text)
        require(not number or number.adjusted() < INT64_DIGITS)
        require(number == number.to_integral_value())
        return within_int64(int(number))


class Float64Form(JsonForm):
    scanned = SCANNED_NUMBER
    bare = NUMBER_PATTERN
    quoted = f"^({'|'.join(NOT_FINITE)})$"
    schema = {"type": "number"}  # noqa: RUF012 - a value that is not changed

    def read(self, value: Any) -> Any:  # noqa: ANN401
        if type(value) is str and value in NOT_FINITE:
            return NOT_FINITE[value]
        if type(value) not in (float, int, Decimal):
            raise NotOfTypeError
        return float(value)

    def from_text(self, text: str) -> Any:  # noqa: ANN401
        if text in NOT_FINITE:
            return NOT_FINITE[text]
        require(JSON_NUMBER.fullmatch(text) is not None and math.isfinite(float(text)))
        return 0.0 if text == MINUS_ZERO else float(text)


class StringForm(JsonForm):
    scanned = SCANNED_STRING
    schema = {"type": "string"}  # noqa: RUF012 - a value that is not changed

    def read(self, value: Any) -> Any:  # noqa: ANN401
        require(type(value) is str)
        return value

    def from_text(self, text: str) -> Any:  # noqa: ANN401
        return str(text)


class TimestampForm(JsonForm):
    bare = NUMBER_PATTERN
    quoted = "^[0-9]{4}-[-+0-9:.,TtZz ]*$"
    schema = {"type": "string", "format": "date-time"}  # noqa: RUF012 - a value that is not changed

    def __init__(self, type_: Type, spelling: Spelling = STRICT) -> None:
        super().__init__(type_, spelling)
        self.tick = UNITS[spelling.unit or "s"]

    @property
    def scanned(self) -> int:  # type: ignore[override]
        return SCANNED_VALUE if self.spelling.pattern else SCANNED_SECONDS

    def read(self, value: Any) -> Any:  # noqa: ANN401
        """Nanoseconds of a text, or of a number of units (PA11, PA12, PA14).

        A float64 counts as the shortest decimal number that is read as this float64.
        """
        if type(value) is str:
            return self.instant(value)
        require(not self.spelling.pattern)
        if type(value) is int:
            return within_int64(value * self.tick)
        if type(value) not in (float, Decimal):
            raise NotOfTypeError
        return within_int64(int((Decimal(repr(float(value))) * self.tick).to_integral_value(ROUND_HALF_EVEN)))

    def instant(self, text: str) -> int:
        if not self.spelling.pattern:
            return nanoseconds(text)
        try:
            return within_int64(time_patterns.nanoseconds(text, self.spelling.pattern, self.spelling.zone))
        except (ValueError, OverflowError) as error:
            raise NotOfTypeError from error

    def from_text(self, text: str) -> Any:  # noqa: ANN401
        number = None if self.spelling.pattern else JSON_NUMBER.fullmatch(text)
        if number is None:
            return self.instant(text)
        value = float(text) if number["fraction"] or number["exponent"] else int(number_in(text))
        require(math.isfinite(value))
        return self.read(value)

    def remark(self, value: object) -> str:
        number = value if isinstance(value, int | float) and not isinstance(value, bool) else 0
        if not self.spelling.unit and LAST_SECOND < abs(number) <= LAST_SECOND * 1000:
            return " (a number is seconds since 1970; `unit: ms` of the attribute is for milliseconds)"
        return f" (the pattern is {self.spelling.pattern})" if self.spelling.pattern else ""

    def written(self, column: pl.Expr) -> pl.Expr | None:
        """A number of units, or a text of the pattern (PA15); else ISO 8601 texts in UTC with the shortest fraction."""
        if self.spelling.pattern:
            return time_patterns.written(column, self.spelling.pattern, self.spelling.zone)
        if self.spelling.unit:
            import polars as pl  # noqa: PLC0415 - see the module's docstring

            return column.cast(pl.Int64) // self.tick
        # %.f writes no fraction or one of 3, 6 or 9 digits.
        return column.dt.to_string("%Y-%m-%dT%H:%M:%S%.fZ").str.replace(r"(\.\d*[1-9])0+Z", "${1}Z")


class BytesForm(JsonForm):
    """Base64 texts with padding, RFC 4648."""

    scanned = SCANNED_VALUE
    quoted = "^[A-Za-z0-9+/]*=*$"
    schema = {"type": "string", "contentEncoding": "base64"}  # noqa: RUF012 - a value that is not changed

    def read(self, value: Any) -> Any:  # noqa: ANN401
        require(type(value) is str)
        try:
            b64decode(value, validate=True)
        except (NotBase64Error, ValueError):
            raise NotOfTypeError from None
        return value

    def from_text(self, text: str) -> Any:  # noqa: ANN401
        return self.read(text)

    def remark(self, value: object) -> str:
        return " (base64 with padding)" if isinstance(value, str | bytes) else ""

    def written(self, column: pl.Expr) -> pl.Expr | None:
        return column.bin.encode("base64")


class JsonTextForm(JsonForm):
    """The value's text, as it stands in the record."""

    scanned = SCANNED_VALUE
    by_text = True

    def read(self, value: Any) -> Any:  # noqa: ANN401
        require(value is not None)
        return orjson.dumps(value).decode()

    def read_text(self, text: str) -> Any:  # noqa: ANN401
        """The text itself (ST3)."""
        require(text != "null" and not is_too_deep(text))
        return text


class StructForm(JsonForm):
    """An object with a member for each member of the type. Further members are ignored."""

    scanned = SCANNED_VALUE

    def __init__(self, type_: Type, spelling: Spelling = STRICT) -> None:
        super().__init__(type_, spelling)
        assert isinstance(type_, StructType)  # noqa: S101 - by the table
        self.members = [(name, json_form(inner, spelling.of(name))) for name, inner in type_.members]

    @property
    def inside(self) -> tuple[JsonForm, ...]:
        return tuple(form for _, form in self.members)

    def parts(self, value: Any) -> Iterable[tuple[str, JsonForm, Any]]:  # noqa: ANN401
        members = self.members if type(value) is dict else []
        return ((f".{name}", form, value.get(name, MISSING)) for name, form in members)

    @property
    def schema(self) -> dict[str, Any]:
        return object_schema([(name, form) for name, form in self.members])

    @property
    def by_text(self) -> bool:
        return any(form.by_text or form.spelling.coerce != self.spelling.coerce for _, form in self.members)

    def read(self, value: Any) -> Any:  # noqa: ANN401
        """Missing members are null (ST2)."""
        require(type(value) is dict)
        return tuple([form.read(value.get(name)) for name, form in self.members])

    def coerced(self, value: Any) -> Any:  # noqa: ANN401
        require(type(value) is dict)
        return tuple([form.coerced(value.get(name)) for name, form in self.members])

    def read_text(self, text: str) -> Any:  # noqa: ANN401
        require(text.startswith("{"))
        texts = members_of(text)
        return tuple([form.read_text(texts.get(name, "null")) for name, form in self.members])


class MapForm(JsonForm):
    """An object of any members, whose names are the keys, as plain texts; with `pairs` a list of entries (PA17)."""

    scanned = SCANNED_VALUE

    def __init__(self, type_: Type, spelling: Spelling = STRICT) -> None:
        super().__init__(type_, spelling)
        key, value = type_.parts
        self.key, self.value = json_form(key), json_form(value, replace(spelling, pairs=None))
        self.pairs = spelling.pairs

    @property
    def inside(self) -> tuple[JsonForm, ...]:
        return (self.key, self.value)

    def parts(self, value: Any) -> Iterable[tuple[str, JsonForm, Any]]:  # noqa: ANN401
        entries = value if type(value) is dict and self.pairs is None else {}
        return ((f"[{shown(name)}]", self.value, part) for name, part in entries.items())

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": self.value.schema}

    def read(self, value: Any) -> Any:  # noqa: ANN401
        return self._of(value, self.value.read)

    def coerced(self, value: Any) -> Any:  # noqa: ANN401
        return self._of(value, self.value.coerced)

    def _of(self, value: Any, read: Callable[[Any], Any]) -> Any:  # noqa: ANN401
        if self.pairs is not None:
            require(type(value) is list)
            return self._in_order(self._entries((item, partial(_value_at, item, read)) for item in value))
        require(type(value) is dict)
        return self._in_order((self.read_key(name), read(item)) for name, item in value.items())

    def read_text(self, text: str) -> Any:  # noqa: ANN401
        read = self.value.read_text
        if self.pairs is not None:
            require(text.startswith("["))
            items = ((parsed(item, digits=False), partial(_text_at, item, read)) for item in items_of(text))
            return self._in_order(self._entries(items))
        require(text.startswith("{"))
        return self._in_order((self.read_key(name), read(item)) for name, item in members_of(text).items())

    def _entries(self, items: Iterable[tuple[Any, Callable[[Steps], Any]]]) -> Iterator[tuple[Any, Any]]:
        """The entries in the elements of a list, each given with what reads its value at a path. An element without a
        value is null, or no entry if the values of the map are not optional (PA17).
        """
        assert self.pairs is not None  # noqa: S101 - by the caller
        for item, read in items:
            name, _ = at_path(item, self.pairs.key)
            key = self.read_key(name) if isinstance(name, str) else self.key.read(name)
            path = next((path for path in self.pairs.value if at_path(item, path)[0] is not None), None)
            if path is not None:
                yield key, read(path)
            elif self.value.type.optional:
                yield key, None

    def read_key(self, name: str) -> Any:  # noqa: ANN401
        """The key with this plain text. A text that can be none, such as "x" for an int64, is no key."""
        try:
            return self.key.read(name)
        except NotOfTypeError:
            try:
                return self.key.read_text(name)
            except orjson.JSONDecodeError:
                raise NotOfTypeError from None

    @staticmethod
    def _in_order(entries: Iterable[tuple[Any, Any]]) -> tuple[tuple[Any, Any], ...]:
        return tuple(sorted(dict(entries).items(), key=lambda entry: entry[0]))


def _value_at(item: Any, read: Callable[[Any], Any], path: Steps) -> Any:  # noqa: ANN401
    return read(at_path(item, path)[0])


def _text_at(text: str, read: Callable[[str], Any], path: Steps) -> Any:  # noqa: ANN401
    return read(text_at(text, path))


class ListForm(JsonForm):
    scanned = SCANNED_VALUE

    def __init__(self, type_: Type, spelling: Spelling = STRICT) -> None:
        super().__init__(type_, spelling)
        assert type_.element is not None  # noqa: S101 - a list has elements
        self.element = json_form(type_.element, spelling)

    @property
    def inside(self) -> tuple[JsonForm, ...]:
        return (self.element,)

    def parts(self, value: Any) -> Iterable[tuple[str, JsonForm, Any]]:  # noqa: ANN401
        elements = value if type(value) is list else []
        return ((f"[{number}]", self.element, part) for number, part in enumerate(elements))

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": self.element.schema}

    def read(self, value: Any) -> Any:  # noqa: ANN401
        require(type(value) is list)
        return [self.element.read(item) for item in value]

    def coerced(self, value: Any) -> Any:  # noqa: ANN401
        require(type(value) is list)
        return [self.element.coerced(item) for item in value]

    def read_text(self, text: str) -> Any:  # noqa: ANN401
        require(text.startswith("["))
        return [self.element.read_text(item) for item in items_of(text)] if self.by_text else super().read_text(text)

    def written(self, column: pl.Expr) -> pl.Expr | None:
        import polars as pl  # noqa: PLC0415 - see the module's docstring

        element = self.element.written(pl.element())
        return None if element is None else column.list.eval(element)


class OptionalForm(JsonForm):
    """The form of the inner type, and null. With `coerce` an empty text is null, unless it is a string (PA10)."""

    def __init__(self, type_: Type, spelling: Spelling = STRICT) -> None:
        super().__init__(type_, spelling)
        self.present = json_form(type_.present, spelling)
        self.scanned, self.tick = self.present.scanned, self.present.tick

    @property
    def inside(self) -> tuple[JsonForm, ...]:
        return (self.present,)

    def parts(self, value: Any) -> Iterable[tuple[str, JsonForm, Any]]:  # noqa: ANN401
        return self.present.parts(value)

    @property
    def schema(self) -> dict[str, Any]:
        return {"oneOf": [{"type": "null"}, self.present.schema]}

    def read(self, value: Any) -> Any:  # noqa: ANN401
        return None if value is None else self.present.read(value)

    def coerced(self, value: Any) -> Any:  # noqa: ANN401
        return None if value is None or self._is_empty(value) else self.present.coerced(value)

    def from_text(self, text: str) -> Any:  # noqa: ANN401
        return None if self._is_empty(text) else self.present.from_text(text)

    def _is_empty(self, value: object) -> bool:
        return value == "" and not isinstance(self.type.present, StringType)

    def read_text(self, text: str) -> Any:  # noqa: ANN401
        empty = self.spelling.coerce and text == '""' and self._is_empty("")
        return None if text == "null" or empty else self.present.read_text(text)

    def remark(self, value: object) -> str:
        return self.present.remark(value)

    def written(self, column: pl.Expr) -> pl.Expr | None:
        return self.present.written(column)


FORMS: Mapping[type[Type], type[JsonForm]] = {
    BooleanType: BooleanForm,
    Int64Type: Int64Form,
    Float64Type: Float64Form,
    StringType: StringForm,
    TimestampType: TimestampForm,
    ListType: ListForm,
    OptionalType: OptionalForm,
    BytesType: BytesForm,
    JsonType: JsonTextForm,
    MapType: MapForm,
    StructType: StructForm,
    DecimalType: json_decimals.DecimalForm,
}


@cache
def json_form(type_: Type, spelling: Spelling = STRICT) -> JsonForm:
    return FORMS[type(type_)](type_, spelling)


def object_schema(members: Iterable[tuple[str, JsonForm]]) -> dict[str, Any]:
    """The JSON Schema of an object with these members."""
    listed = list(members)
    return {
        "type": "object", "properties": {name: form.schema for name, form in listed},
        "required": [name for name, form in listed if not form.type.optional], "additionalProperties": False,
    }  # fmt: skip
