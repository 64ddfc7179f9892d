"""The types of exact numbers in a draft."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sluice.model.types.decimal_type import MOST_DIGITS, WORD_DIGITS

#: the name of Connect's logical type
CONNECT = "org.apache.kafka.connect.data.Decimal"
#: the key of a stream that reads Connect's bytes, and what is said about texts that may be such bytes
KEY_OF_BYTES = "decimals: base64"
PERHAPS_BYTES = f"if these are the bytes of a decimal, its type is decimal(PLACES), with `{KEY_OF_BYTES}` of the stream"


def type_of_texts(scale: int, values: Sequence[str]) -> str:
    """The type of texts that all have so many places behind the point."""
    digits = max(len(value.lstrip("-")) - 1 for value in values)
    return f"decimal({scale})" if digits <= WORD_DIGITS else f"decimal({MOST_DIGITS}, {scale})"


def type_of_whole(numbers: Sequence[int | float]) -> str:
    """The type of whole numbers beyond int64; empty if they have too many digits."""
    return "" if max(map(abs, numbers)) >= 10**MOST_DIGITS else f"decimal({MOST_DIGITS}, 0)"


def type_of_scales(scales: Sequence[int]) -> str:
    """The type of numbers with scales of their own."""
    return f"decimal({MOST_DIGITS}, {max(0, *scales)})"


def other_type(text: str) -> str:
    """The type that has the values of this decimal type as well as can be, without being a decimal."""
    return "string" if text.endswith(", 0)") else "float64"


def type_in_connect(field: Mapping[str, Any]) -> str:
    """The decimal type of a field of Connect's schema; empty if the schema has no scale.

    The precision is the one that Debezium adds to the schema; without it the type has MOST_DIGITS digits.
    """
    parameters = field.get("parameters") or {}
    scale, precision = str(parameters.get("scale", "")), str(parameters.get("connect.decimal.precision", ""))
    digits = int(precision) if precision.isdigit() else 0
    if not scale.isdigit():
        return ""
    return f"decimal({scale})" if 0 < digits <= WORD_DIGITS else f"decimal({digits or MOST_DIGITS}, {scale})"
