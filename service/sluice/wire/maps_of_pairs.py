"""Columns of maps from columns of lists of keys and values (PA17)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.arrow_types import array_of, arrow_schema
from sluice.columns.column_forms import form
from sluice.columns.forms.composite_forms import MapForm
from sluice.columns.forms.form_contract import spread
from sluice.model.members import Pairs, Steps
from sluice.model.types import Schema, Type
from sluice.wire.decoded_records import Decoded, record_batch


@dataclass(frozen=True, slots=True)
class MapsOfPairs:
    """Makes the tuples of `schema` from tuples that have lists in place of maps.

    pairs     by attribute: where its list has the keys and values
    defaults  the values of attributes that a record lacks
    lists     by attribute: the type of its list, as reasons name it
    """

    schema: Schema
    pairs: Mapping[str, Pairs]
    defaults: Mapping[str, Any]
    lists: Mapping[str, str]

    def of(self, decoded: Decoded) -> Decoded:
        columns = [self._column(name, type_, decoded.tuples.column(name)) for name, type_ in self.schema]
        tuples = record_batch(columns, arrow_schema(self.schema), decoded.tuples.num_rows)
        return Decoded(tuples, decoded.good, [(row, self._reason(why)) for row, why in decoded.bad])

    def _column(self, name: str, type_: Type, column: pa.Array) -> pa.Array:
        if name not in self.pairs:
            return column
        present = _maps(column.drop_null(), type_.present, self.pairs[name])
        is_valid = column.is_valid()
        if name not in self.defaults:
            return spread(present, is_valid) if column.null_count else present
        rows = is_valid.to_numpy(zero_copy_only=False)
        places = np.where(rows, np.cumsum(rows) - 1, len(present))
        return pa.concat_arrays([present, array_of([self.defaults[name]], type_)]).take(pa.array(places))

    def _reason(self, why: str) -> str:
        """The reason with the types of the maps."""
        types = dict(self.schema)
        for name in self.pairs:
            why = why.replace(f"{name}: expected {self.lists[name]}", f"{name}: expected {types[name]}")
        return why


def _maps(lists: pa.ListArray, type_: Type, pairs: Pairs) -> pa.MapArray:
    """The map of each list. An entry without a value is null, or left out if the values are not optional."""
    entries, map_form = lists.flatten(), form(type_)
    assert isinstance(map_form, MapForm)  # noqa: S101 - by the caller
    keys = _at(entries, pairs.key)
    values = pc.coalesce(*(_at(entries, path) for path in pairs.value))
    rows = np.repeat(np.arange(len(lists)), pc.list_value_length(lists).to_numpy().astype(np.int64))
    if not type_.parts[1].optional:
        is_valid = values.is_valid()
        keys, values, rows = (
            keys.filter(is_valid),
            values.filter(is_valid),
            rows[is_valid.to_numpy(zero_copy_only=False)],
        )
    return map_form.in_order(keys, values, np.bincount(rows, minlength=len(lists)))


def _at(entries: pa.StructArray, path: Steps) -> pa.Array:
    """The values at this path of each entry, null where a struct on the way is."""
    column = entries
    for step in path:
        column = pc.struct_field(column, str(step))
    return column
