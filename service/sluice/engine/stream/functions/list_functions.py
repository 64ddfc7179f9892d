"""Scalar functions of lists."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.forms.form_contract import lists_of
from sluice.engine.stream.functions.column_arguments import EDGE, INT64, Column, Kernel, by_name, is_scalar, repeated


def over_rows(function: Kernel) -> Kernel:
    """Wraps a function that needs columns: constants become columns."""

    def computed(*columns: Column) -> Column:
        length = next((len(column) for column in columns if not is_scalar(column)), None)
        values = function(*(repeated(c, 1 if length is None else length) if is_scalar(c) else c for c in columns))
        return values[0] if length is None else values

    return computed


def size(values: Column) -> Column:
    if pa.types.is_map(values.type):
        return keyed(size)(values)
    length = pc.binary_length(values) if pa.types.is_binary(values.type) else pc.list_value_length(values)
    return pc.cast(length, INT64)


def bounds(values: pa.ListArray) -> tuple[np.ndarray, np.ndarray]:
    """The index of each list's first element among all elements, and the length of each list; the length of a null is
    0.
    """
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return values.offsets.to_numpy()[:-1].astype(np.int64), lengths


def element_at(values: pa.ListArray, position: pa.Array) -> pa.Array:
    starts, lengths = bounds(values)
    at, inside = _places(lengths, position)
    return values.values.take(pa.array(np.where(inside, starts + at, 0), mask=~inside))


def _places(lengths: np.ndarray, position: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The positions from the start of the lists, and which of them are inside."""
    at = pc.fill_null(position, EDGE - 1).to_numpy(zero_copy_only=False)
    at = np.where(at < 0, at + lengths, at)
    return at, (at >= 0) & (at < lengths)


@over_rows
def _outside(values: pa.ListArray, position: pa.Array) -> pa.Array:
    _, inside = _places(bounds(values)[1], position)
    return pa.array(~inside & pc.and_(values.is_valid(), position.is_valid()).to_numpy(zero_copy_only=False))


def outside(values: Column, position: Column) -> np.ndarray:
    """For which rows the position is outside of the list."""
    rows = _outside(values, position)
    return np.array(rows.as_py()) if is_scalar(rows) else np.asarray(rows.to_numpy(zero_copy_only=False))


def sublist(values: pa.ListArray, start: pa.Array, length: pa.Array | None = None) -> pa.Array:
    """As `substring`: a negative start counts as 0, and so does a negative length."""
    starts, lengths = bounds(values)
    missing = pc.is_null(values).to_numpy(zero_copy_only=False) | pc.is_null(start).to_numpy(zero_copy_only=False)
    first = np.minimum(np.maximum(pc.fill_null(start, 0).to_numpy(zero_copy_only=False), 0), lengths)
    sizes = lengths - first
    if length is not None:
        missing |= pc.is_null(length).to_numpy(zero_copy_only=False)
        sizes = np.minimum(sizes, np.maximum(pc.fill_null(length, 0).to_numpy(zero_copy_only=False), 0))
    sizes[missing] = 0
    ends = np.cumsum(sizes)
    places = np.repeat(starts + first - ends + sizes, sizes) + np.arange(int(sizes.sum()))
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values.values.take(pa.array(places)), mask=pa.array(missing))


def list_index(values: pa.ListArray, value: pa.Array) -> pa.Array:
    """The first position whose element equals the value, -1 if none does; NaN equals nothing."""
    lengths, row, elements = _elements(values)
    place = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    is_equal = pc.fill_null(pc.equal(elements, value.take(pa.array(row))), False).to_numpy(zero_copy_only=False)  # noqa: FBT003
    positions = np.full(len(lengths), EDGE - 1)
    np.minimum.at(positions, row[is_equal], place[is_equal])
    missing = pc.or_(pc.is_null(values), pc.is_null(value)).to_numpy(zero_copy_only=False)
    return pa.array(np.where(positions == EDGE - 1, -1, positions), mask=missing)


def list_contains(values: pa.ListArray, value: pa.Array) -> pa.Array:
    return pc.greater_equal(list_index(values, value), 0)


