"""The JSON form of decimals."""

from __future__ import annotations

from base64 import b64decode, b64encode
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sluice.model.members import BASE64, NUMBER, STRICT, TEXT, Spelling
from sluice.model.types import Type
from sluice.model.types.decimal_type import DecimalType, number_of
from sluice.wire.json.json_contract import (
    BARE,
    DIGITS,
    NUMBER_PATTERN,
    SCANNED_EXACT,
    SCANNED_VALUE,
    JsonForm,
    number_in,
)
from sluice.wire.json.json_values import MAX_SCALE, NotOfTypeError, require

if TYPE_CHECKING:
    import polars as pl


class DecimalForm(JsonForm):
    """Numbers, also in quotes. Written as a number, whose digits are kept (json_write.py), or as a text; or read and
    written as Kafka Connect's bytes: the unscaled number in two's complement, the high byte first, in base64 (DE18).
    An object of these bytes and their scale is read, too: it is Debezium's number without a fixed scale.
    """

    bare = NUMBER_PATTERN

    def __init__(self, type_: Type, spelling: Spelling = STRICT) -> None:
        super().__init__(type_, spelling)
        assert isinstance(type_, DecimalType)  # noqa: S101 - see the table
        self.decimal = type_
        self.as_bytes = spelling.numbers == BASE64
        self.scanned = SCANNED_VALUE if self.as_bytes else SCANNED_EXACT + type_.whole * DIGITS + type_.scale

    @property
    def digits(self) -> bool:
        return not self.as_bytes

    @property
    def is_bare(self) -> bool:
        return self.spelling.numbers == NUMBER

    @property
    def schema(self) -> dict[str, Any]:
        types = {NUMBER: {"type": "number"}, TEXT: {"type": "string"}}
        return types.get(self.spelling.numbers, {"type": "string", "contentEncoding": "base64"})

    def read(self, value: Any) -> Any:  # noqa: ANN401
        exact = self.decimal.value_of(self._number(value) if self.as_bytes else value)
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
        return self.read(text if self.as_bytes else number_in(text))

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
        return text if self.spelling.numbers == TEXT else pl.format(f"{BARE}{{}}{BARE}", text)


def connect_texts(column: pl.Series) -> pl.Series:
    """Decimals as Kafka Connect's bytes in base64; null for null."""
    import polars as pl  # noqa: PLC0415 - see the module's docstring

    from sluice.columns import number_columns  # noqa: PLC0415 - it imports numpy

    numbers = number_columns.unscaled(column.rechunk().to_arrow())
    texts = [None if n is None else b64encode(number_columns.as_bytes(n)).decode() for n in numbers]
    return pl.Series(column.name, texts, pl.String)
