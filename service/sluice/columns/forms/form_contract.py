"""The contract of a form: how the values of one type stand in columns.

A form has the Arrow type of its type, its words (encoding.py), their order, and its JSON values (json_columns.py). A
form of values with others inside is made with the forms of these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from sluice.model.types import Type

if TYPE_CHECKING:
    from sluice.columns.interner import Interner, Spans


class Order(IntEnum):
    """How a kernel compares two words."""

    WHOLE = 0  # as int64
    REAL = 1  # as the bits of float64; NaN is no number
    TEXT = 2  # as codes of interned texts, by their bytes


#: gives the form of a type; the type of an Arrow type
Forms = Callable[[Type], "ColumnForm"]
Types = Callable[[pa.DataType], Type]


class ColumnForm(ABC):
    """The form of the values of one type in columns, which have no nulls unless the type is optional."""

    #: a type without parameters has it in its class
    arrow: pa.DataType
    #: the Python types that a JSON value may have
    json: ClassVar[frozenset[type]]
    order: ClassVar[Order] = Order.WHOLE
    #: whether a word is the code of interned bytes
    interned: ClassVar[bool] = False

    def __init__(self, type_: Type, form: Forms) -> None:
        """`form` gives the forms of the types inside."""
        self.type = type_

    @classmethod
    def of(cls, type_: Type, form: Forms) -> ColumnForm:
        return cls(type_, form)

    @classmethod
    def type_of(cls, arrow: pa.DataType, kind: type[Type], inside: Types) -> Type | None:  # noqa: ARG003 - see above
        """The type of the class `kind` that has this Arrow type; None if there is none. `inside` gives the types of the
        Arrow types inside.
        """
        return kind() if arrow == cls.arrow else None

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

    def column(self, values: Sequence[Any]) -> pa.Array:
        """The array of JSON values. Raises ValueError (or a subclass), KeyError or OverflowError if one is not of the
        type.
        """
        if not self.json.issuperset(map(type, values)):
            msg = f"not all values are {self.type}"
            raise ValueError(msg)
        return self.from_json(values)

    def from_json(self, values: Sequence[Any]) -> pa.Array:
        """The array of values whose Python types are in `json`. Raises ValueError, KeyError or OverflowError."""
        return pa.array(values, self.arrow)

    def from_digits(self, texts: list[str]) -> pa.Array:
        """The array of numbers, which are given by their digits: `-12.50`. Null: the number does not fit."""
        raise TypeError(f"{self.type} of {texts[:1]}")

    def to_json(self, array: pa.Array) -> list[Any]:
        return array.to_pylist()  # type: ignore[no-any-return]

    def to_written(self, array: pa.Array) -> list[Any]:
        """As `to_json`, for orjson alone: the values of the type json are their texts, which keep their digits."""
        return self.to_json(array)

    def to_shown(self, array: pa.Array) -> list[Any]:
        """As `to_json`, but a number in a json is a Decimal if the float64 of it is written with other digits."""
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


def with_nulls(values: Sequence[Any], read: Callable[[Sequence[Any]], pa.Array]) -> pa.Array:
    """The array that `read` makes of the values that are not None, with a null for each None."""
    present = [value for value in values if value is not None]
    if len(present) == len(values):
        return read(values)
    return spread(read(present), pa.array([value is not None for value in values]))


def spread(present: pa.Array, is_valid: pa.BooleanArray) -> pa.Array:
    """The values in the rows in which `is_valid` is true, null in the others."""
    rows = is_valid.to_numpy(zero_copy_only=False)
    return present.take(pa.array(np.cumsum(rows) - 1, mask=~rows))


def lists_of(values: pa.ListArray | pa.MapArray, entries: pa.Array) -> pa.ListArray:
    """The lists of a column of lists or maps with other entries; null for null. `entries` has one for each entry in the
    memory of `values`, those outside of a slice included.

    Arrow takes no nulls beside the offsets of a slice, so they are copied.
    """
    if not values.null_count:
        return pa.ListArray.from_arrays(values.offsets, entries)
    return pa.ListArray.from_arrays(pa.array(values.offsets.to_numpy()), entries, mask=values.is_null())


def or_none(array: pa.Array, convert: Callable[[pa.Array], list[Any]]) -> list[Any]:
    """What `convert` makes of the values that are not null, with None for each null."""
    if not array.null_count:
        return convert(array)
    values = iter(convert(array.drop_null()))
    return [next(values) if is_valid else None for is_valid in array.is_valid().to_pylist()]
