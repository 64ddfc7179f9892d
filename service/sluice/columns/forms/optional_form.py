"""The form of values that may be absent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.forms.form_contract import ColumnForm, Forms, Types, or_none, spread, with_nulls
from sluice.model.types import Type

if TYPE_CHECKING:
    from sluice.columns.interner import Interner, Spans


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

    def __init__(self, type_: Type, form: Forms) -> None:
        super().__init__(type_, form)
        self.present = form(type_.present)

    @classmethod
    def type_of(cls, arrow: pa.DataType, kind: type[Type], inside: Types) -> Type | None:  # noqa: ARG003 - an Arrow type does not say it
        return None

    def to_words(self, array: pa.Array, strings: Interner) -> np.ndarray:
        filled = pc.coalesce(array, self.present.constant(self.type.present.empty)) if array.null_count else array
        return self.present.to_words(filled, strings)

    def from_words(self, words: np.ndarray, strings: Interner) -> pa.Array:
        """The values as if none was null."""
        return self.present.from_words(words, strings)

    def from_values(self, values: Sequence[Any]) -> pa.Array:
        return with_nulls(values, self.present.from_values)

    def constant(self, value: Any) -> pa.Scalar:  # noqa: ANN401
        return pa.scalar(None, self.arrow) if value is None else self.present.constant(value)

    def sort_words(self, words: np.ndarray) -> np.ndarray:
        return self.present.sort_words(words)

    def ranks(self, words: np.ndarray, strings: Interner, *, descending: bool) -> np.ndarray:
        return self.present.ranks(words, strings, descending=descending)

    def from_json(self, values: Sequence[Any]) -> pa.Array:
        return with_nulls(values, self.present.from_json)

    def from_digits(self, texts: list[str]) -> pa.Array:
        return self.present.from_digits(texts)

    def to_json(self, array: pa.Array) -> list[Any]:
        return or_none(array, self.present.to_json)

    def to_written(self, array: pa.Array) -> list[Any]:
        return or_none(array, self.present.to_written)

    def to_shown(self, array: pa.Array) -> list[Any]:
        return or_none(array, self.present.to_shown)

    def to_python(self, array: pa.Array) -> list[Any]:
        return or_none(array, self.present.to_python)

    def to_key(self, array: pa.Array) -> list[Any]:
        return or_none(array, self.present.to_key)

    def to_user(self, array: pa.Array) -> list[Any]:
        return or_none(array, self.present.to_user)

    def from_user(self, values: Sequence[Any]) -> pa.Array:
        return with_nulls(values, self.present.from_user)

    def pieces(self, array: pa.Array) -> pa.LargeBinaryArray:
        is_valid = array.is_valid()
        pieces = self.present.pieces(array.drop_null() if array.null_count else array)
        if array.null_count:
            pieces = pc.coalesce(spread(pieces, is_valid), pa.scalar(b"", pa.large_binary()))
        presence = pa.array([b"\0", b"\1"], pa.large_binary()).take(is_valid.cast(pa.int8()))
        return pc.binary_join_element_wise(presence, pieces, pa.scalar(b"", pa.large_binary()))

    def from_spans(self, content: np.ndarray, spans: Spans) -> pa.Array:
        values = self.present.from_spans(content, spans.present())
        return values if spans.is_present.all() else spread(values, pa.array(spans.is_present))
