"""Slots that hold no tuple."""

from __future__ import annotations

from typing import Any

import numpy as np

from sluice.columns.tables import grown


class Free:
    """A stack of slots: to give and to take costs what is given and taken, however many there are."""

    def __init__(self, dtype: type[np.signedinteger[Any]]) -> None:
        self._slots = np.zeros(0, dtype)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def slots(self) -> np.ndarray:
        """All of them; not to be changed."""
        return self._slots[: self._count]

    def give(self, slots: np.ndarray) -> None:
        count = self._count + len(slots)
        self._slots = grown(self._slots, count)
        self._slots[self._count : count] = slots
        self._count = count

    def take(self, count: int, top: int) -> tuple[np.ndarray, int]:
        """So many slots: the last that were given, and where these do not suffice those from `top` on; the new top."""
        return self.next(count, top), self.taken(count, top)

    def next(self, count: int, top: int) -> np.ndarray:
        """The slots that `take` would give, in the same order however many are taken."""
        again = self._slots[max(self._count - count, 0) : self._count][::-1]
        return np.concatenate([again, np.arange(top, top + count - len(again))])

    def taken(self, count: int, top: int) -> int:
        """The new top, where so many of the next slots are in use."""
        again = min(count, self._count)
        self._count -= again
        return top + count - again
