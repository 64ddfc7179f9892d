"""The changes of a pipeline as text for people, and as JSON data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sluice.model.changes.operator_changes import Changes


def lines(changes: Changes) -> Iterator[str]:
    """One line for each operator: its name, the word for its state, and the reason."""
    rows = [(change.name, str(change.word), change.reason) for change in changes.all]
    widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    for name, word, reason in rows:
        yield f"  {name:{widths[0]}}  {word:{widths[1]}}  {reason}".rstrip()


def as_json(changes: Changes) -> dict[str, Any]:
    """The same as JSON data."""
    return {
        "loses": changes.loses,
        "refused": changes.refused,
        "operators": [
            {"name": change.name, "word": str(change.word), "reason": change.reason, "loses": change.loses}
            for change in changes.all
        ],
    }
