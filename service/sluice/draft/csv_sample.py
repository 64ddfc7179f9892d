"""Rows of CSV among sampled records that are texts."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from sluice.draft.value_forms import NUMBER, PLACES

#: what may stand between fields, the usual ones first
DELIMITERS = (",", "\t", ";", "|")
#: the fewest fields of a row, and the most characters of most of its fields: lines of text have commas, too
MIN_FIELDS, MAX_LENGTH = 2, 40
#: a name of a column
NAME = re.compile(r"[^\W\d][\w .-]*")
#: the beginning of a sentence of NMEA 0183: the number and the meaning of its fields depend on its kind
NMEA = re.compile(r"[$!][A-Z]{5},")


class Rows(NamedTuple):
    """Rows of CSV.

    delimiter  what stands between fields
    rows       the fields of each text as JSON values, by names; None for the row of names
    """

    delimiter: str
    rows: list[dict[str, Any] | None]


def csv_rows(texts: Sequence[str]) -> Rows | None:
    """The texts as rows of CSV; None if they are none, or have different numbers of fields.

    The names are those of the first row if it has names above numbers, else field_1, field_2 and so on.
    """
    for delimiter in DELIMITERS:
        fields = _fields(texts, delimiter)
        if fields is not None:
            return Rows(delimiter, _named(fields))
    return None


def _fields(texts: Sequence[str], delimiter: str) -> list[list[str]] | None:
    try:
        rows = [next(csv.reader([text], strict=True, delimiter=delimiter), []) for text in texts]
    except csv.Error:
        return None
    lengths = {len(row) for row in rows}
    good = (
        len(lengths) == 1 and lengths.pop() >= MIN_FIELDS and not any(_is_prose(row) or _is_named(row) for row in rows)
    )
    return rows if good and not any(map(NMEA.match, texts)) else None


def _is_prose(row: Sequence[str]) -> bool:
    return sum(len(field) > MAX_LENGTH or field.startswith(" ") for field in row) * 2 > len(row)


def _is_named(row: Sequence[str]) -> bool:
    """Whether most fields have a name in front, as in lines of InfluxDB: `host=a`."""
    return sum("=" in field for field in row) * 2 > len(row)


def _named(fields: Sequence[Sequence[str]]) -> list[dict[str, Any] | None]:
    head = fields[0] if _is_head(fields) else [f"field_{number}" for number in range(1, len(fields[0]) + 1)]
    exact = [_has_places(column) for column in zip(*(row for row in fields if row is not head), strict=True)]
    return [None if row is head else dict(zip(head, map(_value, row, exact), strict=True)) for row in fields]


def _is_head(fields: Sequence[Sequence[str]]) -> bool:
    """Whether the first row has names, above a column of numbers."""
    head, rows = fields[0], fields[1:]
    named = len(set(head)) == len(head) and all(NAME.fullmatch(name) for name in head)
    filled = ([field for field in column if field] for column in zip(*rows, strict=True))
    return named and any(column and all(map(NUMBER.fullmatch, column)) for column in filled)


def _has_places(column: Sequence[str]) -> bool:
    """Whether all numbers of the column have the same number of places behind the point: they are decimals."""
    places = {len(match[1]) if (match := PLACES.fullmatch(field)) else 0 for field in column if field}
    return len(places) == 1 and places != {0}


def numbers_of(texts: Sequence[str]) -> list[Any]:
    """The numbers in a column of texts as JSON values."""
    exact = _has_places(texts)
    return [_value(text, exact) for text in texts]


def _value(field: str, exact: bool) -> Any:  # noqa: ANN401, FBT001 - a JSON value
    """The field as a JSON value; an exact number is a text, as a decimal in JSON."""
    if not field:
        return None
    return json.loads(field) if (not exact and NUMBER.fullmatch(field)) or field in ("true", "false") else field
