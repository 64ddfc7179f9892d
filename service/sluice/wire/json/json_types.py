"""How JSON and plain texts hold the values of each type: the table of the types for the formats json, csv and text.

`docs/formats.md` has these rules as a table. The module imports no array library: `sluice check` reads it.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from binascii import Error as NotBase64Error
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import ROUND_HALF_EVEN, Decimal
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar

import orjson

from sluice.json_texts import is_too_deep, items_of, members_of
from sluice.model.members import BASE64, STRICT, TEXT, UNITS, Spelling, Steps
from sluice.model.types import (
    BooleanType,
    BytesType,
    DecimalType,
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
from sluice.model.types.decimal_type import number_of
from sluice.time_units import SECOND
from sluice.wire.json import time_patterns
from sluice.wire.json.json_values import (
    INT64,
    LAST_SECOND,
    NOT_FINITE,
    NotOfTypeError,
    as_written,
    at_path,
    nanoseconds,
    parsed,
    require,
    text_at,
    within_int64,
)

if TYPE_CHECKING:
    import polars as pl

#: what the compiled scanner reads for an attribute (json_scan.py)
#: the largest scale of a number that has its scale beside it, as databases have them
MAX_SCALE = 127
SCANNED_BOOLEAN, SCANNED_INT64, SCANNED_SECONDS, SCANNED_NUMBER, SCANNED_STRING = range(5)
#: any value, whose text the scanner finds (`JsonForm.of_texts`)
SCANNED_VALUE = 5
#: the code of a decimal: SCANNED_DECIMAL + digits before the point * DIGITS + digits behind it
SCANNED_DECIMAL, DIGITS = 64, 64
#: the mark at both ends of a text that is written without quotes
BARE = "\ufdd0"
#: the pattern of the texts of a number
NUMBER = "^[-+.0-9eE]+$"
#: the most digits of an int64; the text of an integer whose zero has no sign
INT64_DIGITS, MINUS_ZERO = 19, "-0"
#: a number of JSON
JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(?P<fraction>\.[0-9]+)?(?P<exponent>[eE][-+]?[0-9]+)?")


class JsonForm(ABC):
    """The form of the values of one type in JSON, and in texts, which have the same form without quotes."""

    #: what the scanner reads, as code; None: only the exact decoder reads the type
    scanned: int | None = None
    #: patterns of the texts that can be JSON values without quotes and with quotes; empty: none can
    bare: ClassVar[str] = ""
    quoted: ClassVar[str] = ""
    #: the nanoseconds of the unit of a number that is a time
    tick: int = SECOND

    def __init__(self, type_: Type, spelling: Spelling = STRICT) -> None:
        self.type = type_
        self.spelling = spelling

    @abstractmethod
    def read(self, value: Any) -> Any:  # noqa: ANN401 - a JSON value
        """The value of the model that a parsed JSON value gives. Raises NotOfTypeError."""

    def from_text(self, text: str) -> Any:  # noqa: ANN401
        """The value that the text of a scalar gives with `coerce` (PA10). Raises NotOfTypeError."""
        raise NotOfTypeError(text)

    def coerced(self, value: Any) -> Any:  # noqa: ANN401
        """The value that a JSON value gives with `coerce`; its numbers are their texts. Raises NotOfTypeError."""
        if type(value) is bool:
            return self.from_text(str(value).lower())
        require(isinstance(value, str))
        return self.from_text(value)

    @property
    def digits(self) -> bool:
        """Whether `read` needs the digits of a number: a number with a point or an exponent is then a Decimal."""
        return any(json_form(part, self.spelling).digits for part in self.type.parts)

    @property
    def by_text(self) -> bool:
        """Whether `read_text` reads the values, not `read`: their texts, or those of values inside, are kept, or some
        values inside are coerced and others not.
        """
        return any(json_form(part, self.spelling).by_text for part in self.type.parts)

    def read_text(self, text: str) -> Any:  # noqa: ANN401 - a value of the model
        """As `read`, for the text of a valid JSON value, which is coerced if the file says so."""
        if self.spelling.coerce:
            return self.coerced(as_written(text))
        return self.read(parsed(text, digits=self.digits))

    def remark(self, value: object) -> str:
        """What to do about a value that is not of the type, for the end of a message; mostly empty."""
        return ""

    def written(self, column: pl.Expr) -> pl.Expr | None:
        """What is written in place of the column; None: the column itself."""
        return None


class BooleanForm(JsonForm):
    scanned = SCANNED_BOOLEAN
    bare = "^(true|false)$"

    def read(self, value: Any) -> Any:  # noqa: ANN401
        require(type(value) is bool)
        return value

    def from_text(self, text: str) -> Any:  # noqa: ANN401
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        number = decimal(text)
        require(number in (0, 1))
        return number == 1


class Int64Form(JsonForm):
    scanned = SCANNED_INT64
    bare = "^[-0-9]+$"

    def read(self, value: Any) -> Any:  # noqa: ANN401
        require(type(value) is int and value in INT64)
        return value

    def from_text(self, text: str) -> Any:  # noqa: ANN401
        number = decimal(text)
        require(not number or number.adjusted() < INT64_DIGITS)
        require(number == number.to_integral_value())
        return within_int64(int(number))


class Float64Form(JsonForm):
    scanned = SCANNED_NUMBER
    bare = NUMBER
    quoted = f"^({'|'.join(NOT_FINITE)})$"

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

    def read(self, value: Any) -> Any:  # noqa: ANN401
        require(type(value) is str)
        return value

    def from_text(self, text: str) -> Any:  # noqa: ANN401
        return str(text)


class TimestampForm(JsonForm):
    bare = NUMBER
    quoted = "^[0-9]{4}-[-+0-9:.,TtZz ]*$"

    def __init__(self, type_: Type, spelling: Spelling = STRICT) -> None:
        super().__init__(type_, spelling)
        self.tick = UNITS[spelling.unit or "s"]

    @property
    def scanned(self) -> int | None:  # type: ignore[override]
        return None if self.spelling.pattern else SCANNED_SECONDS

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
        value = float(text) if number["fraction"] or number["exponent"] else int(decimal(text))
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

    def read(self, value: Any) -> Any:  # noqa: ANN401
        return None if value is None else self.present.read(value)

    def coerced(self, value: Any) -> Any:  # noqa: ANN401
        return None if value is None or self._is_empty(value) else self.present.coerced(value)

    def from_text(self, text: str) -> Any:  # noqa: ANN401
        return None if self._is_empty(text) else self.present.from_text(text)

    def _is_empty(self, value: object) -> bool:
        return value == "" and not isinstance(self.type.present, StringType)

    @property
    def by_text(self) -> bool:
        return self.present.by_text

    @property
    def digits(self) -> bool:
        return self.present.digits

    def read_text(self, text: str) -> Any:  # noqa: ANN401
        return None if text == "null" else self.present.read_text(text)

    def remark(self, value: object) -> str:
        return self.present.remark(value)

    def written(self, column: pl.Expr) -> pl.Expr | None:
        return self.present.written(column)


class DecimalForm(JsonForm):
    """Numbers, also in quotes. Written as a number, whose digits are kept (json_write.py), or as a text; or read and
    written as Kafka Connect's bytes: the unscaled number in two's complement, the high byte first, in base64 (DE18).
    An object of these bytes and their scale is read, too: it is Debezium's number without a fixed scale.
    """

    bare = NUMBER

    def __init__(self, type_: Type, spelling: Spelling = STRICT) -> None:
        super().__init__(type_, spelling)
        assert isinstance(type_, DecimalType)  # noqa: S101 - see the table
        self.decimal = type_
        self.as_bytes = spelling.decimals == BASE64
        self.scanned = SCANNED_VALUE if self.as_bytes else SCANNED_DECIMAL + type_.whole * DIGITS + type_.scale

    @property
    def digits(self) -> bool:
        return not self.as_bytes

    def read(self, value: Any) -> Any:  # noqa: ANN401
        exact = self.decimal.exact(self._number(value) if self.as_bytes else value)
        if exact is None:
            raise NotOfTypeError
        return exact

    def _number(self, value: object) -> Decimal:
        variable = isinstance(value, dict) and value.keys() == {"scale", "value"}
        scale, text = (value["scale"], value["value"]) if variable else (self.decimal.scale, value)  # type: ignore[index]
        require(type(scale) is int and abs(scale) <= MAX_SCALE)
        try:
            content = b64decode(text, validate=True) if isinstance(text, str) else b""
        except ValueError:
            raise NotOfTypeError from None
        require(content != b"")
        return Decimal(f"{int.from_bytes(content, 'big', signed=True)}e{-scale}")

    def from_text(self, text: str) -> Any:  # noqa: ANN401
        return self.read(text if self.as_bytes else decimal(text))

    def remark(self, value: object) -> str:
        if self.as_bytes:
            return " (`decimals: base64` reads the bytes of Kafka Connect)"
        number = number_of(value)
        if number is None:
            return ""
        before, behind = self.decimal.whole, self.decimal.scale
        return f" (it has at most {before} digits before the point and {behind} behind it, zeros at the end apart)"

    def written(self, column: pl.Expr) -> pl.Expr | None:
        import polars as pl  # noqa: PLC0415 - see the module's docstring

        if self.as_bytes:
            return column.map_batches(connect_texts, return_dtype=pl.String)
        text = column.cast(pl.String)
        return text if self.spelling.decimals == TEXT else pl.format(f"{BARE}{{}}{BARE}", text)


def connect_texts(column: pl.Series) -> pl.Series:
    """Decimals as Kafka Connect's bytes in base64; null for null."""
    import polars as pl  # noqa: PLC0415 - see the module's docstring

    from sluice.columns import number_columns  # noqa: PLC0415 - it imports numpy

    numbers = number_columns.unscaled(column.rechunk().to_arrow())
    texts = [None if n is None else b64encode(number_columns.as_bytes(n)).decode() for n in numbers]
    return pl.Series(column.name, texts, pl.String)


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
    DecimalType: DecimalForm,
}


@cache
def json_form(type_: Type, spelling: Spelling = STRICT) -> JsonForm:
    return FORMS[type(type_)](type_, spelling)


def decimal(text: str) -> Decimal:
    """The exact value of a number of JSON. Raises NotOfTypeError for other texts."""
    require(JSON_NUMBER.fullmatch(text) is not None)
    try:
        return Decimal(text)
    except ArithmeticError as error:
        raise NotOfTypeError from error
