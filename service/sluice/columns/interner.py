"""An interner: a table that gives each distinct byte string a number, its code.

Kernels work with the codes of strings, lists and keys instead of their bytes. The table is an open-addressing hash
table over one growing byte buffer. Codes count from 0 in the order in which the byte strings were first interned.
`keep` removes byte strings and gives the others new codes. Interning costs one hash and about one comparison per value
and creates no Python object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from sluice.columns.kernel import inlined, kernel, read_only
from sluice.columns.saved_columns import column, grown
from sluice.invariants import all_checked, violated

EMPTY = -1


class InternedText(NamedTuple):
    """The interned bytes as kernels read them: those of code c are `data[offsets[c]:offsets[c + 1]]`."""

    data: np.ndarray
    offsets: np.ndarray


@inlined
def _hash(data: np.ndarray, start: int, stop: int) -> np.int64:
    value = np.uint64(14695981039346656037)
    for i in range(start, stop):
        value = (value ^ np.uint64(data[i])) * np.uint64(1099511628211)
    return np.int64(value ^ (value >> np.uint64(29)))


@inlined
def _equal(left: np.ndarray, start: int, stop: int, right: np.ndarray, at: int) -> bool:
    for i in range(stop - start):  # noqa: SIM110  numba has no all()
        if left[start + i] != right[at + i]:
            return False
    return True


@inlined
def less(text: InternedText, left: int, right: int) -> bool:
    """Whether the bytes of code `left` are lexicographically smaller than those of code `right`."""
    a, b = text.offsets[left], text.offsets[right]
    n, m = text.offsets[left + 1] - a, text.offsets[right + 1] - b
    for i in range(min(n, m)):
        if text.data[a + i] != text.data[b + i]:
            return bool(text.data[a + i] < text.data[b + i])
    return bool(n < m)


@kernel
def _place(hashes: np.ndarray, slots: np.ndarray, count: int) -> None:
    mask = len(slots) - 1
    for slot in range(len(slots)):
        slots[slot] = EMPTY
    for code in range(count):
        slot = hashes[code] & mask
        while slots[slot] != EMPTY:
            slot = (slot + 1) & mask
        slots[slot] = code


@kernel
def _intern(
    values: np.ndarray,
    starts: np.ndarray,
    data: np.ndarray,
    offsets: np.ndarray,
    hashes: np.ndarray,
    slots: np.ndarray,
    count: int,
    codes: np.ndarray,
) -> int:
    mask = len(slots) - 1
    for row in range(len(codes)):
        start, stop = starts[row], starts[row + 1]
        value = _hash(values, start, stop)
        slot = value & mask
        while True:
            code = slots[slot]
            if code == EMPTY:
                end = offsets[count]
                for i in range(stop - start):
                    data[end + i] = values[start + i]
                offsets[count + 1] = end + stop - start
                hashes[count] = value
                slots[slot] = code = count
                count += 1
                break
            at = offsets[code]
            if (
                hashes[code] == value
                and offsets[code + 1] - at == stop - start
                and _equal(values, start, stop, data, at)
            ):
                break
            slot = (slot + 1) & mask
        codes[row] = code
    return count


@kernel
def _gather(text: InternedText, codes: np.ndarray, starts: np.ndarray, values: np.ndarray) -> None:
    for row in range(len(codes)):
        at = text.offsets[codes[row]]
        for i in range(starts[row + 1] - starts[row]):
            values[starts[row] + i] = text.data[at + i]


@kernel
def _number(codes: np.ndarray, numbers: np.ndarray, distinct: np.ndarray, places: np.ndarray) -> int:
    """The kernel of `numbered`. Returns the number of distinct codes. `numbers` is all zeros before and after."""
    count = 0
    for i in range(len(codes)):
        code = codes[i]
        if code < 0:
            places[i] = -1
            continue
        if not numbers[code]:
            distinct[count] = code
            count += 1
            numbers[code] = count
        places[i] = numbers[code] - 1
    for k in range(count):
        numbers[distinct[k]] = 0
    return count


class Interner:
    """A growing table of interned byte strings. `save` and `load` convert it to and from arrays."""

    def __init__(self) -> None:
        self.count = 0
        self._data = np.zeros(64, np.uint8)
        self._offsets = np.zeros(9, np.int64)
        self._hashes = np.zeros(8, np.int64)
        self._slots = np.full(16, EMPTY, np.int32)
        self._numbers = np.zeros(8, np.int32)

    @property
    def text(self) -> InternedText:
        return InternedText(self._data, self._offsets)

    def intern(self, values: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """The codes of the byte strings `values[starts[i]:starts[i + 1]]`. Unknown byte strings get new codes."""
        codes = np.empty(len(starts) - 1, np.int64)
        self._reserve(len(codes), int(starts[-1] - starts[0]))
        table = self._data, self._offsets, self._hashes, self._slots
        self.count = _intern(read_only(values), starts, *table, self.count, codes)
        return codes

    def intern_arrow(self, array: pa.Array) -> np.ndarray:
        """The codes of a string or binary array, dictionary-encoded or not. A null has the code of the empty string."""
        if not pa.types.is_dictionary(array.type):
            return self.intern(*buffers(array))
        if len(array.dictionary) > len(array):  # rows may use few of its values
            return self.intern_arrow(array.dictionary_decode())
        codes: np.ndarray = self.intern_arrow(array.dictionary)[array.indices.to_numpy()]
        return codes

    def take(self, codes: np.ndarray) -> pa.BinaryArray:
        """The byte strings that have these codes. Raises OverflowError above 2 GiB."""
        if not len(codes):
            return pa.array([], pa.binary())
        codes = np.ascontiguousarray(codes, np.int64)  # numba compiles the kernel once per array layout
        offsets = self._offsets
        starts = np.zeros(len(codes) + 1, np.int64)
        np.cumsum(offsets[codes + 1] - offsets[codes], out=starts[1:])
        values = np.empty(int(starts[-1]), np.uint8)
        _gather(self.text, codes, starts, values)
        if starts[-1] > np.iinfo(np.int32).max:
            msg = "more than 2 GiB of text in one batch of outputs"
            raise OverflowError(msg)
        buffers = [None, pa.py_buffer(starts.astype(np.int32)), pa.py_buffer(values)]
        return pa.Array.from_buffers(pa.binary(), len(codes), buffers)

    def numbered(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The distinct codes in order of first occurrence, and for each code its index among them (-1 if negative).

        Costs O(len(codes)), independent of the size of the table.
        """
        codes = np.ascontiguousarray(codes, np.int64)
        distinct, places = np.empty(len(codes), np.int64), np.empty(len(codes), np.int32)
        self._numbers = grown(self._numbers, self.count)
        return distinct[: _number(codes, self._numbers, distinct, places)], places

    def keep(self, codes: np.ndarray) -> np.ndarray:
        """Removes all byte strings but those of `codes`. Returns the new code of each old code (-1: removed)."""
        kept = np.unique(codes)
        renamed = np.full(self.count, -1, np.int64)
        renamed[kept] = np.arange(len(kept))
        values = self.take(kept)
        self.__dict__.update(Interner().__dict__)
        self.intern_arrow(values)
        return renamed

    #: the arrays that `save` returns and `load` reads, with their types
    PARTS: ClassVar = {"data": np.uint8, "offsets": np.int64, "hashes": np.int64}

    def save(self) -> dict[str, np.ndarray]:
        offsets = self._offsets[: self.count + 1]
        return {"data": self._data[: offsets[-1]], "offsets": offsets, "hashes": self._hashes[: self.count]}

    @classmethod
    def load(cls, saved: Mapping[str, pa.Buffer]) -> Interner:
        table = cls()
        table._data, table._offsets, table._hashes = (column(saved[name], kind) for name, kind in cls.PARTS.items())
        table.count = len(table._hashes)
        table._rehash(table.count)
        table._check()
        return table

    def _check(self) -> None:
        """Raises InvariantError if a text has no end or no hash or, with all checks on, was interned twice."""
        if len(self._offsets) != self.count + 1 or int(self._offsets[-1]) != len(self._data):
            raise violated("columns agree", f"{self.count} texts, {len(self._offsets)} ends, {len(self._data)} bytes")
        if all_checked() and (self.intern(self._data, self._offsets) != np.arange(self.count)).any():
            raise violated("keys are unique", f"one of {self.count} texts")

    def _reserve(self, more: int, size: int) -> None:
        self._data = grown(self._data, int(self._offsets[self.count]) + size)
        self._offsets = grown(self._offsets, self.count + more + 1)
        self._hashes = grown(self._hashes, self.count + more)
        if len(self._slots) < 2 * (self.count + more):
            self._rehash(self.count + more)

    def _rehash(self, room: int) -> None:
        self._slots = np.empty(1 << max(4, (2 * room).bit_length()), np.int32)
        _place(self._hashes, self._slots, self.count)


