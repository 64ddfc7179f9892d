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

from sluice.columns.arrow_types import arrow_type
from sluice.columns.interner import Interner, buffers
from sluice.columns.kernel import kernel, read_only
from sluice.model.types import Kind, Type
from sluice.time_units import SECOND

#: the size of a length in bytes
LENGTH = 8


def frame(values: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Puts a length in front of each element `values[starts[i]:starts[i + 1]]`.

    Returns the bytes, and where each element begins in them (at its length), with the end of the last element.
    """
    begin = starts - starts[0] + LENGTH * np.arange(len(starts))
    framed = np.empty(int(begin[-1]), np.uint8)
    _frame(read_only(values), starts, framed)
    return read_only(framed), begin


def unframe(framed: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The inverse of `frame`, for lists whose bytes `framed[starts[i]:starts[i + 1]]` follow each other without gaps.

    Returns the number of elements of each list, the length of each element, and the bytes of all elements.
    """
    counts = np.zeros(len(starts) - 1, np.int64)
    lengths, values = np.empty(len(framed) // LENGTH, np.int64), np.empty(len(framed), np.uint8)
    _unframe(read_only(framed), starts, counts, lengths, values)
    lengths = lengths[: int(counts.sum())]
    return counts, lengths, values[: int(lengths.sum())]


@kernel
def _frame(values: np.ndarray, starts: np.ndarray, framed: np.ndarray) -> None:
    place = 0
    for row in range(len(starts) - 1):
        length = starts[row + 1] - starts[row]
        for i in range(LENGTH):
            framed[place + i] = (length >> (8 * i)) & 255
        place += LENGTH
        for i in range(length):
            framed[place + i] = values[starts[row] + i]
        place += length


@kernel
def _unframe(
    framed: np.ndarray, starts: np.ndarray, counts: np.ndarray, lengths: np.ndarray, values: np.ndarray
) -> None:
    element, copied, place = 0, 0, 0
    for row in range(len(counts)):
        while place < starts[row + 1]:
            length = 0
            for i in range(LENGTH):
                length |= np.int64(framed[place + i]) << (8 * i)  # type: ignore[assignment]
            place += LENGTH
            for i in range(length):
                values[copied + i] = framed[place + i]
            lengths[element] = length
            counts[row] += 1
            element += 1
            copied += length
            place += length


#: float64 has every whole number below this
FLOAT_EXACT = 2**53


def to_words(array: pa.Array, type_: Type, strings: Interner) -> np.ndarray:
    """The words of an array. The array must have no nulls."""
    match type_.kind:
        case Kind.STRING:
            return strings.intern_arrow(array)
        case Kind.LIST:
            return strings.intern(*_list_bytes(array, type_))
        case _:
            return _fixed_words(array, type_)


def from_words(words: np.ndarray, type_: Type, strings: Interner) -> pa.Array:
    """The Arrow array that has these words: the inverse of `to_words`."""
    match type_.kind:
        case Kind.STRING:
            return strings.take(words).view(pa.string())
        case Kind.LIST:
            return _lists(strings.take(words), type_)
        case _:
            return _fixed_values(words, type_)


def _fixed_words(array: pa.Array, type_: Type) -> np.ndarray:
    words = pc.cast(array, pa.int64()) if type_.kind is Kind.BOOLEAN else array.view(pa.int64())
    return np.asarray(words.to_numpy(zero_copy_only=False))


def _fixed_values(words: np.ndarray, type_: Type) -> pa.Array:
    match type_.kind:
        case Kind.FLOAT64:
            return pa.array(np.ascontiguousarray(words).view(np.float64))
        case Kind.BOOLEAN:
            return pa.array(words.astype(np.bool_))
        case _:
            return pa.array(np.ascontiguousarray(words)).view(arrow_type(type_))


def from_units(units: np.ndarray, type_: Type) -> pa.Array:
    """Converts event times to values of the event-time attribute.

    If the attribute is float64, the times are nanoseconds and become the nearest number of seconds. Otherwise a time is
    the attribute's word.
    """
    if type_.kind is Kind.FLOAT64:
        return in_seconds(pa.array(units))
    return pa.array(np.ascontiguousarray(units)).view(arrow_type(type_))


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


def _list_bytes(array: pa.Array, type_: Type) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of list i are `values[starts[i]:starts[i + 1]]`: words of elements, or length-prefixed elements."""
    element, offsets = _element(type_), array.offsets.to_numpy().astype(np.int64)
    if element.kind is Kind.STRING:
        values, starts = frame(*buffers(array.values))
    elif element.kind is Kind.LIST:
        values, starts = frame(*_list_bytes(array.values, element))
    else:
        return np.ascontiguousarray(_fixed_words(array.values, element)).view(np.uint8), offsets * 8
    return values, starts[offsets]


def _lists(values: pa.BinaryArray, type_: Type) -> pa.Array:
    """The lists that have these bytes: the inverse of `_list_bytes`."""
    _, starts, data = values.buffers()
    element, content, ends = _element(type_), np.frombuffer(data or b"", np.uint8), np.frombuffer(starts, np.int32)
    if element.kind not in (Kind.STRING, Kind.LIST):
        return pa.ListArray.from_arrays(pa.array(ends // 8), _fixed_values(content.view(np.int64), element))
    counts, lengths, texts = unframe(content, ends.astype(np.int64))
    inner = pa.Array.from_buffers(
        pa.binary(), len(lengths), [None, pa.py_buffer(_offsets(lengths)), pa.py_buffer(texts)]
    )
    elements = inner.view(pa.string()) if element.kind is Kind.STRING else _lists(inner, element)
    return pa.ListArray.from_arrays(pa.array(_offsets(counts)), elements)


def _offsets(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)


def _element(type_: Type) -> Type:
    if type_.element is None:
        msg = f"{type_} is no list"
        raise TypeError(msg)
    return type_.element
