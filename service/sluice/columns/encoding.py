"""Conversion between Arrow arrays and columns of 64-bit words, the form of values that the engine's kernels read.

type              word of a value
int64, timestamp  the value itself (a timestamp: nanoseconds since 1970)
float64           its 64 bits
boolean           0 or 1
string            the code of its interned UTF-8 bytes (interner.py)
list              the code of interned bytes: the words of its elements, 8 bytes each. If the elements are strings or
                  lists, the bytes hold the elements' own bytes, each behind its length

    [length: 8 bytes, little-endian][bytes of element 0][length][bytes of element 1] ...

So an interned list does not depend on other interned values, which may be removed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.column_forms import form
from sluice.columns.interner import Interner
from sluice.model.types import TimeForm, Type
from sluice.time_units import SECOND

#: float64 has every whole number below this
FLOAT_EXACT = 2**53


def to_words(array: pa.Array, type_: Type, strings: Interner) -> np.ndarray:
    """The words of an array. The array must have no nulls."""
    return form(type_).to_words(array, strings)


def from_words(words: np.ndarray, type_: Type, strings: Interner) -> pa.Array:
    """The Arrow array that has these words: the inverse of `to_words`."""
    return form(type_).from_words(words, strings)


class WordColumns:
    """The words of a tuple whose values have these types: a row of a table of words.

    Word n is that of value n. Behind these words is a word of presence for each value of an optional type: 1 if there
    is a value, 0 for null. The word of null is that of the type's empty value, so equal tuples have equal words.

        int64?  string  float64?    ->    [ int64 | string | float64 | int64 present | float64 present ]
    """

    def __init__(self, types: Sequence[Type]) -> None:
        self.types = tuple(types)
        optional = [place for place, kind in enumerate(self.types) if kind.optional]
        #: number of a value of an optional type -> its word of presence
        self.presence = {place: len(self.types) + n for n, place in enumerate(optional)}
        #: the number of words of a tuple
        self.width = len(self.types) + len(optional)
        #: the words that are codes of interned bytes
        self.texts = tuple(place for place, kind in enumerate(self.types) if form(kind).interned)

    @property
    def flags(self) -> tuple[int, ...]:
        """The words of presence."""
        return tuple(self.presence.values())

    def write(
        self, words: np.ndarray, rows: np.ndarray | slice, columns: Sequence[pa.Array], strings: Interner
    ) -> None:
        """Writes tuples to these rows of the table. `columns` has a column for each type."""
        for place, (column, kind) in enumerate(zip(columns, self.types, strict=True)):
            words[rows, place] = to_words(column, kind, strings)
        for place, presence in self.presence.items():
            words[rows, presence] = columns[place].is_valid().to_numpy(zero_copy_only=False)

    def read(self, words: np.ndarray, strings: Interner) -> list[pa.Array]:
        """The columns of the tuples in these rows: the inverse of `write`."""
        return [self.column(place, words, strings) for place in range(len(self.types))]

    def column(self, place: int, words: np.ndarray, strings: Interner, rows: np.ndarray | None = None) -> pa.Array:
        """Column `place` of the tuples in these rows of the table; None: in all rows."""
        values = from_words(_word(words, place, rows), self.types[place], strings)
        presence = self.presence.get(place)
        return values if presence is None else or_null(values, _word(words, presence, rows) != 0)


def _word(words: np.ndarray, place: int, rows: np.ndarray | None) -> np.ndarray:
    column: np.ndarray = words[:, place] if rows is None else words[:, place].take(rows)
    return column


def or_null(values: pa.Array, present: np.ndarray) -> pa.Array:
    """The values, with null where `present` is false."""
    return values if present.all() else values.take(pa.array(np.arange(len(values)), mask=~present))


def from_units(units: np.ndarray, type_: Type) -> pa.Array:
    """Converts event times to values of the event-time attribute.

    If the attribute is float64, the times are nanoseconds and become the nearest number of seconds. Otherwise a time is
    the attribute's word.
    """
    if type_.time is TimeForm.SECONDS:
        return in_seconds(pa.array(units))
    return pa.array(np.ascontiguousarray(units)).view(form(type_).arrow)


def in_seconds(nanoseconds: pa.Array | pa.Scalar) -> pa.Array | pa.Scalar:
    """Whole nanoseconds (int64) as seconds: the nearest float64; null stays null.

    Where a float64 does not hold all digits of the nanoseconds, it is the sum of whole seconds and of a fraction, which
    is much finer than the sum.
    """
    exact = pc.and_(pc.less(nanoseconds, FLOAT_EXACT), pc.greater(nanoseconds, -FLOAT_EXACT))
    whole = pc.divide(nanoseconds, SECOND)
    rest = pc.subtract(nanoseconds, pc.multiply(whole, SECOND))
    parts = pc.add(_as_float(whole), pc.divide(_as_float(rest), float(SECOND)))
    return pc.if_else(exact, pc.divide(_as_float(nanoseconds), float(SECOND)), parts)


def _as_float(whole: pa.Array | pa.Scalar) -> pa.Array | pa.Scalar:
    return pc.cast(whole, pa.float64(), safe=False)
