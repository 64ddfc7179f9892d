"""The error of an event that a replay cannot use, and the texts in its message."""

from __future__ import annotations

import json
from collections.abc import Iterable
from difflib import get_close_matches

from sluice.model.errors import SluiceError


class EventError(SluiceError):
    """An event that the replay cannot use."""

    def __init__(self, location: str, problem: str) -> None:
        super().__init__(f"{location}: {problem}")


def quoted(value: object) -> str:
    """The value in JSON, at most 60 characters of it."""
    return json.dumps(value, default=str, ensure_ascii=False)[:60]


def nearest(word: object, known: Iterable[str]) -> str:
    """A text with the known word that is most like this one; "" if none is like it."""
    near = get_close_matches(str(word), known, 1)
    return f", perhaps {quoted(near[0])}" if near else ""
