"""Forms of values whose words are codes of interned bytes: texts, bytes and texts of JSON."""

from __future__ import annotations

import math
from abc import abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.forms.form_contract import ColumnForm, Order
from sluice.json_texts import with_digits

if TYPE_CHECKING:
    from sluice.columns.interner import Interner, Spans


class BytesForm(ColumnForm):
    """A word is the code of the value's interned bytes."""

    interned = True

    @abstractmethod
    def to_bytes(self, array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """The bytes of value i are `values[starts[i]:starts[i + 1]]`."""

    @abstractmethod
    def from_bytes(self, values: pa.BinaryArray) -> pa.Array:
        """The inverse of `to_bytes`."""

    def to_words(self, array: pa.Array, strings: Interner) -> np.ndarray:
        return strings.intern(*self.to_bytes(array))

    def from_words(self, words: np.ndarray, strings: Interner) -> pa.Array:
        return self.from_bytes(strings.take(words))

    def pieces(self, array: pa.Array) -> pa.LargeBinaryArray:
        from sluice.columns.interner import frame  # noqa: PLC0415 - a compiled kernel

        return large_binary(*frame(*self.to_bytes(array)))

    def from_spans(self, content: np.ndarray, spans: Spans) -> pa.Array:
        from sluice.columns.interner import gathered  # noqa: PLC0415 - a compiled kernel

        return self.from_bytes(binary_of(spans.length, gathered(content, spans.first, spans.length)))


class TextForm(BytesForm):
    """Values in the order of their bytes."""

    json = frozenset({str})
    order = Order.TEXT

    def ranks(self, words: np.ndarray, strings: Interner, *, descending: bool) -> np.ndarray:
        """The positions of the texts in the order of their UTF-8 bytes."""
        codes, places = np.unique(words, return_inverse=True)
        rank = np.empty(len(codes), np.int64)
        rank[pc.sort_indices(strings.take(codes)).to_numpy()] = np.arange(len(codes))
        return super().ranks(rank[places], strings, descending=descending)


class StringForm(TextForm):
    arrow = pa.string()

    def to_words(self, array: pa.Array, strings: Interner) -> np.ndarray:
        return strings.intern_arrow(array)  # also of a dictionary

    def from_digits(self, texts: list[str]) -> pa.Array:
        return pa.array(texts, self.arrow)

    def to_bytes(self, array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        from sluice.columns.interner import buffers  # noqa: PLC0415 - it imports compiled kernels

        return buffers(array)

    def from_bytes(self, values: pa.BinaryArray) -> pa.Array:
        return values.view(self.arrow)


class Base64Form(TextForm):
    """Bytes, whose values in the model and in JSON are base64 texts."""

    arrow = pa.binary()

    def from_values(self, values: Sequence[Any]) -> pa.Array:
        return pa.array([b64decode(value, validate=True) for value in values], self.arrow)

    def constant(self, value: Any) -> pa.Scalar:  # noqa: ANN401
        return self.from_values([value])[0]

    def from_json(self, values: Sequence[Any]) -> pa.Array:
        return self.from_values(values)

    def to_json(self, array: pa.Array) -> list[Any]:
        return [None if value is None else b64encode(value).decode() for value in array.to_pylist()]

    def to_bytes(self, array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        from sluice.columns.interner import buffers  # noqa: PLC0415 - it imports compiled kernels

        return buffers(array)

    def from_bytes(self, values: pa.BinaryArray) -> pa.Array:
        return values


class JsonTextForm(BytesForm):
    """Texts of JSON values. Their Arrow type differs from that of strings, so that it says the type of a column."""

    arrow = pa.large_string()
    json = frozenset({bool, int, float, str, list, dict, type(None)})

    def to_bytes(self, array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        from sluice.columns.interner import buffers  # noqa: PLC0415 - it imports compiled kernels

        return buffers(array)

    def from_bytes(self, values: pa.BinaryArray) -> pa.Array:
        return values.view(pa.string()).cast(self.arrow)

    def from_json(self, values: Sequence[Any]) -> pa.Array:
        return pa.array(list(map(_json_text, values)), self.arrow)

    def to_json(self, array: pa.Array) -> list[Any]:
        return [None if text is None else orjson.loads(text) for text in array.to_pylist()]

    def to_shown(self, array: pa.Array) -> list[Any]:
        return [None if text is None else with_digits(text) for text in array.to_pylist()]

    def to_written(self, array: pa.Array) -> list[Any]:
        return [None if text is None else orjson.Fragment(text) for text in array.to_pylist()]

    def to_user(self, array: pa.Array) -> list[Any]:
        return array.to_pylist()  # type: ignore[no-any-return]


def _json_text(value: Any) -> str:  # noqa: ANN401 - a JSON value, or a Decimal in it
    """The text of a value of Python. Raises ValueError if it is no JSON value."""
    try:
        text = orjson.dumps(value, default=_digits).decode()
    except TypeError as error:
        raise ValueError(str(error)) from error
    if "null" in text and not _is_finite(value):
        msg = "JSON has neither NaN nor infinities"
        raise ValueError(msg)
    return text


def _digits(value: object) -> orjson.Fragment:
    if isinstance(value, Decimal) and value.is_finite():
        return orjson.Fragment(str(value))
    raise TypeError(value)


def _is_finite(value: object) -> bool:
    """Whether the value has no NaN and no infinity, which orjson writes as null."""
    if isinstance(value, dict | list | tuple):
        return all(map(_is_finite, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, float) or math.isfinite(value)


def binary_of(lengths: np.ndarray, content: np.ndarray) -> pa.BinaryArray:
    buffers_ = [None, pa.py_buffer(offsets_of(lengths)), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers_)


def large_binary(content: np.ndarray, starts: np.ndarray) -> pa.LargeBinaryArray:
    buffers_ = [None, pa.py_buffer(np.ascontiguousarray(starts, np.int64)), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.large_binary(), len(starts) - 1, buffers_)


def offsets_of(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
