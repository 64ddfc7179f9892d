"""Reads durations: a number of seconds, or a number with a unit such as `30s`, `5m`, `1h` and `1d`."""

from __future__ import annotations

import re
from decimal import Decimal

#: unit -> seconds; a day has 24 hours, whatever a time zone does with its clock
UNITS = {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60), "h": Decimal(3600), "d": Decimal(86_400)}

#: a number, as SPL writes numbers of seconds
NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d{1,3})?")
#: a number with a unit, without a sign: in expressions and in the JSON schema
WITH_UNIT = r"(\d+(\.\d+)?|\.\d+)(ms|s|m|h|d)"
DURATION = re.compile(r"(?P<number>[-+]?(\d+(\.\d+)?|\.\d+))\s*(?P<unit>ms|s|m|h|d)")
#: for messages
EXAMPLES = "30, 30s, 5m, 1h or 1d"


def seconds(text: str) -> Decimal | None:
    """The exact seconds of a number or of a number with a unit; None if the text is neither."""
    if NUMBER.fullmatch(text):
        return Decimal(text)
    return with_unit(text)


def with_unit(text: str) -> Decimal | None:
    """The exact seconds of a number with a unit; None if the text has another form."""
    found = DURATION.fullmatch(text)
    return Decimal(found["number"]) * UNITS[found["unit"]] if found else None
