"""Aggregation functions that need all tuples of a window: distinct values, percentiles, joined texts, lists.

They read the listed tuples of each row of `FiredContents`. A firing costs O(tuples in the window), or sorting these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.column_forms import form
from sluice.columns.encoding import from_words, to_words
from sluice.columns.forms.form_contract import Order, lists_of
from sluice.columns.interner import InternedText, Interner
from sluice.columns.kernel import kernel, read_only
from sluice.engine.contents.fired_contents import FiredContents
from sluice.engine.contents.summaries import Layout, combine, lift
from sluice.model.types import STRING, ListType, MapType, Type


def lists(sizes: np.ndarray, values: pa.Array, missing: np.ndarray | None = None) -> pa.ListArray:
    """Divides the values into consecutive lists of these sizes. `missing`: the rows whose list is null."""
    starts = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    mask = None if missing is None else pa.array(missing)
    return pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), values, mask=mask)


def joined(contents: FiredContents, column: int) -> pa.Array:
    """Concatenates the texts of each row in order of arrival."""
    return pc.binary_join(lists(contents.size, from_words(contents.listed[:, column], STRING, contents.strings)), "")


# ---- distinct values ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Distinct:
    """The distinct values of each row by first arrival: how many a row has, the values, how often each occurs."""

    size: np.ndarray
    words: np.ndarray
    times: np.ndarray

    def first(self, most: int | None) -> Distinct:
        """The first `most` values of each row; all of them if `most` is None."""
        if most is None:
            return self
        place = np.arange(len(self.words)) - np.repeat(np.cumsum(self.size) - self.size, self.size)
        return Distinct(np.minimum(self.size, most), self.words[place < most], self.times[place < most])


def distinct(contents: FiredContents, column: int, type_: Type) -> Distinct:
    """The distinct values of a listed column. Each NaN is a distinct value (A17), and -0.0 equals 0.0.

    Lists are equal if their elements are.
    """
    words = np.ascontiguousarray(contents.listed[:, column])
    alike, single = words, np.zeros(len(words), np.bool_)
    if has_floats(type_):
        values, single = _without_negative_zero(from_words(words, type_, contents.strings), type_)
        alike = to_words(values, type_, Interner())
    same_as, times = np.empty(len(words), np.int64), np.zeros(len(words), np.int64)
    room = 1 << (2 * int(contents.size.max(initial=1))).bit_length()
    chains = np.empty(room, np.int64), np.full(room, -1, np.int64)
    _first_of_each(read_only(alike), single, contents.size, *chains, same_as, times)
    firsts = same_as == np.arange(len(words))
    size = np.bincount(contents.row()[firsts], minlength=len(contents.size))
    return Distinct(size, words[firsts], times[firsts])


def has_floats(type_: Type) -> bool:
    """Whether the values are numbers with NaN, or have such numbers inside."""
    return any(map(has_floats, type_.parts)) if type_.parts else form(type_).order is Order.REAL


def _without_negative_zero(values: pa.Array, type_: Type) -> tuple[pa.Array, np.ndarray]:
    """The values with 0.0 for -0.0, and which of them are or contain NaN."""
    if not has_floats(type_):
        return values, np.zeros(len(values), np.bool_)
    if not type_.parts:
        plain = pc.add(values, 0.0)
        return plain, pc.fill_null(pc.is_nan(plain), False).to_numpy(zero_copy_only=False)  # noqa: FBT003
    if isinstance(type_.present, ListType):
        inner, nan = _without_negative_zero(values.values, type_.parts[0])
        return lists_of(values, inner), _any(values, nan)
    if isinstance(type_.present, MapType):
        inner, nan = _without_negative_zero(values.items, type_.parts[1])
        return pa.MapArray.from_arrays(values.offsets, values.keys, inner, mask=_mask(values)), _any(values, nan)
    members = [_without_negative_zero(values.field(place), part) for place, part in enumerate(type_.parts)]
    values_of_type = pa.StructArray.from_arrays(
        [inner for inner, _ in members], fields=list(values.type), mask=_mask(values)
    )
    return values_of_type, np.logical_or.reduce([nan for _, nan in members])


def _mask(values: pa.Array) -> pa.Array | None:
    return values.is_null() if values.null_count else None


def _any(values: pa.ListArray | pa.MapArray, marked: np.ndarray) -> np.ndarray:
    """Whether an element of each value is marked."""
    before = np.concatenate([[0], np.cumsum(marked)])[values.offsets.to_numpy()]
    return np.asarray(np.diff(before) > 0)


@kernel
def _first_of_each(
    words: np.ndarray, single: np.ndarray, sizes: np.ndarray,
    slots: np.ndarray, owners: np.ndarray, same_as: np.ndarray, times: np.ndarray,
) -> None:  # fmt: skip
    """Writes to `same_as[i]` the index of the first value in its row that equals value i, and counts it in `times`.

    All rows use the same hash table. An entry is valid only for the row in `owners`, so the table is never cleared. A
    value that is `single` equals no other value.
    """
    mask, i = len(slots) - 1, 0
    for row in range(len(sizes)):
        for _ in range(sizes[row]):
            value = np.uint64(words[i]) * np.uint64(0x9E3779B97F4A7C15)
            slot = np.int64(value >> np.uint64(32)) & mask
            while not single[i] and owners[slot] == row and words[slots[slot]] != words[i]:
                slot = (slot + 1) & mask
            if single[i] or owners[slot] != row:
                same_as[i] = i
            else:
                same_as[i] = slots[slot]
            if not single[i] and owners[slot] != row:
                owners[slot] = row
                slots[slot] = i
            times[same_as[i]] += 1
            i += 1


def having(contents: FiredContents, column: int, type_: Type, best: pa.Array) -> np.ndarray:
    """A mask of the listed tuples that have the value of `best` for their row.

    If `best` is NaN, only the first tuple of the row is chosen: it is the NaN that came first (A16).
    """
    words, row = np.ascontiguousarray(contents.listed[:, column]), contents.row()
    best_words = to_words(best, type_, contents.strings)[row]
    chosen: np.ndarray = words == best_words
    if form(type_).order is not Order.REAL:
        return chosen
    values = best_words.view(np.float64)
    return np.asarray(np.where(np.isnan(values), contents.position_in_row() == 0, words.view(np.float64) == values))


# ---- order ----------------------------------------------------------------------------------------------------------


def percentile(contents: FiredContents, column: int, share: float) -> np.ndarray:
    """The percentile `share` (0 to 1, inclusive) of a listed float64 column; NaN if a row contains NaN.

    It interpolates linearly between the two neighbours of position share * (n - 1) in the n sorted values.
    """
    values, row = np.ascontiguousarray(contents.listed[:, column]).view(np.float64), contents.row()
    values = values[np.lexsort((values, row))]
    first = np.cumsum(contents.size) - contents.size
    place = share * (contents.size - 1)
    below = np.floor(place)
    part = place - below
    low = values[first + below.astype(np.int64)]
    high = values[first + np.ceil(place).astype(np.int64)]
    with np.errstate(invalid="ignore", over="ignore"):
        between = low * (1 - part) + high * part
    percentiles = np.where((part == 0) | (low == high), low, between)
    return np.where(np.isnan(values[first + contents.size - 1]), np.nan, percentiles)


def top(contents: FiredContents, column: int, type_: Type, most: int | None, *, descending: bool) -> FiredContents:
    """The contents with the first `most` tuples of each row in the order of a listed column, ascending or descending.

    NaN is greater than every number, and equal values stay in order of arrival, as in a Sort (O4, O6).
    """
    words, value_form = np.ascontiguousarray(contents.listed[:, column]), form(type_)
    order = np.lexsort((value_form.ranks(words, contents.strings, descending=descending), contents.row()))
    place = contents.position_in_row()
    kept = order if most is None else order[place < most]
    size = contents.size if most is None else np.minimum(contents.size, most)
    return replace(contents, size=size, listed=contents.listed.take(kept, axis=0))


# ---- lists as values ------------------------------------------------------------------------------------------------


def by_element(
    contents: FiredContents,
    column: int,
    type_: Type,
    layout: Layout,
    width: int,
    finish: Callable[[FiredContents], pa.Array],
) -> pa.Array:
    """Aggregates lists element by element: element i of the result is the aggregate of element i of all lists of a row.

    The result is null where the lists of a row differ in size (A22).
    """
    assert type_.element is not None  # noqa: S101 - called for lists only
    values = from_words(contents.listed[:, column], type_, contents.strings)
    lengths = pc.list_value_length(values).to_numpy(zero_copy_only=False).astype(np.int64)
    starts, row = np.cumsum(contents.size) - contents.size, contents.row()
    unequal = np.minimum.reduceat(lengths, starts) != np.maximum.reduceat(lengths, starts)
    sizes = np.where(unequal, 0, lengths[starts])
    kept = np.repeat(~unequal[row], lengths)
    place = np.arange(len(kept)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    column_of = (np.repeat((np.cumsum(sizes) - sizes)[row], lengths) + place)[kept]
    words = to_words(values.flatten(), type_.element, contents.strings)[kept].reshape(-1, 1)
    summary = np.zeros((int(sizes.sum()), width), np.int64)
    seen = np.zeros(len(summary), np.bool_)
    _fold(
        layout,
        contents.strings.text,
        np.ascontiguousarray(words),
        column_of,
        summary,
        np.zeros((1, width), np.int64),
        seen,
    )
    return lists(sizes, finish(_columns(np.repeat(contents.size, sizes), summary, contents.strings)), unequal)


def _columns(size: np.ndarray, summary: np.ndarray, strings: Interner) -> FiredContents:
    """Contents with one row per element position of each original row."""
    nothing = np.zeros((0, 0), np.int64)
    return FiredContents(
        size, np.arange(len(size)), size, grouped=False, summary=summary, listed=nothing, strings=strings
    )


@kernel
def _fold(
    fields: Layout, text: InternedText, rows: np.ndarray, group: np.ndarray,
    into: np.ndarray, scratch: np.ndarray, seen: np.ndarray,
) -> None:  # fmt: skip
    for i in range(len(group)):
        g = group[i]
        if seen[g]:
            lift(fields, rows, i, scratch, 0)
            combine(fields, text, into, g, scratch, 0, into, g)
        else:
            lift(fields, rows, i, into, g)
            seen[g] = True
