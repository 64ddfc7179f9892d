"""Conversion of values to int64 words that sort as the values do: the sort keys of a Sort.

-0.0 equals 0.0, and NaN is greater than every number. Strings are in the order of their UTF-8 bytes.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.column_forms import Order, form
from sluice.columns.interner import Interner
from sluice.model.types import Type


def ordered(words: np.ndarray, type_: Type) -> np.ndarray:
    """Words that compare as the values do. Exception: a string keeps its code, which has no order (see `ranks`)."""
    return form(type_).ordered(words)


def ranks(words: np.ndarray, type_: Type, strings: Interner, *, descending: bool) -> np.ndarray:
    """Numbers that sort as these values do; with `descending` in the opposite order.

    `words` are from `ordered`. Numbers of strings can be compared only within one call.
    """
    if form(type_).order is Order.TEXT:
        codes, words = np.unique(words, return_inverse=True)
        rank = np.empty(len(codes), np.int64)
        rank[pc.sort_indices(strings.take(codes)).to_numpy()] = np.arange(len(codes))
        words = rank[words]
    return ~words if descending else words


def canonical(keys: pa.BinaryArray) -> np.ndarray:
    """The row numbers of the keys, sorted by their bytes. Partitions that fire together emit in this order."""
    return pc.sort_indices(keys).to_numpy()  # type: ignore[no-any-return]
