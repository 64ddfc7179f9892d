"""Forms of decimals: a word if each value fits one, else bytes that compare as the values do."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from sluice.columns import number_columns
from sluice.columns.forms.bytes_forms import TextForm
from sluice.columns.forms.form_contract import ColumnForm, Forms, Types
from sluice.columns.forms.word_forms import WordForm
from sluice.model.types import Type
from sluice.model.types.decimal_type import DecimalType


class DecimalForm(ColumnForm):
    """Decimals: a word if each value fits one, else bytes that compare as the values do."""

    json = frozenset({int, float, str, Decimal})

    def __init__(self, type_: Type, form: Forms) -> None:
        super().__init__(type_, form)
        assert isinstance(type_, DecimalType)  # noqa: S101 - see the table
        self.arrow = pa.decimal128(type_.precision, type_.scale)
        self.value_of = type_.value_of

    @classmethod
    def type_of(cls, arrow: pa.DataType, kind: type[Type], inside: Types) -> Type | None:  # noqa: ARG003 - it has parameters
        return DecimalType(arrow.precision, arrow.scale) if pa.types.is_decimal128(arrow) else None

    def from_values(self, values: Sequence[Any]) -> pa.Array:
        return pa.array([None if v is None else Decimal(v) for v in values], self.arrow)

    def constant(self, value: Any) -> pa.Scalar:  # noqa: ANN401
        return self.from_values([value])[0]

    def from_json(self, values: Sequence[Any]) -> pa.Array:
        """Numbers, or their texts (DE17)."""
        exact = list(map(self.value_of, values))
        if None in exact:
            msg = f"not all values are {self.type}"
            raise ValueError(msg)
        return pa.array(exact, self.arrow)

    def from_digits(self, texts: list[str]) -> pa.Array:
        return pa.array(list(map(self.value_of, texts)), self.arrow)

    def to_json(self, array: pa.Array) -> list[Any]:
        """Texts (DE20): most programs read a number of JSON as a float64, which has not all digits."""
        return number_columns.texts(array).to_pylist()  # type: ignore[no-any-return]

    def to_python(self, array: pa.Array) -> list[Any]:
        return array.to_pylist()  # type: ignore[no-any-return]

    def to_key(self, array: pa.Array) -> list[Any]:
        """Numbers of JSON with all their digits."""
        return [orjson.Fragment(text) for text in self.to_json(array)]


class DecimalWordForm(DecimalForm, WordForm):
    """A word is the value times 10 ** scale."""

    @classmethod
    def of(cls, type_: Type, form: Forms) -> ColumnForm:
        fits = isinstance(type_, DecimalType) and type_.in_word
        return (cls if fits else DecimalBytesForm)(type_, form)

    def words(self, array: pa.Array) -> np.ndarray:
        return np.ascontiguousarray(number_columns.halves(array)[:, 0])

    def values(self, words: np.ndarray) -> pa.Array:
        return number_columns.of_words(words, self.arrow)


class DecimalBytesForm(DecimalForm, TextForm):
    """The bytes compare as the values do, so kernels need no order of their own for them."""

    def to_bytes(self, array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        content = number_columns.ordered_bytes(array).reshape(-1)
        return content, np.arange(len(array) + 1, dtype=np.int64) * number_columns.SIZE

    def from_bytes(self, values: pa.BinaryArray) -> pa.Array:
        _, starts, data = values.buffers()
        first = np.frombuffer(starts, np.int32)[values.offset] if len(values) else 0
        content = np.frombuffer(data or b"", np.uint8)[first : first + len(values) * number_columns.SIZE]
        return number_columns.of_ordered_bytes(content, self.arrow)
