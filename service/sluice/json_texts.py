"""Texts of JSON: whether they are, how deep they are, and the texts inside of the text of a valid value."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

import orjson

#: the separators of a text without spaces
COMPACT = (",", ":")

#: what divides the text of an object or list
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]', re.DOTALL)
#: white space of JSON
SPACE = " \t\n\r"
#: the most objects and lists that may be open at once in a value of the type json. Who prints such a value, in Python,
#: a browser or a terminal, walks through it by recursion
DEEPEST = 200
#: an exponent that a Decimal has with any digits, far beyond that of each float64
MOST_EXPONENT = 10**17


def members_of(text: str) -> dict[str, str]:
    """The members of the text of a valid JSON object: the text of each value. The last member of a name counts."""
    parts = list(_parts(text))
    return {orjson.loads(name): value for name, value in zip(parts[::2], parts[1::2], strict=True)}


def items_of(text: str) -> list[str]:
    """The texts of the items of the text of a valid JSON list."""
    return list(_parts(text))


def _parts(text: str) -> Iterator[str]:
    """The texts between the signs `,` and `:` of the outermost object or list; none of an empty one."""
    depth, start = 0, 0
    for token in TOKEN.finditer(text):
        sign = token[0]
        depth -= sign in "}]"
        if (sign in ",:" and depth == 1) or (sign in "}]" and depth == 0):
            part = text[start : token.start()].strip(SPACE)
            if part:
                yield part
            start = token.end()
        if sign in "{[":
            depth += 1
            start = token.end() if depth == 1 else start


def with_digits(text: str | bytes) -> Any:  # noqa: ANN401 - JSON
    """The value of a JSON text. A number is a Decimal if the float64 of it is written with other digits: `1.10`."""
    return json.loads(text, parse_float=_number)


def text_with_digits(value: object, separators: tuple[str, str] = (", ", ": ")) -> str:
    """The text of a JSON value in which numbers may be Decimals. A value that JSON lacks is its text."""
    comma, colon = separators
    match value:
        case Decimal():
            return str(value)
        case dict():
            members = (f"{text_with_digits(str(k))}{colon}{text_with_digits(v, separators)}" for k, v in value.items())
            return f"{{{comma.join(members)}}}"
        case list() | tuple():
            return f"[{comma.join(text_with_digits(item, separators) for item in value)}]"
    return json.dumps(value, ensure_ascii=False, default=str)


def _number(text: str) -> float | Decimal:
    value = float(text)
    return value if repr(value) == text else exact_number(text)


def exact_number(text: str) -> Decimal:
    """The value of a number of JSON. An exponent of 19 digits, which no Decimal has, counts as MOST_EXPONENT."""
    try:
        return Decimal(text)
    except InvalidOperation:
        digits, _, exponent = text.lower().partition("e")
        return Decimal(f"{digits}e{'-' if exponent.startswith('-') else ''}{MOST_EXPONENT}")


def is_json(text: str) -> bool:
    """Whether the text is one JSON value that is not too deep."""
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return not is_too_deep(text)


def is_too_deep(text: str) -> bool:
    """Whether more than DEEPEST objects and lists are open at once in the text of a valid value."""
    if text.count("[") + text.count("{") <= DEEPEST:
        return False
    depth = deepest = 0
    for token in TOKEN.finditer(text):
        depth += (token[0] in "{[") - (token[0] in "}]")
        deepest = max(deepest, depth)
    return deepest > DEEPEST


def visible(text: str) -> str:
    """The text with escapes of JSON in place of characters that a terminal obeys, that hide other characters, or that
    XML does not allow: control characters, marks of the direction of writing, halves of a pair of surrogates.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
