"""The differences of two lists of outputs as a text: line by line, and for similar tuples attribute by attribute.

Lines begin with a space (equal), `-` (expected and missing) or `+` (not expected).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

#: maximum number of dead letters that are named
MAX_LETTERS = 3


def differences(
    title: str, expected: Sequence[Any], found: Sequence[Any], dead_letters: Sequence[Mapping[str, Any]] = ()
) -> str | None:
    """The text; None if both are equal. `dead_letters` that came meanwhile are named, because they may be the cause."""
    if len(expected) == len(found) and all(one == other for one, other in zip(expected, found, strict=True)):
        return None
    lines = [f"{title}: expected {_count(expected)}, got {_count(found)}", *_lines(expected, found)]
    if dead_letters:
        lines.append(f"{len(dead_letters)} dead letters came meanwhile:")
        lines += [f"    {letter['reason']}" for letter in dead_letters[:MAX_LETTERS]]
    return "\n".join(lines)


def _lines(expected: Sequence[Any], found: Sequence[Any]) -> Iterator[str]:
    pairs = _aligned(expected, found)
    for one, other in pairs:
        if one is None:
            yield f"  + {other!r}"
        elif other is None:
            yield f"  - {one!r}"
        elif one == other:
            yield f"    {other!r}"
        else:
            yield f"  - {one!r}"
            yield f"  + {other!r}"
            if isinstance(one, Mapping) and isinstance(other, Mapping):
                yield f"      {'; '.join(_attributes(one, other))}"


def _attributes(expected: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys([*expected, *found]):
        if name not in found:
            yield f"{name} is missing"
        elif name not in expected:
            yield f"{name} was not expected"
        elif expected[name] != found[name]:
            yield f"{name}: expected {expected[name]!r}, got {found[name]!r}"


def _aligned(expected: Sequence[Any], found: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Pairs of what was expected and found; None stands for nothing. Equal ones are paired in order."""
    matched = SequenceMatcher(None, list(map(repr, expected)), list(map(repr, found)), autojunk=False)
    for _, start, stop, first, last in matched.get_opcodes():
        for index in range(max(stop - start, last - first)):
            yield (
                expected[start + index] if start + index < stop else None,
                found[first + index] if first + index < last else None,
            )


def _count(outputs: Sequence[Any]) -> str:
    return f"{len(outputs)} {'output' if len(outputs) == 1 else 'outputs'}"
