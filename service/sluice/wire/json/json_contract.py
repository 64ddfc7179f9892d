"""The contract of a JSON form: how JSON and plain texts hold the values of one type (formats json, csv and text).

json_types.py has the table of the forms. The module imports no array library: `sluice check` reads it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Final

from sluice.json_texts import text_with_digits
from sluice.model.members import STRICT, Spelling
from sluice.model.types import Type
from sluice.time_units import SECOND
from sluice.wire.json.json_values import NotOfTypeError, as_written, parsed, require, shown

if TYPE_CHECKING:
    import polars as pl

#: what the compiled scanner reads for an attribute (json_scan.py)
SCANNED_BOOLEAN, SCANNED_INT64, SCANNED_SECONDS, SCANNED_NUMBER, SCANNED_STRING = range(5)
#: any value, whose text the scanner finds (`JsonForm.of_texts`)
SCANNED_VALUE = 5
#: the code of an exact number: SCANNED_EXACT + digits before the point * DIGITS + digits behind it
SCANNED_EXACT, DIGITS = 64, 64
#: the mark at both ends of a text that is written without quotes
BARE = "\ufdd0"
#: the pattern of the texts of a number
NUMBER_PATTERN = "^[-+.0-9eE]+$"
#: in place of a value inside of a value: an object has no such member
MISSING: Final = object()
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

    @property
    def schema(self) -> dict[str, Any]:
        """What a JSON Schema says about the values."""
        return {}

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
    def inside(self) -> tuple[JsonForm, ...]:
        """The forms of the types inside."""
        return ()

    def parts(self, value: Any) -> Iterable[tuple[str, JsonForm, Any]]:  # noqa: ANN401
        """The values inside of a value: the step of a path that leads there, the form, the value or MISSING."""
        return ()

    @property
    def digits(self) -> bool:
        """Whether `read` needs the digits of a number: a number with a point or an exponent is then a Decimal."""
        return any(form.digits for form in self.inside)

    @property
    def by_text(self) -> bool:
        """Whether `read_text` reads the values, not `read`: their texts, or those of values inside, are kept, or some
        values inside are coerced and others not.
        """
        return any(form.by_text for form in self.inside)

    def read_text(self, text: str) -> Any:  # noqa: ANN401 - a value of the model
        """As `read`, for the text of a valid JSON value, which is coerced if the file says so."""
        if self.spelling.coerce:
            return self.coerced(as_written(text))
        return self.read(parsed(text, digits=self.digits))

    def remark(self, value: object) -> str:
        """What to do about a value that is not of the type, for the end of a message; mostly empty."""
        return ""

    @property
    def is_bare(self) -> bool:
        """Whether values are written as texts between two BARE, whose quotes are then removed (json_write.py)."""
        return any(form.is_bare for form in self.inside)

    def written(self, column: pl.Expr) -> pl.Expr | None:
        """What is written in place of the column; None: the column itself."""
        return None


def fault_inside(form: JsonForm, value: Any, place: str) -> str:  # noqa: ANN401
    """The first value inside of a value that is not of its type, for the end of a message; empty if there is none.

    `place` is the path of the value itself.
    """
    for step, inner, part in form.parts(value):
        if not _fits(inner, part):
            got = "nothing" if part is MISSING else f"{shown(part)}{inner.remark(part)}"
            return fault_inside(inner, part, place + step) or f"; at {place}{step}: expected {inner.type}, got {got}"
    return ""


def _fits(form: JsonForm, value: Any) -> bool:  # noqa: ANN401
    try:
        form.read_text(text_with_digits(None if value is MISSING else value))
    except (NotOfTypeError, RecursionError):
        return False
    return True


def number_in(text: str) -> Decimal:
    """The exact value of a number of JSON. Raises NotOfTypeError for other texts."""
    require(JSON_NUMBER.fullmatch(text) is not None)
    try:
        return Decimal(text)
    except ArithmeticError as error:
        raise NotOfTypeError from error
