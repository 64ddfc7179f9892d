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
#: how other systems spell a unit, in small letters and without the s of a plural -> the unit here, and how many of it
OTHER_UNITS = {
    **dict.fromkeys(("millisecond", "millisec", "milli", "msec", "ms"), ("ms", 1)),
    **dict.fromkeys(("second", "sec", "s"), ("s", 1)),
    **dict.fromkeys(("minute", "min", "m"), ("m", 1)),
    **dict.fromkeys(("hour", "hr", "h"), ("h", 1)),
    **dict.fromkeys(("day", "d"), ("d", 1)),
    **dict.fromkeys(("week", "wk", "w"), ("d", 7)),
}
#: `5 minutes`, `"5m"`, `INTERVAL '5' MINUTE`, `Duration.ofMinutes(5)`, `PT5M`, `P1D`
OTHER_DURATIONS = [
    re.compile(r"""(interval\s+)?["']?(?P<number>\d{1,9})["']?\s*(?P<unit>[a-z]+)["']?""", re.IGNORECASE),
    re.compile(r"(duration\.|time\.)?(of)?(?P<unit>[a-z]+)\(\s*(?P<number>\d{1,9})\s*\)", re.IGNORECASE),
    re.compile(r"PT(?P<number>\d{1,9})(?P<unit>[HMS])", re.IGNORECASE),
    re.compile(r"P(?P<number>\d{1,9})(?P<unit>[DW])", re.IGNORECASE),
]


def seconds(text: str) -> Decimal | None:
    """The exact seconds of a number or of a number with a unit; None if the text is neither."""
    if NUMBER.fullmatch(text):
        return Decimal(text)
    return with_unit(text)


def with_unit(text: str) -> Decimal | None:
    """The exact seconds of a number with a unit; None if the text has another form."""
    match = DURATION.fullmatch(text)
    return Decimal(match["number"]) * UNITS[match["unit"]] if match else None


def spelled_here(text: str) -> str | None:
    """How a duration that is spelled as in another system is written here: `5m` for `5 minutes`; None if unknown."""
    for match in filter(None, (pattern.fullmatch(text.strip()) for pattern in OTHER_DURATIONS)):
        word = match["unit"].lower()
        if unit := OTHER_UNITS.get(word) or OTHER_UNITS.get(word.removesuffix("s")):
            return f"{int(match['number']) * unit[1]}{unit[0]}"
    return None
