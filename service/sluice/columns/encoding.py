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