def _elements(values: pa.ListArray) -> tuple[np.ndarray, np.ndarray, pa.Array]:
    """The lengths of the lists, and each element with the row that it is of."""
    starts, lengths = bounds(values)
    row = np.repeat(np.arange(len(lengths)), lengths)
    place = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return lengths, row, values.values.take(pa.array(starts[row] + place))


def _of_rows(values: pa.ListArray, row: np.ndarray, elements: pa.Array) -> pa.ListArray:
    """The lists of these elements, whose rows ascend; null where `values` is."""
    offsets = np.searchsorted(row, np.arange(len(values) + 1)).astype(np.int32)
    mask = values.is_null() if values.null_count else None
    return pa.ListArray.from_arrays(pa.array(offsets), elements, mask=mask)


def list_sum(values: pa.ListArray) -> pa.Array:
    """0 for an empty list; int64 wraps around."""
    lengths, row, elements = _elements(values)
    totals = np.zeros(len(lengths), elements.type.to_pandas_dtype())
    np.add.at(totals, row, elements.to_numpy(zero_copy_only=False))
    return pa.array(totals, mask=values.is_null().to_numpy(zero_copy_only=False))


def list_mean(values: pa.ListArray) -> pa.Array:
    """No value for an empty list."""
    lengths, row, elements = _elements(values)
    totals = np.zeros(len(lengths))
    np.add.at(totals, row, elements.to_numpy(zero_copy_only=False).astype(np.float64))
    return pa.array(totals / np.maximum(lengths, 1), mask=lengths == 0)


def list_sort(values: pa.ListArray) -> pa.ListArray:
    """The smallest first; a NaN is larger than all numbers (O4)."""
    _, row, elements = _elements(values)
    order = pc.sort_indices(
        pa.table({"row": row, "element": elements}), [("row", "ascending"), ("element", "ascending")]
    )
    return _of_rows(values, row, elements.take(order))


def list_min(values: pa.ListArray) -> pa.Array:
    return element_at(list_sort(values), pa.array(np.zeros(len(values), np.int64)))


def list_max(values: pa.ListArray) -> pa.Array:
    """The largest element that is not null; no value without one."""
    lengths, row, elements = _elements(values)
    present = np.bincount(row[elements.is_valid().to_numpy(zero_copy_only=False)], minlength=len(lengths))
    return element_at(list_sort(values), pa.array(present - 1))


