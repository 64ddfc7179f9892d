"""The format csv (RFC 4180): one row per record, the fields in the order of the schema. The codec is csv_rows.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import Field

from sluice.model.members import paths_of
from sluice.model.spec import FormatOptions
from sluice.wire.formats.format_contract import Codec, Finder, Format, FormatKey, Part


@dataclass(frozen=True, slots=True)
class CsvOptions(FormatOptions):
    #: the character between two fields
    delimiter: str = ","
    #: the names of the fields of a row; empty: the attributes in the order of the schema
    columns: tuple[str, ...] = ()


class CsvFormat(Format):
    keys = {  # noqa: RUF012 - a ClassVar of the base class
        "delimiter": FormatKey(
            "delimiter", str,
            Field(
                ",", min_length=1, max_length=1, description="For `csv`: the character between two fields.",
                examples=[";"],
            ),
        ),
        "columns": FormatKey(
            "columns", list[str] | None,
            Field(
                None, min_length=1, description="For `csv`: the names of the fields of a row, of any characters. "
                "Attributes are read by these names, or by their `from`. Without it the fields are the attributes in "
                "the order of the schema.",
                examples=[["time", "order-id", "amount"]],
            ),
        ),
    }  # fmt: skip
    coerces = True

    def options(self, values: Mapping[str, Any], finder: Finder) -> CsvOptions:
        if values["delimiter"] in '"\r\n':
            finder.problem("delimiter", "a character that is no quote and no line end")
        columns = values.get("columns") or ()
        for name in sorted({name for name in columns if columns.count(name) > 1}):
            finder.problem("columns", "each name once", name)
        return CsvOptions(values["delimiter"], tuple(columns))

    def check(self, part: Part, finder: Finder) -> None:
        if not part.schema:
            finder.problem("format", "json or avro, as there are no attributes", part.coding.format)
        if part.options.columns and part.written:
            finder.problem("columns", "no columns, as an operator writes this stream")
        elif part.options.columns:
            _check_columns(part, finder)

    def codec(self, part: Part) -> Codec:
        from sluice.wire import csv_rows  # noqa: PLC0415 - it imports pyarrow

        delimiter = part.options.delimiter
        optional = frozenset(name for name, type_ in part.schema if type_.optional)
        return Codec(
            partial(
                csv_rows.decode,
                schema=part.schema,
                delimiter=delimiter,
                defaults=part.defaults,
                members=part.members,
                columns=part.options.columns,
            ),
            partial(csv_rows.encode, delimiter=delimiter, members=part.members, optional=optional),
        )


def _check_columns(part: Part, finder: Finder) -> None:
    """Checks that each attribute has a column (PA5)."""
    columns = part.options.columns
    for (name, _), (column, *_more) in zip(part.schema, paths_of(part.schema, part.members), strict=True):
        if column not in columns:
            finder.problem("columns", f"the column {column} of the attribute {name}")
