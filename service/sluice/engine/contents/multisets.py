"""Multisets: how often each value occurs in each group, for CountDistinct and ApproxPercentile. O(1) per tuple.

One hash table has an entry for each distinct value of each group and series. A series counts the words of one column:
as they are or, for ApproxPercentile, rounded to the first BITS bits of the float64. The counts depend only on the
tuples that the group holds now, not on their order or on tuples that have left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns.float_bits import as_real
from sluice.columns.kernel import inlined, kernel
from sluice.columns.saved_columns import grown

#: the bits of a float64 that rounding keeps: sign, exponent, and 7 bits of the mantissa. All numbers with the same bits
#: are represented by the number in their middle. Its distance from each of them is at most 2 ** -8 of that number
BITS = 19
SHIFT = 64 - BITS
NONE = -1
SMALLEST, LARGEST = -(2**63), 2**63 - 1
INFINITE = 0x7FF0 << 48

#: a series: the column whose words are counted, whether it is float64, whether the numbers are rounded, and the column
#: that says which tuples count (NONE: all)
SERIES = np.dtype([("column", np.int64), ("floating", np.bool_), ("rounded", np.bool_), ("guard", np.int64)])
#: an entry: a value of a group and series, how often it occurs, the next entry in the same hash chain (or in the chain
#: of free entries), and its neighbours in the list of the entries of its group and series
ENTRY = np.dtype([
    ("word", np.int64), ("times", np.int64), ("group", np.int32), ("series", np.int32), ("chained", np.int32),
    ("before", np.int32), ("after", np.int32),
])  # fmt: skip
#: per group and series: the first entry of the list, the number of entries, and the number of NaN (no NaN has an entry)
HEAD = np.dtype([("first", np.int32), ("distinct", np.int64), ("nans", np.int64)])
#: a value that a result lists, and how often it occurs
PAIR = np.dtype([("word", np.int64), ("times", np.int64)])
#: the scalars: the first entry of the chain of free entries, and the number of entries ever used
FREE, TOP, SCALARS = range(3)


class Multisets(NamedTuple):
    """The tables of the kernels. `slots` has the first entry of each hash chain; its length is a power of two."""

    series: np.ndarray
    entries: np.ndarray
    heads: np.ndarray
    slots: np.ndarray
    scalars: np.ndarray


# ---- one tuple -------------------------------------------------------------------------------------------------------


@inlined
def count(m: Multisets, rows: np.ndarray, slot: int, group: int, change: int) -> None:
    """Counts the tuple in `slot` when it enters the group (`change` 1) or leaves it (`change` -1)."""
    for s in range(len(m.series)):
        if m.series[s].guard != NONE and not rows[slot, m.series[s].guard]:
            continue
        word = rows[slot, m.series[s].column]
        head = group * len(m.series) + s
        if m.series[s].floating:
            real = as_real(word)
            if real != real:  # noqa: PLR0124 - NaN
                m.heads[head].nans += change
                continue
            if word == SMALLEST:  # -0.0 is 0.0
                word = np.int64(0)
        if m.series[s].rounded:
            word = (word ^ ((word >> 63) & LARGEST)) >> SHIFT  # sorts as the numbers do
        if change > 0:
            _add(m, head, group, s, word)
        else:
            _take(m, head, group, s, word)


@inlined
def _hash(m: Multisets, group: int, s: int, word: int) -> int:
    mixed = (np.uint64(word) ^ (np.uint64(group) << np.uint64(20)) ^ np.uint64(s)) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(mixed >> np.uint64(32)) & (len(m.slots) - 1)  # type: ignore[return-value]


@inlined
def _find(m: Multisets, slot: int, group: int, s: int, word: int) -> int:
    entry = m.slots[slot]
    while entry != NONE:
        e = m.entries[entry]
        if e.word == word and e.group == group and e.series == s:
            break
        entry = e.chained
    return entry  # type: ignore[no-any-return]


@inlined
def _add(m: Multisets, head: int, group: int, s: int, word: int) -> None:
    slot = _hash(m, group, s, word)
    entry = _find(m, slot, group, s, word)
    if entry != NONE:
        m.entries[entry].times += 1
        return
    entry = m.scalars[FREE]
    if entry == NONE:
        entry = m.scalars[TOP]
        m.scalars[TOP] += 1
    else:
        m.scalars[FREE] = m.entries[entry].chained
    first = m.heads[head].first if m.heads[head].distinct else NONE
    e = m.entries[entry]
    e.word, e.times, e.group, e.series = word, 1, group, s
    e.chained, e.before, e.after = m.slots[slot], NONE, first
    m.slots[slot] = entry
    if first != NONE:
        m.entries[first].before = entry
    m.heads[head].first = entry
    m.heads[head].distinct += 1


@inlined
def _take(m: Multisets, head: int, group: int, s: int, word: int) -> None:
    slot = _hash(m, group, s, word)
    entry = _find(m, slot, group, s, word)
    m.entries[entry].times -= 1
    if m.entries[entry].times:
        return
    before, after = m.entries[entry].before, m.entries[entry].after
    if before == NONE:
        m.heads[head].first = after
    else:
        m.entries[before].after = after
    if after != NONE:
        m.entries[after].before = before
    m.heads[head].distinct -= 1
    _free(m, slot, entry)


@inlined
def _free(m: Multisets, slot: int, entry: int) -> None:
    """Removes the entry from its hash chain and makes it free."""
    if m.slots[slot] == entry:
        m.slots[slot] = m.entries[entry].chained
    else:
        other = m.slots[slot]
        while m.entries[other].chained != entry:
            other = m.entries[other].chained
        m.entries[other].chained = m.entries[entry].chained
    m.entries[entry].group = NONE
    m.entries[entry].chained = m.scalars[FREE]
    m.scalars[FREE] = entry


# ---- a group ---------------------------------------------------------------------------------------------------------


@inlined
def clear(m: Multisets, group: int) -> None:
    """Removes all values of a group."""
    for s in range(len(m.series)):
        head = group * len(m.series) + s
        entry = m.heads[head].first if m.heads[head].distinct else NONE
        while entry != NONE:
            after = m.entries[entry].after
            _free(m, _hash(m, group, s, m.entries[entry].word), entry)
            entry = after
        m.heads[head].distinct = 0
        m.heads[head].nans = 0


@inlined
def listed(m: Multisets, group: int) -> int:
    """The number of values that `write_counts` lists for the group."""
    total = 0
    for s in range(len(m.series)):
        if m.series[s].rounded:
            total += m.heads[group * len(m.series) + s].distinct
    return total


@inlined
def write_counts(m: Multisets, group: int, row: int, counts: np.ndarray, pairs: np.ndarray, used: int) -> int:
    """Writes the counts of a group to `counts[row]`, and the values of its rounded series to `pairs` from `used` on.

    Returns the new `used`. `counts` has two columns per series: the number of distinct values, and the number of NaN.
    """
    for s in range(len(m.series)):
        head = m.heads[group * len(m.series) + s]
        counts[row, 2 * s] = head.distinct
        counts[row, 2 * s + 1] = head.nans
        entry = head.first if m.series[s].rounded and head.distinct else NONE
        while entry != NONE:
            pairs[used].word = m.entries[entry].word
            pairs[used].times = m.entries[entry].times
            used += 1
            entry = m.entries[entry].after
    return used


# ---- the table -------------------------------------------------------------------------------------------------------


#: the arrays that `Table.save` returns, with their types
TABLE: dict[str, np.dtype | type] = {"entries": ENTRY, "heads": HEAD, "scalars": np.int64}


class Table:
    """The multisets of an operator: the entries, and a head for each group and series."""

    def __init__(self, series: np.ndarray) -> None:
        self.series = series
        self.entries, self.heads = np.zeros(0, ENTRY), np.zeros(0, HEAD)
        self.slots, self.scalars = np.full(1, NONE, np.int32), np.array([NONE, 0], np.int64)

    @property
    def kernel(self) -> Multisets:
        return Multisets(self.series, self.entries, self.heads, self.slots, self.scalars)

    def reserve(self, groups: int, tuples: int) -> None:
        """Makes room for `groups` groups in total, and for the values of `tuples` more tuples."""
        self.heads = grown(self.heads, groups * len(self.series))
        self.entries = grown(self.entries, int(self.scalars[TOP]) + tuples * len(self.series))
        if len(self.slots) < len(self.entries):
            self.hash_anew()

    def hash_anew(self) -> None:
        self.slots = np.full(1 << max(4, (2 * len(self.entries)).bit_length()), NONE, np.int32)
        _chain(self.kernel)

    def save(self) -> dict[str, np.ndarray]:
        return {"entries": self.entries[: self.scalars[TOP]], "heads": self.heads, "scalars": self.scalars}

    def restore(self, entries: np.ndarray, heads: np.ndarray, scalars: np.ndarray) -> None:
        """Replaces the content by what `save` returned."""
        self.entries, self.heads, self.scalars = entries, heads, scalars
        if len(self.series):
            self.hash_anew()

    def renumber_groups(self, kept: np.ndarray, renamed: np.ndarray) -> None:
        """Renumbers the groups. `kept` are the old numbers of groups that stay, `renamed` maps old to new numbers."""
        width = len(self.series)
        if not width:
            return
        heads = self.heads.reshape(-1, width)
        fresh = np.zeros_like(heads)
        fresh[: len(kept)] = heads.take(kept, axis=0)
        self.heads = fresh.ravel()
        used = self.entries[: self.scalars[TOP]]
        used["group"] = np.where(used["group"] == NONE, NONE, renamed[used["group"]])
        self.hash_anew()

    def words(self, columns: np.ndarray) -> np.ndarray:
        """The words of all entries whose series counts one of these columns, as an array with one column."""
        words: np.ndarray = self.entries["word"][self._of(columns)].reshape(-1, 1)
        return words

    def reword(self, words: np.ndarray, columns: np.ndarray) -> None:
        """Replaces the words that `words` returned for these columns."""
        if len(words):
            self.entries["word"][self._of(columns)] = words[:, 0]
            self.hash_anew()

    def _of(self, columns: np.ndarray) -> np.ndarray:
        used = self.entries[: self.scalars[TOP]]
        series = np.flatnonzero(np.isin(self.series["column"], columns))
        return np.flatnonzero(np.isin(used["series"], series) & (used["group"] != NONE))


@kernel
def _chain(m: Multisets) -> None:
    for entry in range(m.scalars[TOP]):
        e = m.entries[entry]
        if e.group != NONE:
            slot = _hash(m, e.group, e.series, e.word)
            e.chained = m.slots[slot]
            m.slots[slot] = entry


def rounded(words: np.ndarray) -> np.ndarray:
    """The rounded words of float64 words (not NaN), which sort as the numbers do. -0.0 counts as 0.0."""
    shifted: np.ndarray = (words ^ ((words >> 63) & LARGEST)) >> SHIFT
    return np.where(words == SMALLEST, 0, shifted)


def middles(words: np.ndarray) -> np.ndarray:
    """For each rounded word the number in the middle of all numbers that are rounded to it.

    Exceptions: the rounded word of 0.0 gives 0.0, and that of an infinity gives the infinity.
    """
    above = np.where(words < 0, ~words, words)
    bits = (above << SHIFT) + (1 << (SHIFT - 1))
    bits[above == INFINITE >> SHIFT] = INFINITE
    bits[above == 0] = 0
    numbers = bits.view(np.float64)
    return np.where(words < 0, -numbers, numbers) + 0.0  # -0.0 + 0.0 is 0.0