def list_distinct(values: pa.ListArray) -> pa.ListArray:
    """Each value once, in its first place; all NaN are one value, so are all null, and -0.0 is 0.0."""
    _, row, elements = _elements(values)
    comparable = pc.add(elements, 0.0) if pa.types.is_floating(elements.type) else elements
    codes = pc.fill_null(comparable.dictionary_encode().indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    _, first = np.unique(row * (len(codes) + 1) + codes, return_index=True)
    first.sort()
    return _of_rows(values, row[first], elements.take(pa.array(first)))


def list_reverse(values: pa.ListArray) -> pa.ListArray:
    lengths, row, elements = _elements(values)
    ends = np.cumsum(lengths)
    places = (2 * ends - lengths)[row] - 1 - np.arange(len(row))
    return _of_rows(values, row, elements.take(pa.array(places)))


def list_without(values: pa.ListArray, unwanted: pa.Array) -> pa.ListArray:
    """The elements that do not equal the value; NaN equals nothing. Null if the value is."""
    _, row, elements = _elements(values)
    is_unwanted = pc.fill_null(pc.equal(elements, unwanted.take(pa.array(row))), False).to_numpy(zero_copy_only=False)  # noqa: FBT003
    kept = _of_rows(values, row[~is_unwanted], elements.filter(pa.array(~is_unwanted)))
    return pc.if_else(unwanted.is_valid(), kept, pa.scalar(None, kept.type))


def list_without_all(values: pa.ListArray, unwanted: pa.ListArray) -> pa.ListArray:
    return _chosen(values, unwanted, shared=False)


def list_common(values: pa.ListArray, others: pa.ListArray) -> pa.ListArray:
    return _chosen(values, others, shared=True)


def _chosen(values: pa.ListArray, others: pa.ListArray, *, shared: bool) -> pa.ListArray:
    """The elements that equal one of the other list, or that equal none; NaN equals nothing. Null if a list is."""
    (_, row, elements), (_, other_row, other_elements) = _elements(values), _elements(others)
    all_elements = pa.concat_arrays([elements, other_elements])
    comparable = pc.add(all_elements, 0.0) if pa.types.is_floating(all_elements.type) else all_elements
    codes = pc.fill_null(comparable.dictionary_encode().indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    if pa.types.is_floating(all_elements.type):
        codes[pc.fill_null(pc.is_nan(all_elements), False).to_numpy(zero_copy_only=False)] = -1  # noqa: FBT003
    places = np.concatenate([row, other_row]) * (len(codes) + 1) + codes
    shared_elements = np.isin(places[: len(row)], places[len(row) :]) & (codes[: len(row)] >= 0)
    kept = _of_rows(values, row[shared_elements == shared], elements.filter(pa.array(shared_elements == shared)))
    return pc.if_else(others.is_valid(), kept, pa.scalar(None, kept.type))


def list_concatenate(values: pa.ListArray, others: pa.ListArray) -> pa.ListArray:
    """Null if one of the lists is."""
    (_, row, elements), (_, other_row, other_elements) = _elements(values), _elements(others)
    rows = np.concatenate([row, other_row])
    order = np.argsort(rows, kind="stable")
    missing = pc.or_(values.is_null(), others.is_null())
    joined = pa.concat_arrays([elements, other_elements]).take(pa.array(order))
    offsets = np.searchsorted(rows[order], np.arange(len(values) + 1)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), joined, mask=missing)


# ---- maps ------------------------------------------------------------------------------------------------------------


def keys_of(maps: pa.MapArray) -> pa.ListArray:
    return lists_of(maps, maps.keys)


def keyed(function: Kernel) -> Kernel:
    """Applies a function of lists to the keys of maps (ST11)."""
    return over_rows(lambda maps, *others: function(keys_of(maps), *others))


def map_values(maps: pa.MapArray) -> pa.Array:
    return lists_of(maps, maps.items)


def map_merge(maps: pa.MapArray, others: pa.MapArray) -> pa.MapArray:
    """The keys are in order, as in every map. Null if one of the maps is."""
    parts = [(_elements(keys_of(map_array)), _elements(map_values(map_array))[2]) for map_array in (maps, others)]
    row = np.concatenate([row for (_, row, _), _ in parts])
    keys = pa.concat_arrays([keys for (_, _, keys), _ in parts])
    values = pa.concat_arrays([values for _, values in parts])
    rows = pa.table({"row": row, "key": keys, "place": np.arange(len(row))})
    order = pc.sort_indices(rows, [(name, "ascending") for name in rows.column_names]).to_numpy()
    codes = keys.dictionary_encode().indices.to_numpy(zero_copy_only=False)[order]
    changes = (np.diff(row[order]) != 0) | (np.diff(codes) != 0)
    last = order[np.append(changes, True)] if len(order) else order
    offsets = np.searchsorted(row[last], np.arange(len(maps) + 1)).astype(np.int32)
    missing = pc.or_(maps.is_null(), others.is_null())
    taken = (column.take(pa.array(last)) for column in (keys, values))
    return pa.MapArray.from_arrays(pa.array(offsets), *taken, mask=missing)


def entry(maps: pa.MapArray, key: pa.Array) -> pa.Array:
    """The value of the key; null without it (ST9)."""
    place = list_index(keys_of(maps), key)
    has_key = pc.fill_null(pc.greater_equal(place, 0), False).to_numpy(zero_copy_only=False)  # noqa: FBT003
    starts = maps.offsets.to_numpy()[:-1]
    rows = np.where(has_key, starts + pc.fill_null(place, 0).to_numpy(zero_copy_only=False), 0)
    return maps.items.take(pa.array(rows, mask=~has_key))


KERNELS = {
    **by_name(size),
    "map_keys": over_rows(keys_of),
    "has_key": keyed(list_contains),
    "map_values": over_rows(map_values),
    "entry": over_rows(entry),
    **{
        function.__name__: over_rows(function)
        for function in (
            element_at,
            sublist,
            list_index,
            list_contains,
            list_sum,
            list_mean,
            list_sort,
            list_min,
            list_max,
            list_distinct,
            list_reverse,
            list_without,
            list_without_all,
            list_common,
            list_concatenate,
            map_merge,
        )
    },
}
