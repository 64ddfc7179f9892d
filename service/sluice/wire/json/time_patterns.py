"""Times as texts of a pattern, in the directives of Python's `strptime` (PA12, PA13)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from sluice.time_units import EPOCH

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

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
            directives = " ".join(f"%{letter}" for letter in DIRECTIVES)
            return f"directives of strptime ({directives}), not %{directive}", None
    if "%Y" not in pattern and "%y" not in pattern:
        return "a pattern with a year (%Y)", None
    return None if all(_is_kept(sample, pattern) for sample in SAMPLES) else (_INCOMPLETE, None)


_INCOMPLETE = "a pattern with year, month and day, each once, and with %p beside %I"


def _is_kept(sample: datetime, pattern: str) -> bool:
    try:
        reread = datetime.strptime(sample.strftime(pattern), pattern)  # noqa: DTZ007
    except (ValueError, re.error):
        return False
    return reread.date() == sample.date() and reread.hour in (0, sample.hour)


def written(column: pl.Expr, pattern: str, zone: str) -> pl.Expr:
    """The texts of times in UTC, in this zone."""
    local = column.dt.replace_time_zone(UTC).dt.convert_time_zone(zone or UTC)
    return local.dt.to_string(DIRECTIVE.sub(lambda match: OF_POLARS.get(match[0], match[0]), pattern))


# ---- many texts together -------------------------------------------------------------------------------------------

#: the minutes of a zone, which `%z` has behind its hours
MINUTES = "minutes"
#: directive -> the texts that are read together with others: numbers with all their digits
DIGITS = {
    "%Y": "([0-9]{4})", "%m": "([0-9]{2})", "%d": "([0-9]{2})", "%H": "([0-9]{2})", "%M": "([0-9]{2})",
    "%S": "([0-9]{2})", "%f": "([0-9]{1,6})", "%z": "([+-][0-9]{2}):?([0-9]{2})",
}  # fmt: skip
#: the parts of ISO 8601, the sign in front of each, and what stands for a part that the pattern lacks
ISO = (
    ("%Y", "", ""), ("%m", "-", ""), ("%d", "-", ""), ("%H", "T", "00"), ("%M", ":", "00"), ("%S", ":", "00"),
    ("%f", ".", "0"), ("%z", "", "+00"), (MINUTES, ":", "00"),
)  # fmt: skip


def column(texts: pa.StringArray, pattern: str, zone: str) -> pa.TimestampArray:
    """The times of texts of the pattern; null for a text that is no time, or that `nanoseconds` alone reads."""
    import pyarrow as pa  # noqa: PLC0415 - see json_contract.py
    import pyarrow.compute as pc  # noqa: PLC0415

    from sluice.columns import number_columns  # noqa: PLC0415 - it imports numpy

    as_iso = _as_iso(pattern, zone)
    if as_iso is None:
        return pa.nulls(len(texts), number_columns.INSTANT)
    form, iso = as_iso
    of_form = pc.if_else(pc.match_substring_regex(texts, form), texts, pa.scalar(None, pa.string()))
    return number_columns.times(pc.replace_substring_regex(of_form, pattern=form, replacement=iso))


@cache
def _as_iso(pattern: str, zone: str) -> tuple[str, str] | None:
    """The regular expression of texts of the pattern, and what makes ISO 8601 of them; None if nothing does so."""
    parts = re.split("(%.)", pattern)
    directives = parts[1::2]
    if (zone or UTC) != UTC or not DIGITS.keys() >= set(directives) or len(set(directives)) < len(directives):
        return None
    form = "".join(DIGITS.get(part) or re.escape(part) for part in parts)
    groups = {directive: number for number, directive in enumerate(_groups(directives), 1)}
    iso = "".join(sign + (rf"\{groups[part]}" if part in groups else without) for part, sign, without in ISO)
    return f"^{form}$", iso


def _groups(directives: Sequence[str]) -> Iterator[str]:
    """What each group of the regular expression is: a directive, or the minutes of a zone."""
    for directive in directives:
        yield from (directive, MINUTES) if directive == "%z" else (directive,)
