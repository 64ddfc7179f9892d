"""How the values of each type stand in columns: the table of the types for this floor.

A form has the Arrow type of one type, its words (encoding.py), their order, and its JSON values (json_columns.py).
Other modules ask the form of a type what its columns are; they do not compare types. Processes that need only Arrow
types import this module, so it imports compiled kernels where they are called.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from enum import IntEnum
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns import decimal_columns
from sluice.columns.iso_columns import times
from sluice.model.types import (
    BooleanType,
    DecimalType,
    Float64Type,
    Int64Type,
    ListType,
    StringType,
    TimestampType,
    Type,
    list_of,
)
from sluice.time_units import SECOND

if TYPE_CHECKING:
    from sluice.columns.interner import Interner

SPECIAL = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
LARGEST = np.iinfo(np.int64).max


class Order(IntEnum):
    """How a kernel compares two words."""

    WHOLE = 0  # as int64
    REAL = 1  # as the bits of float64; NaN is no number
    TEXT = 2  # as codes of interned texts, by their bytes


class ColumnForm(ABC):
    """The form of the values of one type in columns, which have no nulls."""

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

    def to_python(self, array: pa.Array) -> list[Any]:
        """As `to_json`, but NaN and the infinities are floats."""
        return self.to_json(array)

    def to_key(self, array: pa.Array) -> list[Any]:
        """As `to_json`, but values that are one key are equal (key_bytes.py)."""
        return self.to_json(array)

    def to_user(self, array: pa.Array) -> list[Any]:
        """The values as the classes of users get them."""
        return array.cast(self.handed).to_pylist()  # type: ignore[no-any-return]


# ---- values in a word ------------------------------------------------------------------------------------------------


class WordForm(ColumnForm):
    """A value is one word, the 64 bits of its Arrow value if a type says nothing else."""

    def to_words(self, array: pa.Array, strings: Interner) -> np.ndarray:
        return self.words(array)

    def from_words(self, words: np.ndarray, strings: Interner) -> pa.Array:
        return self.values(words)

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

    def ranks(self, words: np.ndarray, strings: Interner, *, descending: bool) -> np.ndarray:
        """The positions of the values in the order of their bytes."""
        codes, places = np.unique(words, return_inverse=True)
        rank = np.empty(len(codes), np.int64)
        rank[pc.sort_indices(strings.take(codes)).to_numpy()] = np.arange(len(codes))
        return super().ranks(rank[places], strings, descending=descending)


class StringForm(BytesForm):
    arrow = pa.string()
    json = frozenset({str})
    order = Order.TEXT

    def to_words(self, array: pa.Array, strings: Interner) -> np.ndarray:
        return strings.intern_arrow(array)  # also of a dictionary

    def from_decimals(self, texts: list[str]) -> pa.Array:
        return pa.array(texts, self.arrow)

    def to_bytes(self, array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        from sluice.columns.interner import buffers  # noqa: PLC0415 - it imports compiled kernels

        return buffers(array)

    def from_bytes(self, values: pa.BinaryArray) -> pa.Array:
        return values.view(self.arrow)


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

    def to_json(self, array: pa.Array) -> list[Any]:
        return _regrouped(array, self.element.to_json)

    def to_python(self, array: pa.Array) -> list[Any]:
        return _regrouped(array, self.element.to_python)


def _binary(lengths: np.ndarray, content: np.ndarray) -> pa.BinaryArray:
    buffers_ = [None, pa.py_buffer(_offsets(lengths)), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers_)


def _offsets(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)


def _grouped(rows: Sequence[Sequence[Any]], elements: pa.Array) -> pa.ListArray:
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), elements)


def _regrouped(array: pa.Array, of: Callable[[pa.Array], list[Any]]) -> list[list[Any]]:
    elements = of(array.flatten())
    ends = np.cumsum(pc.list_value_length(array).to_numpy(zero_copy_only=False)).tolist()
    return [elements[a:b] for a, b in zip([0, *ends], ends, strict=False)]


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
        """Numbers, or their texts (DE19)."""
        exact = list(map(self.exact, values))
        if None in exact:
            msg = f"not all values are {self.type}"
            raise ValueError(msg)
        return pa.array(exact, self.arrow)

    def from_decimals(self, texts: list[str]) -> pa.Array:
        return pa.array(list(map(self.exact, texts)), self.arrow)

    def to_json(self, array: pa.Array) -> list[Any]:
        """Texts: most programs read a number of JSON as a float64, which has not all digits."""
        return decimal_columns.texts(array).to_pylist()  # type: ignore[no-any-return]

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
        return np.ascontiguousarray(decimal_columns.halves(array)[:, 0])

    def values(self, words: np.ndarray) -> pa.Array:
        return decimal_columns.of_words(words, self.arrow)


class DecimalBytesForm(DecimalForm, BytesForm):
    """The bytes compare as the values do, so kernels need no order of their own for them."""

    order = Order.TEXT

    def to_bytes(self, array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        content = decimal_columns.ordered_bytes(array).reshape(-1)
        return content, np.arange(len(array) + 1, dtype=np.int64) * decimal_columns.SIZE

    def from_bytes(self, values: pa.BinaryArray) -> pa.Array:
        _, starts, data = values.buffers()
        first = np.frombuffer(starts, np.int32)[values.offset] if len(values) else 0
        content = np.frombuffer(data or b"", np.uint8)[first : first + len(values) * decimal_columns.SIZE]
        return decimal_columns.of_ordered_bytes(content, self.arrow)


# ---- the table -------------------------------------------------------------------------------------------------------

FORMS: Mapping[type[Type], type[ColumnForm]] = {
    BooleanType: BooleanForm,
    Int64Type: Int64Form,
    Float64Type: Float64Form,
    StringType: StringForm,
    TimestampType: TimestampForm,
    ListType: ListForm,
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
