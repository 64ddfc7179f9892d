"""How the values of each type stand in columns: the table of the types for this floor.

A form has the Arrow type of one type, its words (encoding.py), their order, and its JSON values (json_columns.py).
Other modules ask the form of a type what its columns are; they do not compare types. Processes that need only Arrow
types import this module, so it imports compiled kernels where they are called.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from enum import IntEnum
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns import number_columns
from sluice.columns.number_columns import times
from sluice.model.types import (
    BooleanType,
    BytesType,
    DecimalType,
    Float64Type,
    Int64Type,
    JsonType,
    ListType,
    MapType,
    OptionalType,
    StringType,
    StructType,
    TimestampType,
    Type,
    list_of,
    map_of,
)
from sluice.time_units import SECOND

if TYPE_CHECKING:
    from sluice.columns.interner import Interner, Spans

SPECIAL = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
LARGEST = np.iinfo(np.int64).max


class Order(IntEnum):
    """How a kernel compares two words."""

    WHOLE = 0  # as int64
    REAL = 1  # as the bits of float64; NaN is no number
    TEXT = 2  # as codes of interned texts, by their bytes


class ColumnForm(ABC):
    """The form of the values of one type in columns, which have no nulls unless the type is optional."""

    #: a type without parameters has it in its class
    arrow: pa.DataType
    #: the Python types that a JSON value may have
    json: ClassVar[frozenset[type]]
    order: ClassVar[Order] = Order.WHOLE
    #: whether a word is the code of interned bytes
    interned: ClassVar[bool] = False

    def __init__(self, type_: Type) -> None:
        self.type = type_

    @classmethod
    def of(cls, type_: Type) -> ColumnForm:
        return cls(type_)

    @classmethod
    def type_of(cls, arrow: pa.DataType, made: type[Type]) -> Type | None:
        """The type of the class `made` that has this Arrow type; None if there is none."""
        return made() if arrow == cls.arrow else None

    @property
    def handed(self) -> pa.DataType:
        """The Arrow type whose Python values the classes of users get and return."""
        return self.arrow

    @abstractmethod
    def to_words(self, array: pa.Array, strings: Interner) -> np.ndarray: ...

    @abstractmethod
    def from_words(self, words: np.ndarray, strings: Interner) -> pa.Array:
        """The inverse of `to_words`."""

    def from_values(self, values: Sequence[Any]) -> pa.Array:
        """The array of values of the model (`Value`): a timestamp is its nanoseconds."""
        return pa.array(values, self.arrow)

    def constant(self, value: Any) -> pa.Scalar:  # noqa: ANN401
        """The scalar of a value of the model, as `from_values` has it."""
        return pa.scalar(value, self.arrow)

    def sort_words(self, words: np.ndarray) -> np.ndarray:
        """Words that compare as the values do: the sort keys of a Sort. A text keeps its code, which has no order."""
        return words

    def ranks(self, words: np.ndarray, strings: Interner, *, descending: bool) -> np.ndarray:
        """Numbers that sort as the values with these words do; with `descending` in the opposite order.

        Numbers of texts can be compared only within one call.
        """
        rising = self.sort_words(words)
        return ~rising if descending else rising

    def from_json(self, values: Sequence[Any]) -> pa.Array:
        """The array of values whose Python types are in `json`. Raises ValueError, KeyError or OverflowError."""
        return pa.array(values, self.arrow)

    def from_decimals(self, texts: list[str]) -> pa.Array:
        """The array of decimal numbers, which are given by their digits: `-12.50`. Null: the number does not fit."""
        raise TypeError(f"{self.type} of {texts[:1]}")

    def to_json(self, array: pa.Array) -> list[Any]:
        return array.to_pylist()  # type: ignore[no-any-return]

    def to_written(self, array: pa.Array) -> list[Any]:
        """As `to_json`, for orjson alone: the values of the type json are their texts, which keep their digits."""
        return self.to_json(array)

    def to_python(self, array: pa.Array) -> list[Any]:
        """As `to_json`, but NaN and the infinities are floats."""
        return self.to_json(array)

    def to_key(self, array: pa.Array) -> list[Any]:
        """As `to_json`, but values that are one key are equal (key_bytes.py)."""
        return self.to_json(array)

    def to_user(self, array: pa.Array) -> list[Any]:
        """The values as the classes of users get them."""
        return array.cast(self.handed).to_pylist()  # type: ignore[no-any-return]

    def from_user(self, values: Sequence[Any]) -> pa.Array:
        """The array of values that classes of users return, None for null. Raises an error of pyarrow for others."""
        return pa.array(values, self.handed).cast(self.arrow)

    def pieces(self, array: pa.Array) -> pa.LargeBinaryArray:
        """The bytes of each value inside of a composite value: the end of a value follows from its own bytes."""
        raise TypeError(f"{self.type} inside of another type")

    def from_spans(self, content: np.ndarray, spans: Spans) -> pa.Array:
        """The values whose pieces have these spans (interner.py): the inverse of `pieces`."""
        raise TypeError(f"{self.type} inside of another type")


# ---- values in a word ------------------------------------------------------------------------------------------------


class WordForm(ColumnForm):
    """A value is one word, the 64 bits of its Arrow value if a type says nothing else."""

    def to_words(self, array: pa.Array, strings: Interner) -> np.ndarray:
        return self.words(array)

    def from_words(self, words: np.ndarray, strings: Interner) -> pa.Array:
        return self.values(words)

    def pieces(self, array: pa.Array) -> pa.LargeBinaryArray:
        content = np.ascontiguousarray(self.words(array)).view(np.uint8)
        return _large_binary(content, np.arange(len(array) + 1) * 8)

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

    def from_decimals(self, texts: list[str]) -> pa.Array:
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


# ---- values in interned bytes ----------------------------------------------------------------------------------------


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

        return _large_binary(*frame(*self.to_bytes(array)))

    def from_spans(self, content: np.ndarray, spans: Spans) -> pa.Array:
        from sluice.columns.interner import gathered  # noqa: PLC0415 - a compiled kernel

        return self.from_bytes(_binary(spans.length, gathered(content, spans.first, spans.length)))


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

    def from_decimals(self, texts: list[str]) -> pa.Array:
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


class ListForm(BytesForm):
    """The bytes of a list are the words of its elements, or the elements' own bytes, each behind its length."""

    json = frozenset({list})

    def __init__(self, type_: Type) -> None:
        super().__init__(type_)
        assert type_.element is not None  # noqa: S101 - a list has elements
        self.element = form(type_.element)
        self.arrow = pa.list_(self.element.arrow)

    @classmethod
    def type_of(cls, arrow: pa.DataType, made: type[Type]) -> Type | None:  # noqa: ARG003 - it is a list
        return list_of(type_of(arrow.value_type)) if pa.types.is_list(arrow) else None

    @property
    def handed(self) -> pa.DataType:
        return pa.list_(self.element.handed)

    def to_bytes(self, array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        offsets = array.offsets.to_numpy().astype(np.int64)
        match self.element:
            case OptionalForm() as element:
                from sluice.columns.interner import buffers  # noqa: PLC0415 - it imports compiled kernels

                values, starts = buffers(element.pieces(array.values))
                return values, starts[offsets]
            case WordForm() as element:
                return np.ascontiguousarray(element.words(array.values)).view(np.uint8), offsets * 8
            case BytesForm() as element:
                from sluice.columns.interner import frame  # noqa: PLC0415 - a compiled kernel

                values, starts = frame(*element.to_bytes(array.values))
                return values, starts[offsets]
        raise TypeError(self.element)

    def from_bytes(self, values: pa.BinaryArray) -> pa.Array:
        _, starts, data = values.buffers()
        content, ends = np.frombuffer(data or b"", np.uint8), np.frombuffer(starts, np.int32)
        match self.element:
            case OptionalForm() as element:
                counts, (items,) = _unframed(content, ends.astype(np.int64), (element,))
                return pa.ListArray.from_arrays(pa.array(_offsets(counts)), items)
            case WordForm() as element:
                return pa.ListArray.from_arrays(pa.array(ends // 8), element.values(content.view(np.int64)))
            case BytesForm() as element:
                from sluice.columns.interner import unframe  # noqa: PLC0415 - a compiled kernel

                counts, lengths, inner = unframe(content, ends.astype(np.int64))
                elements = element.from_bytes(_binary(lengths, inner))
                return pa.ListArray.from_arrays(pa.array(_offsets(counts)), elements)
        raise TypeError(self.element)

    def from_values(self, values: Sequence[Any]) -> pa.Array:
        return _grouped(values, self.element.from_values([v for row in values for v in row]))

    def from_json(self, values: Sequence[Any]) -> pa.Array:
        return _grouped(values, column([v for row in values for v in row], self.element.type))

    def from_user(self, values: Sequence[Any]) -> pa.Array:
        return _with_nulls(
            values, lambda rows: _grouped(rows, self.element.from_user([v for row in rows for v in row]))
        )

    def to_json(self, array: pa.Array) -> list[Any]:
        return _regrouped(array, self.element.to_json)

    def to_written(self, array: pa.Array) -> list[Any]:
        return _regrouped(array, self.element.to_written)

    def to_python(self, array: pa.Array) -> list[Any]:
        return _regrouped(array, self.element.to_python)

    def to_user(self, array: pa.Array) -> list[Any]:
        return _regrouped(array, self.element.to_user)


def _binary(lengths: np.ndarray, content: np.ndarray) -> pa.BinaryArray:
    buffers_ = [None, pa.py_buffer(_offsets(lengths)), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers_)


def _large_binary(content: np.ndarray, starts: np.ndarray) -> pa.LargeBinaryArray:
    buffers_ = [None, pa.py_buffer(np.ascontiguousarray(starts, np.int64)), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.large_binary(), len(starts) - 1, buffers_)


def _offsets(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)


def _grouped(rows: Sequence[Sequence[Any]], elements: pa.Array) -> pa.ListArray:
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), elements)


def _regrouped(array: pa.Array, of: Callable[[pa.Array], list[Any]]) -> list[list[Any]]:
    elements = _or_none(array.flatten(), of)
    ends = np.cumsum(pc.list_value_length(array).to_numpy(zero_copy_only=False)).tolist()
    return [elements[a:b] for a, b in zip([0, *ends], ends, strict=False)]


# ---- structs and maps ------------------------------------------------------------------------------------------------


class CompositeForm(BytesForm):
    """The bytes of a composite value are those of its items, and the bytes of an item the pieces of its parts, in their
    order: a part is 8 bytes of a word, or bytes behind their length (8 bytes, little-endian). In front of a part that
    may be absent there is a byte, 1 if it is there; nothing follows a 0. So the state holds such values (ST7).
    """

    json = frozenset({dict})

    def __init__(self, type_: Type) -> None:
        super().__init__(type_)
        self.parts = tuple(map(form, type_.parts))

    @abstractmethod
    def divided(self, array: pa.Array) -> tuple[Sequence[pa.Array], np.ndarray]:
        """A column for each part, with a row for each item; and where the items of each value begin, with their end."""

    @abstractmethod
    def composed(self, columns: Sequence[pa.Array], counts: np.ndarray) -> pa.Array:
        """The inverse of `divided`; `counts` are the numbers of items of the values."""

    @abstractmethod
    def items(self, value: Any) -> Iterable[Sequence[Any]]:  # noqa: ANN401
        """The items of a value of the model."""

    @abstractmethod
    def items_of_object(self, value: Mapping[str, Any]) -> Iterable[Sequence[Any]]:
        """The items of an object of JSON."""

    @abstractmethod
    def object(self, items: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """The object of JSON that has these items."""

    @abstractmethod
    def user_value(self, items: Sequence[Sequence[Any]]) -> dict[Any, Any]:
        """The value of the classes of users that has these items."""

    @abstractmethod
    def items_of_user(self, value: Any) -> Iterable[Sequence[Any]]:  # noqa: ANN401
        """The inverse of `user_value`."""

    @property
    def handed(self) -> pa.DataType:
        return self.arrow

    def to_bytes(self, array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """The items of the values, one after the other (ST4)."""
        from sluice.columns.interner import buffers  # noqa: PLC0415 - it imports compiled kernels

        columns, starts = self.divided(array)
        pieces = [part.pieces(column) for part, column in zip(self.parts, columns, strict=True)]
        content, ends = buffers(pc.binary_join_element_wise(*pieces, pa.scalar(b"", pa.large_binary())))
        return content, ends[starts]

    def from_bytes(self, values: pa.BinaryArray) -> pa.Array:
        from sluice.columns.interner import buffers  # noqa: PLC0415 - it imports compiled kernels

        counts, columns = _unframed(*buffers(values), self.parts)
        return self.composed(columns, counts)

    def from_values(self, values: Sequence[Any]) -> pa.Array:
        return self._built(list(map(self.items, values)), lambda part, column: part.from_values(column))

    def constant(self, value: Any) -> pa.Scalar:  # noqa: ANN401
        return self.from_values([value])[0]

    def from_json(self, values: Sequence[Any]) -> pa.Array:
        return self._built(list(map(self.items_of_object, values)), lambda part, values_: column(values_, part.type))

    def from_user(self, values: Sequence[Any]) -> pa.Array:
        def read(present: Sequence[Any]) -> pa.Array:
            return self._built(list(map(self.items_of_user, present)), lambda part, column: part.from_user(column))

        return _with_nulls(values, read)

    def to_json(self, array: pa.Array) -> list[Any]:
        return self._values(array, lambda part: part.to_json, self.object)

    def to_written(self, array: pa.Array) -> list[Any]:
        return self._values(array, lambda part: part.to_written, self.object)

    def to_python(self, array: pa.Array) -> list[Any]:
        return self._values(array, lambda part: part.to_python, self.object)

    def to_user(self, array: pa.Array) -> list[Any]:
        return self._values(array, lambda part: part.to_user, self.user_value)

    def _built(self, rows: Sequence[Any], read: Callable[[ColumnForm, Sequence[Any]], pa.Array]) -> pa.Array:
        rows = list(map(list, rows))
        columns = list(zip(*[item for items in rows for item in items], strict=True)) or [()] * len(self.parts)
        arrays = [read(part, column) for part, column in zip(self.parts, columns, strict=True)]
        return self.composed(arrays, np.array(list(map(len, rows)), np.int64))

    def _values(
        self, array: pa.Array, convert: Callable[[ColumnForm], Callable[[pa.Array], list[Any]]],
        value: Callable[[Sequence[Sequence[Any]]], Any],
    ) -> list[Any]:  # fmt: skip
        columns, starts = self.divided(array)
        parts = [_or_none(column, convert(part)) for part, column in zip(self.parts, columns, strict=True)]
        items = list(zip(*parts, strict=True))
        return [value(items[a:b]) for a, b in pairwise(starts.tolist())]


def _unframed(
    content: np.ndarray, starts: np.ndarray, parts: Sequence[ColumnForm]
) -> tuple[np.ndarray, list[pa.Array]]:
    """The number of items of each composite value with these bytes, and the columns of the items' parts."""
    from sluice.columns.interner import spans  # noqa: PLC0415 - a compiled kernel

    present = [form(part.type.present) for part in parts]
    sized = np.array([not isinstance(part, WordForm) for part in present])
    counts, every = spans(content, starts, sized, np.array([part.type.optional for part in parts]))
    return counts, [part.from_spans(content, every.every(len(parts), n)) for n, part in enumerate(parts)]


class StructForm(CompositeForm):
    def __init__(self, type_: Type) -> None:
        super().__init__(type_)
        assert isinstance(type_, StructType)  # noqa: S101 - by the table
        self.names = tuple(name for name, _ in type_.members)
        self.arrow = pa.struct([(name, part.arrow) for name, part in zip(self.names, self.parts, strict=True)])

    @classmethod
    def type_of(cls, arrow: pa.DataType, made: type[Type]) -> Type | None:  # noqa: ARG003 - it is a struct
        if not pa.types.is_struct(arrow):
            return None
        return StructType(tuple((field.name, type_of(field.type)) for field in arrow))

    def divided(self, array: pa.Array) -> tuple[Sequence[pa.Array], np.ndarray]:
        return [array.field(name) for name in self.names], np.arange(len(array) + 1)

    def composed(self, columns: Sequence[pa.Array], counts: np.ndarray) -> pa.Array:
        return pa.StructArray.from_arrays(columns, fields=list(self.arrow))

    def items(self, value: Any) -> Iterable[Sequence[Any]]:  # noqa: ANN401
        return (value,)

    def items_of_object(self, value: Mapping[str, Any]) -> Iterable[Sequence[Any]]:
        if not value.keys() <= set(self.names):
            raise ValueError(f"not all members are those of {self.type}")
        return ([value.get(name) for name in self.names],)

    def object(self, items: Sequence[Sequence[Any]]) -> dict[str, Any]:
        return dict(zip(self.names, items[0], strict=True))

    def user_value(self, items: Sequence[Sequence[Any]]) -> dict[Any, Any]:
        return self.object(items)

    def items_of_user(self, value: Any) -> Iterable[Sequence[Any]]:  # noqa: ANN401
        return self.items_of_object(value)


class MapForm(CompositeForm):
    """Entries in the order of their keys, each key once."""

    def __init__(self, type_: Type) -> None:
        super().__init__(type_)
        self.key = self.parts[0]
        self.arrow = pa.map_(*(part.arrow for part in self.parts))

    @classmethod
    def type_of(cls, arrow: pa.DataType, made: type[Type]) -> Type | None:  # noqa: ARG003 - it is a map
        return map_of(type_of(arrow.key_type), type_of(arrow.item_type)) if pa.types.is_map(arrow) else None

    def divided(self, array: pa.Array) -> tuple[Sequence[pa.Array], np.ndarray]:
        starts = array.offsets.to_numpy().astype(np.int64)
        first, count = int(starts[0]), int(starts[-1] - starts[0])
        return [array.keys.slice(first, count), array.items.slice(first, count)], starts - first

    def composed(self, columns: Sequence[pa.Array], counts: np.ndarray) -> pa.Array:
        return pa.MapArray.from_arrays(pa.array(_offsets(counts)), *columns)

    def in_order(self, keys: pa.Array, items: pa.Array, counts: np.ndarray) -> pa.MapArray:
        """The maps with these entries, in any order. Of the entries of a key the last one counts."""
        rows = np.repeat(np.arange(len(counts)), counts)
        distinct, ranks = np.unique(keys.to_numpy(zero_copy_only=False), return_inverse=True)
        order = np.lexsort((np.arange(len(rows)), ranks, rows))
        place = rows[order] * len(distinct) + ranks[order]
        order = order[np.append(place[1:] != place[:-1], [True])[: len(order)]]
        columns = [column.take(pa.array(order)) for column in (keys, items)]
        return self.composed(columns, np.bincount(rows[order], minlength=len(counts)))

    def items(self, value: Any) -> Iterable[Sequence[Any]]:  # noqa: ANN401
        return sorted(dict(value).items(), key=lambda entry: entry[0])

    def items_of_object(self, value: Mapping[str, Any]) -> Iterable[Sequence[Any]]:
        return self.items((self._key(name), item) for name, item in value.items())

    def object(self, items: Sequence[Sequence[Any]]) -> dict[str, Any]:
        return {key if isinstance(key, str) else orjson.dumps(key).decode(): value for key, value in items}

    def user_value(self, items: Sequence[Sequence[Any]]) -> dict[Any, Any]:
        return dict(items)  # type: ignore[arg-type]

    def items_of_user(self, value: Any) -> Iterable[Sequence[Any]]:  # noqa: ANN401
        return self.items(value)

    def _key(self, name: str) -> Any:  # noqa: ANN401 - a value of JSON
        return name if str in self.key.json else orjson.loads(name)


# ---- values that may be absent ---------------------------------------------------------------------------------------


def _of_present(name: str) -> Any:  # noqa: ANN401 - the type of a member of ColumnForm
    return property(lambda optional: getattr(optional.present, name))


class OptionalForm(ColumnForm):
    """The form of the inner type, with nulls. The word of null is that of an empty value: it does not say which of
    both the value is.
    """

    arrow = _of_present("arrow")
    handed = _of_present("handed")
    order = _of_present("order")
    interned = _of_present("interned")
    json = property(lambda optional: optional.present.json | {type(None)})

    def __init__(self, type_: Type) -> None:
        super().__init__(type_)
        self.present = form(type_.present)

    @classmethod
    def type_of(cls, arrow: pa.DataType, made: type[Type]) -> Type | None:  # noqa: ARG003 - an Arrow type does not say it
        return None

    def to_words(self, array: pa.Array, strings: Interner) -> np.ndarray:
        filled = pc.coalesce(array, self.present.constant(self.type.present.empty)) if array.null_count else array
        return self.present.to_words(filled, strings)

    def from_words(self, words: np.ndarray, strings: Interner) -> pa.Array:
        """The values as if none was null."""
        return self.present.from_words(words, strings)

    def from_values(self, values: Sequence[Any]) -> pa.Array:
        return _with_nulls(values, self.present.from_values)

    def constant(self, value: Any) -> pa.Scalar:  # noqa: ANN401
        return pa.scalar(None, self.arrow) if value is None else self.present.constant(value)

    def sort_words(self, words: np.ndarray) -> np.ndarray:
        return self.present.sort_words(words)

    def ranks(self, words: np.ndarray, strings: Interner, *, descending: bool) -> np.ndarray:
        return self.present.ranks(words, strings, descending=descending)

    def from_json(self, values: Sequence[Any]) -> pa.Array:
        return _with_nulls(values, self.present.from_json)

    def from_decimals(self, texts: list[str]) -> pa.Array:
        return self.present.from_decimals(texts)

    def to_json(self, array: pa.Array) -> list[Any]:
        return _or_none(array, self.present.to_json)

    def to_written(self, array: pa.Array) -> list[Any]:
        return _or_none(array, self.present.to_written)

    def to_python(self, array: pa.Array) -> list[Any]:
        return _or_none(array, self.present.to_python)

    def to_key(self, array: pa.Array) -> list[Any]:
        return _or_none(array, self.present.to_key)

    def to_user(self, array: pa.Array) -> list[Any]:
        return _or_none(array, self.present.to_user)

    def from_user(self, values: Sequence[Any]) -> pa.Array:
        return _with_nulls(values, self.present.from_user)

    def pieces(self, array: pa.Array) -> pa.LargeBinaryArray:
        there = array.is_valid()
        pieces = self.present.pieces(array.drop_null() if array.null_count else array)
        if array.null_count:
            pieces = pc.coalesce(spread(pieces, there), pa.scalar(b"", pa.large_binary()))
        said = pa.array([b"\0", b"\1"], pa.large_binary()).take(there.cast(pa.int8()))
        return pc.binary_join_element_wise(said, pieces, pa.scalar(b"", pa.large_binary()))

    def from_spans(self, content: np.ndarray, spans: Spans) -> pa.Array:
        values = self.present.from_spans(content, spans.present())
        return values if spans.there.all() else spread(values, pa.array(spans.there))


def _with_nulls(values: Sequence[Any], read: Callable[[Sequence[Any]], pa.Array]) -> pa.Array:
    """The array that `read` makes of the values that are not None, with a null for each None."""
    present = [value for value in values if value is not None]
    if len(present) == len(values):
        return read(values)
    return spread(read(present), pa.array([value is not None for value in values]))


def spread(present: pa.Array, there: pa.BooleanArray) -> pa.Array:
    """The values in the rows in which `there` is true, null in the others."""
    rows = there.to_numpy(zero_copy_only=False)
    return present.take(pa.array(np.cumsum(rows) - 1, mask=~rows))


def _or_none(array: pa.Array, of: Callable[[pa.Array], list[Any]]) -> list[Any]:
    """What `of` makes of the values that are not null, with None for each null."""
    if not array.null_count:
        return of(array)
    values = iter(of(array.drop_null()))
    return [next(values) if there else None for there in array.is_valid().to_pylist()]


# ---- decimals --------------------------------------------------------------------------------------------------------


class DecimalForm(ColumnForm):
    """Decimals: a word if each value fits one, else bytes that compare as the values do."""

    json = frozenset({int, float, str, Decimal})

    def __init__(self, type_: Type) -> None:
        super().__init__(type_)
        assert isinstance(type_, DecimalType)  # noqa: S101 - see the table
        self.arrow = pa.decimal128(type_.precision, type_.scale)
        self.exact = type_.exact

    @classmethod
    def type_of(cls, arrow: pa.DataType, made: type[Type]) -> Type | None:  # noqa: ARG003 - it has parameters
        return DecimalType(arrow.precision, arrow.scale) if pa.types.is_decimal128(arrow) else None

    def from_values(self, values: Sequence[Any]) -> pa.Array:
        return pa.array([None if v is None else Decimal(v) for v in values], self.arrow)

    def constant(self, value: Any) -> pa.Scalar:  # noqa: ANN401
        return self.from_values([value])[0]

    def from_json(self, values: Sequence[Any]) -> pa.Array:
        """Numbers, or their texts (DE17)."""
        exact = list(map(self.exact, values))
        if None in exact:
            msg = f"not all values are {self.type}"
            raise ValueError(msg)
        return pa.array(exact, self.arrow)

    def from_decimals(self, texts: list[str]) -> pa.Array:
        return pa.array(list(map(self.exact, texts)), self.arrow)

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
    def of(cls, type_: Type) -> ColumnForm:
        fits = isinstance(type_, DecimalType) and type_.in_word
        return cls(type_) if fits else DecimalBytesForm(type_)

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


# ---- the table -------------------------------------------------------------------------------------------------------

FORMS: Mapping[type[Type], type[ColumnForm]] = {
    BooleanType: BooleanForm,
    Int64Type: Int64Form,
    Float64Type: Float64Form,
    StringType: StringForm,
    TimestampType: TimestampForm,
    ListType: ListForm,
    OptionalType: OptionalForm,
    BytesType: Base64Form,
    JsonType: JsonTextForm,
    MapType: MapForm,
    StructType: StructForm,
    DecimalType: DecimalWordForm,
}


@cache
def form(type_: Type) -> ColumnForm:
    return FORMS[type(type_)].of(type_)


@lru_cache(maxsize=1024)
def type_of(arrow: pa.DataType) -> Type:
    """The type with this Arrow type. A dictionary-encoded Arrow type has the type of its values."""
    if pa.types.is_dictionary(arrow):
        return type_of(arrow.value_type)
    found = (made.type_of(arrow, type_) for type_, made in FORMS.items())
    return next(one for one in found if one is not None)


def column(values: Sequence[Any], type_: Type) -> pa.Array:
    """The JSON values as an Arrow array.

    Raises ValueError (or a subclass), KeyError or OverflowError if a value is not of the type.
    """
    of = form(type_)
    if not of.json.issuperset(map(type, values)):
        msg = f"not all values are {type_}"
        raise ValueError(msg)
    return of.from_json(values)
