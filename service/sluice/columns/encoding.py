"""Every attribute as one column of 64-bit words, the only thing that kernels see.

int64 and timestamp are themselves, float64 is its bits, boolean is 0 or 1, string and list are codes of interned bytes.
Those of a list are the words of its elements; of texts and lists they are these themselves (framed.py).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.arrow_types import arrow_type
from sluice.columns.interner import Interner, buffers
from sluice.columns.length_prefixed import frame, unframe
from sluice.model.types import Kind, Type
from sluice.time_units import SECOND


def to_words(array: pa.Array, type_: Type, strings: Interner) -> np.ndarray:
    """The words of an array without nulls."""
    match type_.kind:
        case Kind.STRING:
            return strings.intern_arrow(array)
        case Kind.LIST:
            return strings.intern(*_list_bytes(array, type_))
        case _:
            return _fixed_words(array, type_)


def from_words(words: np.ndarray, type_: Type, strings: Interner) -> pa.Array:
    """The array of these words."""
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
    """Event times as values of their attribute: nanoseconds become float64 seconds, else they are the words."""
    if type_.kind is Kind.FLOAT64:
        return pa.array(units // SECOND + (units % SECOND) / SECOND)
    return pa.array(np.ascontiguousarray(units)).view(arrow_type(type_))


def _list_bytes(array: pa.Array, type_: Type) -> tuple[np.ndarray, np.ndarray]:
    """Of each list its bytes, `values[starts[i]:starts[i + 1]]`: the words of its elements, or the framed elements."""
    element, offsets = _element(type_), array.offsets.to_numpy().astype(np.int64)
    if element.kind is Kind.STRING:
        values, starts = frame(*buffers(array.values))
    elif element.kind is Kind.LIST:
        values, starts = frame(*_list_bytes(array.values, element))
    else:
        return np.ascontiguousarray(_fixed_words(array.values, element)).view(np.uint8), offsets * 8
    return values, starts[offsets]


def _lists(values: pa.BinaryArray, type_: Type) -> pa.Array:
    """The lists with these bytes."""
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
