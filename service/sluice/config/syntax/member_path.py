"""Reads the paths of attributes in records: `payload.after.amount`, `items[0].price`, `["order-id"]` (PA1)."""

from __future__ import annotations

import json
import re

from sluice.model.errors import Fault
from sluice.model.members import MAX_INDEX, MAX_STEPS, NAME, Steps, quoted, text_of

#: a name of any characters: in double quotes with the escapes of JSON, or in single quotes without escapes
QUOTED = re.compile(r'\[\s*("(?:[^"\\]|\\.)*"|\'[^\'\\]*\')\s*\]')
INDEX = re.compile(r"\[\s*(\d+)\s*\]")
#: what other systems have in front of a path
FOREIGN_START = re.compile(r"\$\.?|/|\.")


class PathError(ValueError):
    """A path has a fault, which says what was expected and where."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.expected)
        self.fault = fault


def member_path(text: str) -> Steps:
    """The steps of a path (PA1). Raises PathError."""
    steps: list[str | int] = []
    at = 0
    while at < len(text) or not steps:
        step, at = _step(text, at, first=not steps)
        steps.append(step)
    if len(steps) > MAX_STEPS:
        raise PathError(Fault(f"a path of at most {MAX_STEPS} steps", f"{len(steps)} steps"))
    return tuple(steps)


def _step(text: str, at: int, *, first: bool) -> tuple[str | int, int]:
    """The step that begins here, and the position behind it."""
    if text[at : at + 1] == "[":
        return _bracket(text, at)
    if not first and text[at] != ".":
        raise _fault(text, at, "a point or [ between two steps of a path", _with_quotes(text))
    match = NAME.match(text, at + (not first))
    if match is None:
        hint = FOREIGN_START.sub("", text, count=1).replace("/", ".") if first else _with_quotes(text)
        raise _fault(text, at + (not first), "the name of a member, or [", hint or None)
    return match[0], match.end()


def _bracket(text: str, at: int) -> tuple[str | int, int]:
    if match := INDEX.match(text, at):
        if int(match[1]) > MAX_INDEX:
            raise _fault(text, at, f"an index of at most {MAX_INDEX}")
        return int(match[1]), match.end()
    if match := QUOTED.match(text, at):
        return _name(text, at, match[1]), match.end()
    raise _fault(text, at, 'an index from 0 on, such as [0], or a name in quotes, such as ["order-id"]')


def _name(text: str, at: int, literal: str) -> str:
    try:
        name = json.loads(literal, strict=False) if literal[0] == '"' else literal[1:-1]
        name.encode()
    except ValueError:
        raise _fault(text, at, "a name with the escapes of JSON") from None
    return str(name)


def _with_quotes(text: str) -> str | None:
    """The path with its unusual names in brackets and quotes; None if that does not make it a path."""
    parts = [part for part in re.split(r"\.|(\[[^\]]*\])", text) if part]
    better = "".join(_as_step(part) for part in parts).removeprefix(".")
    try:
        return better if better != text and text_of(member_path(better)) else None
    except PathError:
        return None


def _as_step(part: str) -> str:
    if part.startswith("["):
        return part
    return f".{part}" if NAME.fullmatch(part) else f"[{part if part.isdigit() else quoted(part)}]"


def _fault(text: str, at: int, expected: str, hint: str | None = None) -> PathError:
    return PathError(Fault(expected, text[at:] or text, hint, at + 1))
