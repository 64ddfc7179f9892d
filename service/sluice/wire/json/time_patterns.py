"""Times as texts of a pattern, in the directives of Python's `strptime` (PA12, PA13)."""

from __future__ import annotations

import re
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from sluice.time_units import EPOCH

if TYPE_CHECKING:
    import polars as pl

DIRECTIVES = "YmdjHIMSfpybBaAz%"
DIRECTIVE = re.compile(r"%(.?)", re.DOTALL)
#: a letter of Java's patterns: `yyyy-MM-dd HH:mm:ss`
JAVA = re.compile(r"y{2,4}|M{2,4}|d{2}|H{2}|m{2}|s{2}|S{3,9}|XXX|'")
OF_JAVA = {
    "yyyy": "%Y", "yy": "%y", "MM": "%m", "MMM": "%b", "MMMM": "%B", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S",
    "SSS": "%f", "SSSSSS": "%f", "XXX": "%z", "'": "",
}  # fmt: skip
#: two times of which a pattern must keep the date; their hours differ by half a day
SAMPLES = (datetime(2013, 2, 3, 4, 5, 6, tzinfo=EPOCH.tzinfo), datetime(1999, 12, 30, 16, 5, 6, tzinfo=EPOCH.tzinfo))
UTC = "UTC"
#: directive of `strptime` -> that of polars, where they differ
OF_POLARS = {"%f": "%6f"}


def nanoseconds(text: str, pattern: str, zone: str) -> int:
    """The nanoseconds since 1970 of a text of the pattern (PA13). Raises ValueError for other texts."""
    local = datetime.strptime(text, pattern)  # noqa: DTZ007 - a text without a zone gets one
    at = local if local.tzinfo else local.replace(tzinfo=_zone(zone or UTC))
    since = at - EPOCH
    return ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1000


@cache
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def fault(pattern: str) -> tuple[str, str | None] | None:
    """What was expected in place of the pattern (PA12), and a pattern that is probably meant; None if it is right."""
    if "%" not in pattern:
        java = JAVA.sub(lambda match: OF_JAVA.get(match[0], match[0]), pattern)
        return "directives of strptime, such as %Y-%m-%d", java if "%" in java else None
    for directive in DIRECTIVE.findall(pattern):
        if directive not in DIRECTIVES or not directive:
            known = " ".join(f"%{letter}" for letter in DIRECTIVES)
            return f"directives of strptime ({known}), not %{directive}", None
    if "%Y" not in pattern and "%y" not in pattern:
        return "a pattern with a year (%Y)", None
    return None if all(_is_kept(sample, pattern) for sample in SAMPLES) else (_INCOMPLETE, None)


_INCOMPLETE = "a pattern with year, month and day, each once, and with %p beside %I"


def _is_kept(sample: datetime, pattern: str) -> bool:
    try:
        back = datetime.strptime(sample.strftime(pattern), pattern)  # noqa: DTZ007
    except (ValueError, re.error):
        return False
    return back.date() == sample.date() and back.hour in (0, sample.hour)


def written(column: pl.Expr, pattern: str, zone: str) -> pl.Expr:
    """The texts of times in UTC, in this zone."""
    here = column.dt.replace_time_zone(UTC).dt.convert_time_zone(zone or UTC)
    return here.dt.to_string(DIRECTIVE.sub(lambda match: OF_POLARS.get(match[0], match[0]), pattern))
