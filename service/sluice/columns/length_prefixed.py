"""The byte form of a list whose elements are strings or lists: each element's bytes behind their length.

    [length: 8 bytes, little-endian][bytes of element 0][length][bytes of element 1] ...

The bytes contain the elements themselves, not codes of an interner. So an interned list does not depend on other
interned values, which may be removed.
"""

from __future__ import annotations

import numpy as np

from sluice.columns.kernel import kernel, read_only

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
