"""The format json: a record is one JSON object, whose names are the attributes. The codec is wire/json/."""

from __future__ import annotations

from functools import partial

from sluice.wire.formats.format_contract import Codec, Format, Part


class JsonFormat(Format):
    in_keys = True

    def codec(self, part: Part) -> Codec:
        from sluice.wire.json import json_codec  # noqa: PLC0415 - it imports compiled kernels

        return Codec(partial(json_codec.decode, schema=part.schema, defaults=part.defaults), json_codec.encode)
