"""Lists of texts, and of lists, as bytes: every element behind its length, 8 bytes each.

So what a table of texts has for a list refers to no other entry of that table, which may forget the others.
"""

from __future__ import annotations

import numpy as np

from sluice.columns.kernel import kernel, read_only

#: the bytes of a length
LENGTH = 8


def frame(values: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The elements `values[starts[i]:starts[i + 1]]` one after the other, each behind its length, and their starts."""
    begin = starts - starts[0] + LENGTH * np.arange(len(starts))
    framed = np.empty(int(begin[-1]), np.uint8)
    _frame(read_only(values), starts, framed)
    return read_only(framed), begin


def unframe(framed: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of lists `framed[starts[i]:starts[i + 1]]`, without gaps, the number of elements, their lengths and bytes."""
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
