"""Forms of structs and maps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.forms.bytes_forms import BytesForm, offsets_of
from sluice.columns.forms.form_contract import ColumnForm, Forms, Types, or_none, with_nulls
from sluice.columns.forms.optional_form import OptionalForm
from sluice.columns.forms.word_forms import WordForm
from sluice.model.types import StructType, Type, map_of


class CompositeForm(BytesForm):
    """The bytes of a composite value are those of its items, and the bytes of an item the pieces of its parts, in their
    order: a part is 8 bytes of a word, or bytes behind their length (8 bytes, little-endian). In front of a part that
    may be absent there is a byte, 1 if it is there; nothing follows a 0. So the state holds such values (ST7).
    """

    json = frozenset({dict})

    def __init__(self, type_: Type, form: Forms) -> None:
        super().__init__(type_, form)
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

        counts, columns = unframed(*buffers(values), self.parts)
        return self.composed(columns, counts)

    def from_values(self, values: Sequence[Any]) -> pa.Array:
        return self._built(list(map(self.items, values)), lambda part, column: part.from_values(column))

    def constant(self, value: Any) -> pa.Scalar:  # noqa: ANN401
        return self.from_values([value])[0]

    def from_json(self, values: Sequence[Any]) -> pa.Array:
        return self._built(list(map(self.items_of_object, values)), lambda part, column: part.column(column))

    def from_user(self, values: Sequence[Any]) -> pa.Array:
        def read(present: Sequence[Any]) -> pa.Array:
            return self._built(list(map(self.items_of_user, present)), lambda part, column: part.from_user(column))

        return with_nulls(values, read)

    def to_json(self, array: pa.Array) -> list[Any]:
        return self._values(array, lambda part: part.to_json, self.object)

    def to_written(self, array: pa.Array) -> list[Any]:
        return self._values(array, lambda part: part.to_written, self.object)

    def to_shown(self, array: pa.Array) -> list[Any]:
        return self._values(array, lambda part: part.to_shown, self.object)

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
        parts = [or_none(column, convert(part)) for part, column in zip(self.parts, columns, strict=True)]
        items = list(zip(*parts, strict=True))
        return [value(items[a:b]) for a, b in pairwise(starts.tolist())]


def unframed(content: np.ndarray, starts: np.ndarray, parts: Sequence[ColumnForm]) -> tuple[np.ndarray, list[pa.Array]]:
    """The number of items of each composite value with these bytes, and the columns of the items' parts."""
    from sluice.columns.interner import spans  # noqa: PLC0415 - a compiled kernel

    present = [part.present if isinstance(part, OptionalForm) else part for part in parts]
    sized = np.array([not isinstance(part, WordForm) for part in present])
    counts, every = spans(content, starts, sized, np.array([part.type.optional for part in parts]))
    return counts, [part.from_spans(content, every.every(len(parts), n)) for n, part in enumerate(parts)]


class StructForm(CompositeForm):
    def __init__(self, type_: Type, form: Forms) -> None:
        super().__init__(type_, form)
        assert isinstance(type_, StructType)  # noqa: S101 - by the table
        self.names = tuple(name for name, _ in type_.members)
        self.arrow = pa.struct([(name, part.arrow) for name, part in zip(self.names, self.parts, strict=True)])

    @classmethod
    def type_of(cls, arrow: pa.DataType, kind: type[Type], inside: Types) -> Type | None:  # noqa: ARG003 - it is a struct
        if not pa.types.is_struct(arrow):
            return None
        return StructType(tuple((field.name, inside(field.type)) for field in arrow))

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
    """The form of a map: its entries in ascending order of their keys, each key once."""

    def __init__(self, type_: Type, form: Forms) -> None:
        super().__init__(type_, form)
        self.key = self.parts[0]
        self.arrow = pa.map_(*(part.arrow for part in self.parts))

    @classmethod
    def type_of(cls, arrow: pa.DataType, kind: type[Type], inside: Types) -> Type | None:  # noqa: ARG003 - it is a map
        return map_of(inside(arrow.key_type), inside(arrow.item_type)) if pa.types.is_map(arrow) else None

    def divided(self, array: pa.Array) -> tuple[Sequence[pa.Array], np.ndarray]:
        starts = array.offsets.to_numpy().astype(np.int64)
        first, count = int(starts[0]), int(starts[-1] - starts[0])
        return [array.keys.slice(first, count), array.items.slice(first, count)], starts - first

    def composed(self, columns: Sequence[pa.Array], counts: np.ndarray) -> pa.Array:
        return pa.MapArray.from_arrays(pa.array(offsets_of(counts)), *columns)

    def in_order(self, keys: pa.Array, items: pa.Array, counts: np.ndarray) -> pa.MapArray:
        """The maps of these entries: `counts` of them each, in any order. The last entry with a key counts."""
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
