"""Every attribute as one column of 64-bit words, the only thing that kernels see.

int64 and timestamp are themselves, float64 is its bits, boolean is 0 or 1, string and list are codes of interned bytes.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from service.engine.arrow import arrow_type
from service.engine.strings import Strings
from service.pipeline.types import Kind, Type

NANOSECONDS = 10**9


def to_words(array: pa.Array, type_: Type, strings: Strings) -> np.ndarray:
    """The words of an array without nulls."""
    match type_.kind:
        case Kind.FLOAT64:
            return np.asarray(array.to_numpy(zero_copy_only=False)).view(np.int64)
        case Kind.STRING:
            return strings.intern_arrow(array)
        case Kind.LIST:
            return _list_codes(array, type_, strings)
        case _:
            return np.asarray(pc.cast(array, pa.int64()).to_numpy(zero_copy_only=False))


def from_words(words: np.ndarray, type_: Type, strings: Strings) -> pa.Array:
    """The array of these words."""
    match type_.kind:
        case Kind.FLOAT64:
            return pa.array(np.ascontiguousarray(words).view(np.float64))
        case Kind.STRING:
            return strings.take(words).view(pa.string())
        case Kind.LIST:
            return _lists(strings.take(words), type_, strings)
        case Kind.BOOLEAN:
            return pa.array(words.astype(np.bool_))
        case _:
            return pa.array(np.ascontiguousarray(words)).view(arrow_type(type_))


def from_units(units: np.ndarray, type_: Type) -> pa.Array:
    """Event times as values of their attribute: nanoseconds become float64 seconds, else they are the words."""
    if type_.kind is Kind.FLOAT64:
        return pa.array(units // NANOSECONDS + (units % NANOSECONDS) / NANOSECONDS)
    return pa.array(np.ascontiguousarray(units)).view(arrow_type(type_))


def _list_codes(array: pa.Array, type_: Type, strings: Strings) -> np.ndarray:
    """A list is interned as the bytes of its elements' words."""
    elements = to_words(array.values, _element(type_), strings)
    starts = array.offsets.to_numpy().astype(np.int64) * 8
    return strings.intern(np.ascontiguousarray(elements).view(np.uint8), starts)


def _lists(values: pa.BinaryArray, type_: Type, strings: Strings) -> pa.Array:
    _, starts, data = values.buffers()
    offsets = np.frombuffer(starts, np.int32) // 8
    words = np.frombuffer(data or b"", np.int64)
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), from_words(words, _element(type_), strings))


def _element(type_: Type) -> Type:
    if type_.element is None:
        msg = f"{type_} is no list"
        raise TypeError(msg)
    return type_.element
