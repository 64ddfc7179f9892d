"""Forms of values that are one word: booleans, numbers and times."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.forms.bytes_forms import large_binary
from sluice.columns.forms.form_contract import ColumnForm, Order
from sluice.columns.number_columns import times
from sluice.time_units import SECOND

if TYPE_CHECKING:
    from sluice.columns.interner import Interner, Spans


SPECIAL = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


LARGEST = np.iinfo(np.int64).max


class WordForm(ColumnForm):
    """A value is one word, the 64 bits of its Arrow value if a type says nothing else."""

    def to_words(self, array: pa.Array, strings: Interner) -> np.ndarray:
        return self.words(array)

    def from_words(self, words: np.ndarray, strings: Interner) -> pa.Array:
        return self.values(words)

    def pieces(self, array: pa.Array) -> pa.LargeBinaryArray:
        content = np.ascontiguousarray(self.words(array)).view(np.uint8)
        return large_binary(content, np.arange(len(array) + 1) * 8)

    def from_spans(self, content: np.ndarray, spans: Spans) -> pa.Array:
        from sluice.columns.interner import gathered  # noqa: PLC0415 - a compiled kernel

        return self.values(gathered(content, spans.first, spans.length).view(np.int64))

    def words(self, array: pa.Array) -> np.ndarray:
        return np.asarray(array.view(pa.int64()).to_numpy(zero_copy_only=False))

    def values(self, words: np.ndarray) -> pa.Array:
        return pa.array(np.ascontiguousarray(words)).view(self.arrow)


class BooleanForm(WordForm):
    arrow = pa.bool_()
    json = frozenset({bool})

    def words(self, array: pa.Array) -> np.ndarray:
        return np.asarray(pc.cast(array, pa.int64()).to_numpy(zero_copy_only=False))

    def values(self, words: np.ndarray) -> pa.Array:
        return pa.array(words.astype(np.bool_))


class Int64Form(WordForm):
    arrow = pa.int64()
    json = frozenset({int})


class Float64Form(WordForm):
    arrow = pa.float64()
    json = frozenset({int, float, str})
    order = Order.REAL

    def sort_words(self, words: np.ndarray) -> np.ndarray:
        """The bits, with all but the sign inverted if negative. NaN is the greatest (O4)."""
        values = np.ascontiguousarray(words).view(np.float64) + 0.0  # -0.0 + 0.0 is 0.0
        bits = values.view(np.int64)
        return np.where(np.isnan(values), LARGEST, bits ^ ((bits >> 63) & LARGEST))

    def from_json(self, values: Sequence[Any]) -> pa.Array:
        return pa.array([SPECIAL[v] if type(v) is str else float(v) for v in values], pa.float64())

    def from_digits(self, texts: list[str]) -> pa.Array:
        return pa.array(list(map(float, texts)), self.arrow)

    def to_json(self, array: pa.Array) -> list[Any]:
        values: list[Any] = array.to_pylist()
        finite = np.isfinite(array.to_numpy(zero_copy_only=False))
        for place in np.flatnonzero(~finite):
            values[place] = _special(values[place])
        return values

    def to_python(self, array: pa.Array) -> list[Any]:
        return array.to_pylist()  # type: ignore[no-any-return]

    def to_key(self, array: pa.Array) -> list[Any]:
        """-0.0 is the key 0.0, and all NaN are one key (unlike A9)."""
        return self.to_json(pc.add(array, 0.0))


class TimestampForm(WordForm):
    arrow = pa.timestamp("ns", "UTC")
    json = frozenset({int, float, str})

    @property
    def handed(self) -> pa.DataType:
        return pa.int64()  # Python's datetime cannot hold nanoseconds

    def from_json(self, values: Sequence[Any]) -> pa.Array:
        texts = pa.array([v if type(v) is str else None for v in values], pa.string())
        numbers = pa.array([None if type(v) is str else nanoseconds(v) for v in values], pa.int64())
        instants = times(texts)
        if instants.null_count > texts.null_count:
            msg = "not all texts are times in ISO 8601"
            raise ValueError(msg)
        return pc.coalesce(instants, numbers.view(self.arrow))

    def to_json(self, array: pa.Array) -> list[Any]:
        text = pc.strftime(array.view(pa.timestamp("ns")), format="%Y-%m-%dT%H:%M:%S")
        shortest = pc.utf8_rtrim(pc.utf8_rtrim(text, "0"), ".")  # the point keeps the zeros of whole seconds
        return pc.binary_join_element_wise(shortest, "Z", "").to_pylist()  # type: ignore[no-any-return]


def nanoseconds(seconds: float | Decimal) -> int:
    """Seconds as nanoseconds, rounded to whole ones. A float counts as the shortest decimal that represents it."""
    if type(seconds) is int:
        return seconds * SECOND
    return round(Decimal(repr(seconds) if isinstance(seconds, float) else seconds) * SECOND)


def _special(value: float) -> str:
    if value != value:  # noqa: PLR0124 - the test for NaN
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
