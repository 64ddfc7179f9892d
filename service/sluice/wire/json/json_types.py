"""How JSON and plain texts hold the values of each type: the table of the types for the formats json, csv and text.

`docs/formats.md` has these rules as a table. The module imports no array library: `sluice check` reads it.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from decimal import ROUND_HALF_EVEN, Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from sluice.model.members import STRICT, UNITS, Spelling
from sluice.model.types import (
    BooleanType,
    DecimalType,
    Float64Type,
    Int64Type,
    ListType,
    OptionalType,
    StringType,
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
    nanoseconds,
    require,
    within_int64,
)

if TYPE_CHECKING:
    import polars as pl

#: what the compiled scanner reads for an attribute (json_scan.py)
SCANNED_BOOLEAN, SCANNED_INT64, SCANNED_SECONDS, SCANNED_NUMBER, SCANNED_STRING = range(5)
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
    #: whether `read` needs the digits of a number: a number with a point or an exponent is then a Decimal
    digits: ClassVar[bool] = False
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


class ListForm(JsonForm):
    def __init__(self, type_: Type, spelling: Spelling = STRICT) -> None:
        super().__init__(type_, spelling)
        assert type_.element is not None  # noqa: S101 - a list has elements
        self.element = json_form(type_.element, spelling)

    @property
    def digits(self) -> bool:  # type: ignore[override]
        return self.element.digits

    def read(self, value: Any) -> Any:  # noqa: ANN401
        require(type(value) is list)
        return [self.element.read(item) for item in value]

    def coerced(self, value: Any) -> Any:  # noqa: ANN401
        require(type(value) is list)
        return [self.element.coerced(item) for item in value]

    def written(self, column: pl.Expr) -> pl.Expr | None:
        import polars as pl  # noqa: PLC0415 - see the module's docstring

        element = self.element.written(pl.element())
        return None if element is None else column.list.eval(element)


class OptionalForm(JsonForm):
    """The form of the inner type, and null."""

    digits = property(lambda optional: optional.present.digits)

    def __init__(self, type_: Type, spelling: Spelling = STRICT) -> None:
        super().__init__(type_, spelling)
        self.present = json_form(type_.present, spelling)
        self.scanned, self.tick = self.present.scanned, self.present.tick

    def read(self, value: Any) -> Any:  # noqa: ANN401
        return None if value is None else self.present.read(value)

    def coerced(self, value: Any) -> Any:  # noqa: ANN401
        return None if value is None else self.present.coerced(value)

    def from_text(self, text: str) -> Any:  # noqa: ANN401
        return self.present.from_text(text)

    def remark(self, value: object) -> str:
        return self.present.remark(value)

    def written(self, column: pl.Expr) -> pl.Expr | None:
        return self.present.written(column)


class DecimalForm(JsonForm):
    """Numbers, also in quotes. Written as a number, whose digits are kept (json_write.py)."""

    bare = NUMBER
    digits = True

    def __init__(self, type_: Type, spelling: Spelling = STRICT) -> None:
        super().__init__(type_, spelling)
        assert isinstance(type_, DecimalType)  # noqa: S101 - see the table
        self.decimal = type_
        self.scanned = SCANNED_DECIMAL + type_.whole * DIGITS + type_.scale

    def read(self, value: Any) -> Any:  # noqa: ANN401
        exact = self.decimal.exact(value)
        if exact is None:
            raise NotOfTypeError
        return exact

    def from_text(self, text: str) -> Any:  # noqa: ANN401
        return self.read(decimal(text))

    def remark(self, value: object) -> str:
        number = number_of(value)
        if number is None:
            return ""
        before, behind = self.decimal.whole, self.decimal.scale
        return f" (it has at most {before} digits before the point and {behind} behind it, zeros at the end apart)"

    def written(self, column: pl.Expr) -> pl.Expr | None:
        import polars as pl  # noqa: PLC0415 - see the module's docstring

        return pl.format(f"{BARE}{{}}{BARE}", column.cast(pl.String))


FORMS: Mapping[type[Type], type[JsonForm]] = {
    BooleanType: BooleanForm,
    Int64Type: Int64Form,
    Float64Type: Float64Form,
    StringType: StringForm,
    TimestampType: TimestampForm,
    ListType: ListForm,
    OptionalType: OptionalForm,
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
