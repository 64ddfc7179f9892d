"""CSV (RFC 4180) to tuples and back: one row per record, with the fields in the order of the schema.

Rows without quotes and line ends are split a batch at a time with Arrow; the others go one by one through Python's csv
module.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.arrow_types import array_of, arrow_schema
from sluice.model.members import NO_MEMBERS, Members, Spelling, path_of, spelling_of
from sluice.model.types import STRING, Schema, Type
from sluice.wire.dead_letter_record import Reason, reason
from sluice.wire.decoded_records import Decoded, record_batch
from sluice.wire.json.json_values import shown
from sluice.wire.plain_text import BOM, read, utf8, written

csv.field_size_limit(2**31 - 1)
#: the pattern of characters for which a row needs Python's csv module
SPECIAL = '["\r\n]'
#: the pattern of fields that are written with quotes; without them a reader drops the byte order mark of a first field
NEEDS_QUOTES = f"{SPECIAL}|^{BOM}"
EMPTY = ""


def decode(  # noqa: PLR0917 - a format's settings
    values: pa.BinaryArray, schema: Schema, delimiter: str, defaults: Mapping[str, Any],
    members: Members = NO_MEMBERS, columns: Sequence[str] = (),
) -> Decoded:  # fmt: skip
    """The tuples in these values. `columns` has the names of the fields; without it they are the attributes.

    An empty field is an empty string, or null if the attribute is no string; null becomes the attribute's default. Of
    an optional attribute an empty field is null, unless it is in quotes (NU4).
    """
    reasons: dict[int, str] = {}
    texts, good = utf8(values)
    _note(reasons, np.flatnonzero(~good), reason(Reason.NOT_TEXT, "its bytes are not UTF-8"))
    layout = Layout(len(columns or schema), delimiter, any(type_.optional for _, type_ in schema))
    fields, rows = _fields(texts, np.flatnonzero(good), layout, reasons)
    if columns:
        fields = [fields[columns.index(path_of(name, members)[0])] for name, _ in schema]
    decoded, right = [], np.ones(len(rows), np.bool_)
    for (name, type_), field in zip(schema, fields, strict=True):
        read_field = _optional if type_.optional else _column
        column, fits = read_field(field, type_, defaults.get(name), spelling_of(name, members))
        for row in np.flatnonzero(~fits & right):
            reasons[int(rows[row])] = _why(name, type_, field[int(row)].as_py())
        right &= fits
        decoded.append((column, fits))
    kept = [column.filter(pa.array(right[fits])) for column, fits in decoded]
    tuples = record_batch(kept, arrow_schema(schema), int(np.count_nonzero(right)))
    return Decoded(tuples, rows[right], sorted(reasons.items()))


def _note(reasons: dict[int, str], rows: np.ndarray, why: str) -> None:
    reasons.update(dict.fromkeys(map(int, rows), why))


def _why(name: str, type_: Type, text: str) -> str:
    if not text:
        return reason(Reason.NULL, f"{name}: expected {type_}, got nothing")
    return reason(Reason.WRONG_TYPE, f"{name}: expected {type_}, got {shown(text)}")


def _column(
    texts: pa.StringArray,
    type_: Type,
    default: Any,  # noqa: ANN401
    spelling: Spelling,
) -> tuple[pa.Array, np.ndarray]:
    texts = pc.fill_null(texts, EMPTY) if texts.null_count else texts
    values, fits = read(texts, type_, spelling)
    if default is None or type_ == STRING:
        return values, fits
    empty = pc.equal(texts, EMPTY).to_numpy(zero_copy_only=False)
    places = np.where(empty, len(values), np.cumsum(fits) - 1)[fits | empty]
    with_default = pa.concat_arrays([values, array_of([default], type_)])
    return with_default.take(pa.array(places)), fits | empty


def _optional(
    texts: pa.StringArray,
    type_: Type,
    default: Any,  # noqa: ANN401
    spelling: Spelling,
) -> tuple[pa.Array, np.ndarray]:
    """As `_column`, for an optional attribute, whose empty fields are null."""
    is_valid = texts.is_valid().to_numpy(zero_copy_only=False)
    values, fits = read(texts.drop_null(), type_, spelling)
    good = ~is_valid
    good[is_valid] = fits
    places = pa.array((np.cumsum(good & is_valid) - 1)[good], mask=~is_valid[good])
    column = values.take(places)
    return column if default is None else pc.coalesce(column, array_of([default], type_)[0]), good


class Layout(NamedTuple):
    """The rows of a stream: the number of fields, the character between them, and whether empty ones are null."""

    fields: int
    delimiter: str
    nulls: bool


def _fields(
    texts: pa.StringArray, rows: np.ndarray, layout: Layout, reasons: dict[int, str]
) -> tuple[list[pa.StringArray], np.ndarray]:
    """Splits the rows into fields. Gives a column for each field, and the numbers of the rows in the columns. If the
    layout has nulls, an empty field without quotes is null.

    Rows with another number of fields get a reason and are left out.
    """
    count, delimiter, nulls = layout
    texts = texts.take(pa.array(rows))
    special = pc.match_substring_regex(texts, SPECIAL).to_numpy(zero_copy_only=False) | (
        pc.equal(texts, EMPTY).to_numpy(zero_copy_only=False)
    )
    plain = pc.split_pattern(texts.filter(pa.array(~special)), delimiter)
    lengths = pc.list_value_length(plain).to_numpy(zero_copy_only=False)
    is_complete = lengths == count
    for row, length in zip(rows[~special][~is_complete], lengths[~is_complete], strict=True):
        reasons[int(row)] = _wrong_number(count, int(length))
    plain = plain.filter(pa.array(is_complete))
    columns = [pc.list_element(plain, number) for number in range(count)]
    if nulls:
        columns = [pc.if_else(pc.equal(column, EMPTY), pa.scalar(None, column.type), column) for column in columns]
    if not special.any():
        return columns, rows[is_complete]
    exact, exact_rows = _exactly(texts.filter(pa.array(special)), rows[special], layout, reasons)
    numbers = np.concatenate([rows[~special][is_complete], exact_rows])
    order = np.argsort(numbers)
    merged = [pa.concat_arrays(pair).take(pa.array(order)) for pair in zip(columns, exact, strict=True)]
    return merged, numbers[order]


def _wrong_number(expected: int, got: int) -> str:
    return reason(Reason.NOT_CSV, f"expected {expected} fields, got {got}")


def _exactly(
    texts: pa.StringArray, rows: np.ndarray, layout: Layout, reasons: dict[int, str]
) -> tuple[list[pa.StringArray], np.ndarray]:
    good: list[int] = []
    fields: list[list[str | None]] = []
    count, delimiter, nulls = layout
    for row, text in zip(map(int, rows), texts.to_pylist(), strict=True):
        if not text and nulls and count == 1:
            good.append(row)
            fields.append([None])
            continue
        if not text:
            reasons[row] = reason(Reason.NO_VALUE, "expected a row of CSV, got nothing")
            continue
        try:
            lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
        except csv.Error as error:
            reasons[row] = reason(Reason.NOT_CSV, str(error))
            continue
        if len(lines) != 1:
            reasons[row] = reason(Reason.NOT_CSV, f"expected one row, got {len(lines)}")
        elif len(lines[0]) != count:
            reasons[row] = _wrong_number(count, len(lines[0]))
        else:
            good.append(row)
            fields.append(_with_nulls(text, lines[0], delimiter) if nulls else [*lines[0]])
    columns = list(zip(*fields, strict=True)) or [()] * count
    return [pa.array(column, pa.string()) for column in columns], np.array(good, np.int64)


def _with_nulls(text: str, fields: list[str], delimiter: str) -> list[str | None]:
    """The fields of a valid row, None for each empty one without quotes."""
    separator = re.escape(delimiter)
    matches = re.finditer(rf'(?:^|{separator})(?:(?P<quoted>"(?:[^"]|"")*")|[^{separator}\r\n]*)', text)
    quoted = [match["quoted"] is not None for match in matches]
    return [field or ("" if in_quotes else None) for field, in_quotes in zip(fields, quoted, strict=False)]


def encode(
    tuples: pa.RecordBatch, delimiter: str, members: Members = NO_MEMBERS, optional: Collection[str] = ()
) -> pa.BinaryArray:
    """The rows. Null is an empty field; an empty string of one of the `optional` attributes is in quotes (NU5)."""
    texts = {name: written(tuples.column(name), spelling_of(name, members)) for name in tuples.schema.names}
    fields = [_quoted(text, delimiter, empty=len(texts) == 1 or name in optional) for name, text in texts.items()]
    fields = [pc.fill_null(field, EMPTY) if field.null_count else field for field in fields]
    return pc.binary_join_element_wise(*fields, pa.scalar(delimiter)).cast(pa.binary())


def _quoted(texts: pa.StringArray, delimiter: str, *, empty: bool) -> pa.StringArray:
    """Quotes the texts that contain special characters; with `empty` also empty texts. Null stays null."""
    needed = pc.or_(pc.match_substring_regex(texts, NEEDS_QUOTES), pc.match_substring(texts, delimiter))
    if empty:
        needed = pc.or_(needed, pc.equal(texts, EMPTY))
    quote = pa.scalar('"')
    quoted = pc.binary_join_element_wise(quote, pc.replace_substring(texts, '"', '""'), quote, "")
    return pc.if_else(needed, quoted, texts)
