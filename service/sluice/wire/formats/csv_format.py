"""The format csv (RFC 4180): one row per record, the fields in the order of the schema. The codec is csv_rows.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import Field

from sluice.model.spec import FormatOptions
from sluice.wire.formats.format_contract import Codec, Finder, Format, FormatKey, Part


@dataclass(frozen=True, slots=True)
class CsvOptions(FormatOptions):
    #: the character between two fields
    delimiter: str = ","


class CsvFormat(Format):
    keys = {  # noqa: RUF012 - a ClassVar of the base class
        "delimiter": FormatKey(
            "delimiter", str,
            Field(
                ",", min_length=1, max_length=1, description="For `csv`: the character between two fields.",
                examples=[";"],
            ),
        ),
    }  # fmt: skip

    def options(self, given: Mapping[str, Any], finder: Finder) -> CsvOptions:
        if given["delimiter"] in '"\r\n':
            finder.problem("delimiter", "a character that is no quote and no line end")
        return CsvOptions(given["delimiter"])

    def check(self, part: Part, finder: Finder) -> None:
        if not part.schema:
            finder.problem("format", "json or avro, as there are no attributes", part.coding.format)

    def codec(self, part: Part) -> Codec:
        from sluice.wire import csv_rows  # noqa: PLC0415 - it imports pyarrow

        delimiter = part.options.delimiter
        return Codec(
            partial(csv_rows.decode, schema=part.schema, delimiter=delimiter, defaults=part.defaults),
            partial(csv_rows.encode, delimiter=delimiter),
        )
