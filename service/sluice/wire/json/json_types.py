"""How JSON and plain texts hold the values of each type: the table of the types for the formats json, csv and text.

`docs/formats.md` has these rules as a table. The module imports no array library: `sluice check` reads it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from decimal import ROUND_HALF_EVEN, Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

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


class JsonForm(ABC):
    """The form of the values of one type in JSON, and in texts, which have the same form without quotes."""

    #: what the scanner reads, as code; None: only the exact decoder reads the type
    scanned: int | None = None
    #: whether `read` needs the digits of a number: a number with a point or an exponent is then a Decimal
    digits: ClassVar[bool] = False
    #: patterns of the texts that can be JSON values without quotes and with quotes; empty: none can
    bare: ClassVar[str] = ""
    quoted: ClassVar[str] = ""

    def __init__(self, type_: Type) -> None:
        self.type = type_

    @abstractmethod
    def read(self, value: Any) -> Any:  # noqa: ANN401 - a JSON value
        """The value of the model that a parsed JSON value gives. Raises NotOfTypeError."""

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


class Int64Form(JsonForm):
    scanned = SCANNED_INT64
    bare = "^[-0-9]+$"

    def read(self, value: Any) -> Any:  # noqa: ANN401
        require(type(value) is int and value in INT64)
        return value


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


class StringForm(JsonForm):
    scanned = SCANNED_STRING

    def read(self, value: Any) -> Any:  # noqa: ANN401
        require(type(value) is str)
        return value


class TimestampForm(JsonForm):
    scanned = SCANNED_SECONDS
    bare = NUMBER
    quoted = "^[0-9]{4}-[-+0-9:.,TtZz ]*$"

    def read(self, value: Any) -> Any:  # noqa: ANN401
        """Nanoseconds of a text, or of a number of seconds.

        A float64 counts as the shortest decimal number that is read as this float64.
        """
        if type(value) is str:
            return nanoseconds(value)
        if type(value) is int:
            return within_int64(value * SECOND)
        if type(value) not in (float, Decimal):
            raise NotOfTypeError
        return within_int64(int((Decimal(repr(float(value))) * SECOND).to_integral_value(ROUND_HALF_EVEN)))

    def remark(self, value: object) -> str:
        number = value if isinstance(value, int | float) and not isinstance(value, bool) else 0
        if LAST_SECOND < abs(number) <= LAST_SECOND * 1000:
            return " (a number is seconds since 1970; for milliseconds the type is int64)"
        return ""

    def written(self, column: pl.Expr) -> pl.Expr | None:
        """ISO 8601 texts in UTC with the shortest fraction."""
        # %.f writes no fraction or one of 3, 6 or 9 digits.
        return column.dt.to_string("%Y-%m-%dT%H:%M:%S%.fZ").str.replace(r"(\.\d*[1-9])0+Z", "${1}Z")


class ListForm(JsonForm):
    def __init__(self, type_: Type) -> None:
        super().__init__(type_)
        assert type_.element is not None  # noqa: S101 - a list has elements
        self.element = json_form(type_.element)

    @property
    def digits(self) -> bool:  # type: ignore[override]
        return self.element.digits

    def read(self, value: Any) -> Any:  # noqa: ANN401
        require(type(value) is list)
        return [self.element.read(item) for item in value]

    def written(self, column: pl.Expr) -> pl.Expr | None:
        import polars as pl  # noqa: PLC0415 - see the module's docstring

        element = self.element.written(pl.element())
        return None if element is None else column.list.eval(element)


class OptionalForm(JsonForm):
    """The form of the inner type, and null."""

    def __init__(self, type_: Type) -> None:
        super().__init__(type_)
        self.present = json_form(type_.present)

    def read(self, value: Any) -> Any:  # noqa: ANN401
        return None if value is None else self.present.read(value)

    def remark(self, value: object) -> str:
        return self.present.remark(value)

    def written(self, column: pl.Expr) -> pl.Expr | None:
        return self.present.written(column)


class DecimalForm(JsonForm):
    """Numbers, also in quotes. Written as a number, whose digits are kept (json_write.py)."""

    bare = NUMBER
    digits = True

    def __init__(self, type_: Type) -> None:
        super().__init__(type_)
        assert isinstance(type_, DecimalType)  # noqa: S101 - see the table
        self.decimal = type_
        self.scanned = SCANNED_DECIMAL + type_.whole * DIGITS + type_.scale

    def read(self, value: Any) -> Any:  # noqa: ANN401
        exact = self.decimal.exact(value)
        if exact is None:
            raise NotOfTypeError
        return exact

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
def json_form(type_: Type) -> JsonForm:
    return FORMS[type(type_)](type_)
