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


@dataclass(frozen=True, slots=True)
class JsonOptions(FormatOptions):
    #: whether a null is written as no member
    omit: bool = False


class JsonFormat(Format):
    keys = {  # noqa: RUF012 - a ClassVar of the base class
        "nulls": FormatKey(
            "the form of null", Literal["write", "omit"],
            Field("write", description="For `json`: whether the member of a null is written, or left out (rule NU5)."),
        ),
    }  # fmt: skip
    in_keys = True
    has_paths = True
    coerces = True

    def options(self, given: Mapping[str, Any], finder: Finder) -> JsonOptions:
        return JsonOptions(given["nulls"] == "omit")

    def codec(self, part: Part) -> Codec:
        from sluice.wire.json import json_codec  # noqa: PLC0415 - it imports compiled kernels

        decode = partial(json_codec.decode, schema=part.schema, defaults=part.defaults, members=part.members)
        omit = isinstance(part.options, JsonOptions) and part.options.omit
        return Codec(decode, partial(_encode, members=part.members, omit=omit))


def _encode(tuples: pa.RecordBatch, members: Members, *, omit: bool) -> pa.BinaryArray:
    """Imports the encoder and polars, which takes 0.15 s and 15 MB, when there are tuples: many processes have none.

    Raises ModuleNotFoundError, also without tuples, if polars is missing, which the extra `run` brings.
    """
    if not tuples.num_rows and find_spec("polars"):
        import pyarrow as pa  # noqa: PLC0415

        return pa.array([], pa.binary())
    from sluice.wire.json.json_write import encode, encode_present  # noqa: PLC0415

    return (encode_present if omit else encode)(tuples, members)
