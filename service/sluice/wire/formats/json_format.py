"""The format json: a record is one JSON object, whose names are the attributes. The codec is wire/json/."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from sluice.model.members import Members
from sluice.model.spec import FormatOptions
from sluice.wire.formats.format_contract import Codec, Finder, Format, FormatKey, Part

if TYPE_CHECKING:
    import pyarrow as pa


NUMBER, BASE64 = "number", "base64"


@dataclass(frozen=True, slots=True)
class JsonOptions(FormatOptions):
    #: how decimals are written, and with `base64` also read (DE18)
    decimals: str = NUMBER
    #: whether a null is written as no member (NU5)
    omit: bool = False


class JsonFormat(Format):
    keys = {  # noqa: RUF012 - a ClassVar of the base class
        "nulls": FormatKey(
            "form of null", Literal["write", "omit"],
            Field("write", description="For `json`: whether the member of a null is written, or left out (rule NU5)."),
        ),
        "decimals": FormatKey(
            "decimals", Literal["number", "string", "base64"],
            Field(
                NUMBER,
                description="For `json`: how decimals are written: as a `number`, as a `string`, or as the bytes of "
                "Kafka Connect in `base64`, which are then also read. Else numbers and texts of numbers are read.",
            ),
            of_key="For `json`: how decimals of the key are written. The default is `number`.",
        ),
    }  # fmt: skip
    in_keys = True
    has_paths = True
    coerces = True

    def options(self, given: Mapping[str, Any], finder: Finder) -> FormatOptions:
        """The options of a stream that sets none are those of any format."""
        given_options = JsonOptions(given["decimals"] or NUMBER, given["nulls"] == "omit")
        return FormatOptions() if given_options == JsonOptions() else given_options

    def codec(self, part: Part) -> Codec:
        from sluice.wire.json import json_codec  # noqa: PLC0415 - it imports compiled kernels

        options = part.options if isinstance(part.options, JsonOptions) else JsonOptions()
        decode = partial(json_codec.decode, schema=part.schema, defaults=part.defaults, members=part.members)
        if options.decimals == BASE64:
            from sluice.wire.json import json_decimals  # noqa: PLC0415

            inner = partial(json_codec.decode, members=part.members)
            decode = partial(json_decimals.decode, schema=part.schema, defaults=part.defaults, codec=inner)
        return Codec(decode, partial(_encode, members=part.members, options=options))


def _encode(tuples: pa.RecordBatch, members: Members, options: JsonOptions) -> pa.BinaryArray:
    """Imports the encoder and polars, which takes 0.15 s and 15 MB, when there are tuples: many processes have none.

    Raises ModuleNotFoundError, also without tuples, if polars is missing, which the extra `run` brings.
    """
    if not tuples.num_rows and find_spec("polars"):
        import pyarrow as pa  # noqa: PLC0415

        return pa.array([], pa.binary())
    from sluice.wire.json.json_write import encode, encode_present  # noqa: PLC0415

    if options.decimals != NUMBER:
        from sluice.wire.json import json_decimals  # noqa: PLC0415

        tuples = json_decimals.encoded(tuples, options.decimals)
    return (encode_present if options.omit else encode)(tuples, members)
