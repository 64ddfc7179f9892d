"""The form of lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.forms.bytes_forms import BytesForm, binary_of, offsets_of
from sluice.columns.forms.composite_forms import unframed
from sluice.columns.forms.form_contract import Forms, Types, or_none, with_nulls
from sluice.columns.forms.optional_form import OptionalForm
from sluice.columns.forms.word_forms import WordForm
from sluice.model.types import Type, list_of


class ListForm(BytesForm):
    """The bytes of a list are the words of its elements, or the elements' own bytes, each behind its length."""

    json = frozenset({list})

    def __init__(self, type_: Type, form: Forms) -> None:
        super().__init__(type_, form)
        assert type_.element is not None  # noqa: S101 - a list has elements
        self.element = form(type_.element)
        self.arrow = pa.list_(self.element.arrow)

    @classmethod
    def type_of(cls, arrow: pa.DataType, kind: type[Type], inside: Types) -> Type | None:  # noqa: ARG003 - it is a list
        return list_of(inside(arrow.value_type)) if pa.types.is_list(arrow) else None

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
                counts, (items,) = unframed(content, ends.astype(np.int64), (element,))
                return pa.ListArray.from_arrays(pa.array(offsets_of(counts)), items)
            case WordForm() as element:
                return pa.ListArray.from_arrays(pa.array(ends // 8), element.values(content.view(np.int64)))
            case BytesForm() as element:
                from sluice.columns.interner import unframe  # noqa: PLC0415 - a compiled kernel

                counts, lengths, inner = unframe(content, ends.astype(np.int64))
                elements = element.from_bytes(binary_of(lengths, inner))
                return pa.ListArray.from_arrays(pa.array(offsets_of(counts)), elements)
        raise TypeError(self.element)

    def from_values(self, values: Sequence[Any]) -> pa.Array:
        return _grouped(values, self.element.from_values([v for row in values for v in row]))

    def from_json(self, values: Sequence[Any]) -> pa.Array:
        return _grouped(values, self.element.column([v for row in values for v in row]))

    def from_user(self, values: Sequence[Any]) -> pa.Array:
        return with_nulls(values, lambda rows: _grouped(rows, self.element.from_user([v for row in rows for v in row])))

    def to_json(self, array: pa.Array) -> list[Any]:
        return _regrouped(array, self.element.to_json)

    def to_written(self, array: pa.Array) -> list[Any]:
        return _regrouped(array, self.element.to_written)

    def to_shown(self, array: pa.Array) -> list[Any]:
        return _regrouped(array, self.element.to_shown)

    def to_python(self, array: pa.Array) -> list[Any]:
        return _regrouped(array, self.element.to_python)

    def to_user(self, array: pa.Array) -> list[Any]:
        return _regrouped(array, self.element.to_user)


def _grouped(rows: Sequence[Sequence[Any]], elements: pa.Array) -> pa.ListArray:
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), elements)


def _regrouped(array: pa.Array, convert: Callable[[pa.Array], list[Any]]) -> list[list[Any]]:
    elements = or_none(array.flatten(), convert)
    ends = np.cumsum(pc.list_value_length(array).to_numpy(zero_copy_only=False)).tolist()
    return [elements[a:b] for a, b in zip([0, *ends], ends, strict=False)]