def buffers(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of a string or binary array, and the start of each value in them, with the end of the last value."""
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    _, starts, values = array.buffers()
    if not len(array):
        return np.frombuffer(b"", np.uint8), np.zeros(1, np.int64)
    starts = np.frombuffer(starts, np.int64 if wide else np.int32)[array.offset : array.offset + len(array) + 1]
    return read_only(np.frombuffer(values or b"", np.uint8)), starts.astype(np.int64)


# ---- bytes of composite values ---------------------------------------------------------------------------------------

#: the size of a length in bytes
LENGTH = 8


def frame(values: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Puts a length in front of each element `values[starts[i]:starts[i + 1]]`.

    Returns the bytes, and where each element begins in them (at its length), with the end of the last element.
    """
    begin = starts - starts[0] + LENGTH * np.arange(len(starts))
    framed = np.empty(int(begin[-1]), np.uint8)
    _frame(read_only(values), starts, framed)
    return read_only(framed), begin


def unframe(framed: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The inverse of `frame`, for lists whose bytes `framed[starts[i]:starts[i + 1]]` follow each other without gaps.

    Returns the number of elements of each list, the length of each element, and the bytes of all elements.
    """
    counts = np.zeros(len(starts) - 1, np.int64)
    lengths, values = np.empty(len(framed) // LENGTH, np.int64), np.empty(len(framed), np.uint8)
    _unframe(read_only(framed), starts, counts, lengths, values)
    lengths = lengths[: int(counts.sum())]
    return counts, lengths, values[: int(lengths.sum())]


class Spans(NamedTuple):
    """The parts inside of the bytes of composite values, in their order. Part k has the bytes
    `content[first[k]:first[k] + length[k]]`; `is_present[k]` is false for a part that is absent.
    """

    is_present: np.ndarray
    first: np.ndarray
    length: np.ndarray

    def every(self, step: int, start: int) -> Spans:
        return Spans(*(column[start::step] for column in self))

    def present(self) -> Spans:
        return Spans(*(column[self.is_present] for column in self))


def spans(content: np.ndarray, starts: np.ndarray, sized: np.ndarray, optional: np.ndarray) -> tuple[np.ndarray, Spans]:
    """The number of items in each value `content[starts[i]:starts[i + 1]]`, and the spans of all their parts.

    An item has a part for each entry of `sized`, which is true if a length of LENGTH bytes is in front of the part;
    otherwise the part has LENGTH bytes itself. If the part is `optional`, a byte before it says whether it is there.
    """
    counts, layout = np.zeros(len(starts) - 1, np.int64), (read_only(sized), read_only(optional))
    nothing = np.zeros(0, np.bool_), np.zeros(0, np.int64), np.zeros(0, np.int64)
    total = _spans(read_only(content), read_only(starts), *layout, counts, *nothing)
    parts = np.empty(total, np.bool_), np.empty(total, np.int64), np.empty(total, np.int64)
    counts[:] = 0
    _spans(read_only(content), read_only(starts), *layout, counts, *parts)
    return counts, Spans(*parts)


def gathered(content: np.ndarray, first: np.ndarray, length: np.ndarray) -> np.ndarray:
    """The bytes of these spans, one after the other."""
    values = np.empty(int(length.sum()), np.uint8)
    _gather_spans(read_only(content), np.ascontiguousarray(first), np.ascontiguousarray(length), values)
    return values


@kernel
def _spans(
    content: np.ndarray, starts: np.ndarray, sized: np.ndarray, optional: np.ndarray, counts: np.ndarray,
    present: np.ndarray, first: np.ndarray, lengths: np.ndarray,
) -> int:  # fmt: skip
    total, part = 0, 0
    place = starts[0]
    for row in range(len(counts)):
        while place < starts[row + 1]:
            is_present = True
            if optional[part]:
                is_present = content[place] != 0
                place += 1
            length = 0
            if is_present and sized[part]:
                for i in range(LENGTH):
                    length |= np.int64(content[place + i]) << (8 * i)  # type: ignore[assignment]
                place += LENGTH
            elif is_present:
                length = LENGTH
            if total < len(first):
                present[total], first[total], lengths[total] = is_present, place, length
            total += 1
            place += length
            part += 1
            if part == len(sized):
                part = 0
                counts[row] += 1
    return total


@kernel
def _gather_spans(content: np.ndarray, first: np.ndarray, length: np.ndarray, values: np.ndarray) -> None:
    place = 0
    for k in range(len(first)):
        for i in range(length[k]):
            values[place + i] = content[first[k] + i]
        place += length[k]


@kernel
def _frame(values: np.ndarray, starts: np.ndarray, framed: np.ndarray) -> None:
    place = 0
    for row in range(len(starts) - 1):
        length = starts[row + 1] - starts[row]
        for i in range(LENGTH):
            framed[place + i] = (length >> (8 * i)) & 255
        place += LENGTH
        for i in range(length):
            framed[place + i] = values[starts[row] + i]
        place += length


@kernel
def _unframe(
    framed: np.ndarray, starts: np.ndarray, counts: np.ndarray, lengths: np.ndarray, values: np.ndarray
) -> None:
    element, copied, place = 0, 0, 0
    for row in range(len(counts)):
        while place < starts[row + 1]:
            length = 0
            for i in range(LENGTH):
                length |= np.int64(framed[place + i]) << (8 * i)  # type: ignore[assignment]
            place += LENGTH
            for i in range(length):
                values[copied + i] = framed[place + i]
            lengths[element] = length
            counts[row] += 1
            element += 1
            copied += length
            place += length
