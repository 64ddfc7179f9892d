"""Rows of CSV among sampled records that are texts."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from typing import Any

from sluice.draft.value_forms import NUMBER

DELIMITER = ","
#: the fewest fields of a row, and the most characters of most of its fields: lines of text have commas, too
MIN_FIELDS, MAX_LENGTH = 2, 40


def csv_rows(texts: Sequence[str]) -> list[dict[str, Any]] | None:
    """The fields of each text as a JSON value, by names: field_1, field_2, ...; None if the texts are no rows of CSV of
    one length.
    """
    try:
        rows = [next(csv.reader([text], strict=True), []) for text in texts]
    except csv.Error:
        return None
    lengths = {len(row) for row in rows}
    if len(lengths) > 1 or lengths.pop() < MIN_FIELDS or any(_is_prose(row) for row in rows):
        return None
    return [{f"field_{number}": _value(field) for number, field in enumerate(row, 1)} for row in rows]


def _is_prose(row: Sequence[str]) -> bool:
    return sum(len(field) > MAX_LENGTH or field.startswith(" ") for field in row) * 2 > len(row)


def _value(field: str) -> Any:  # noqa: ANN401 - a JSON value
    if not field:
        return None
    return json.loads(field) if NUMBER.fullmatch(field) or field in ("true", "false") else field
