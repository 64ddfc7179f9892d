"""The formats text and raw: a value is one attribute. For raw the attribute is the value's bytes in base64.

The codecs are plain_values.py.
"""

from __future__ import annotations

from functools import partial

from sluice.model.members import place, spelling_of
from sluice.model.types import STRING
from sluice.wire.formats.format_contract import Codec, Finder, Format, Part, names_of


class TextFormat(Format):
    in_keys = True
    coerces = True

    def check(self, part: Part, finder: Finder) -> None:
        if len(part.schema) != 1:
            word, names = part.coding.format, names_of(part.schema)
            finder.problem("format", f"a format of several attributes ({word} has one) for {names}", word)

    def codec(self, part: Part) -> Codec:
        from sluice.wire import plain_values  # noqa: PLC0415 - it imports pyarrow

        (name, _), *_ = part.schema
        spelling = spelling_of(name, part.members)
        return Codec(
            partial(plain_values.decode_text, schema=part.schema, spelling=spelling, where=place(name, part.members)),
            partial(plain_values.encode_text, spelling=spelling),
        )


class RawFormat(TextFormat):
    in_keys = False
    coerces = False

    def check(self, part: Part, finder: Finder) -> None:
        if len(part.schema) != 1:
            super().check(part, finder)
        elif part.written or part.schema[0][1] != STRING:
            expected = "another format, as raw is for reading an attribute of the type string"
            finder.problem("format", expected, part.coding.format)

    def codec(self, part: Part) -> Codec:
        from sluice.wire import plain_values  # noqa: PLC0415 - it imports pyarrow

        return Codec(partial(plain_values.decode_raw, schema=part.schema), plain_values.encode_raw)
