"""The format json: a record is one JSON object, whose names are the attributes. The codec is wire/json/."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from sluice.model.members import BASE64, NUMBER, TEXT, Members, Spelling, with_numbers
from sluice.model.spec import FormatOptions
from sluice.wire.formats.format_contract import Codec, Finder, Format, FormatKey, Part

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class JsonOptions(FormatOptions):
    #: how decimals are written, and with `base64` also read (DE18)
    decimals: str = NUMBER
    #: whether a null is written as no member (NU5)
    omit: bool = False

    @property
    def spelling(self) -> Spelling:
        """The spelling of all attributes that say nothing else."""
        return Spelling(numbers=self.decimals)


#: the formats that have the keys below
IN_JSON = "`json` and `json-confluent`"


class JsonFormat(Format):
    keys = {  # noqa: RUF012 - a ClassVar of the base class
        "nulls": FormatKey(
            "form of null", Literal["write", "omit"],
            Field(
                "write",
                description=f"For {IN_JSON}: whether the member of a null is written, or left out (rule NU5).",
            ),
        ),
        "decimals": FormatKey(
            "decimals", Literal[NUMBER, TEXT, BASE64],
            Field(
                NUMBER,
                description=f"For {IN_JSON}: how decimals are written: as a `number`, a `string`, or the bytes of "
                "Kafka Connect in `base64`, which are then also read.",
            ),
            of_key=f"For {IN_JSON}: how decimals of the key are written. The default is `number`.",
        ),
    }  # fmt: skip
    in_keys = True
    has_paths = True
    has_documents = True
    coerces = True

    def options(self, values: Mapping[str, Any], finder: Finder) -> FormatOptions:
        """A stream without options has the options of any format."""
        options = JsonOptions(**json_options(values))
        return FormatOptions() if options == JsonOptions() else options

    def codec(self, part: Part) -> Codec:
        from sluice.wire.json import json_codec  # noqa: PLC0415 - it imports compiled kernels

        options = part.options if isinstance(part.options, JsonOptions) else JsonOptions()
        members = part.members
        if options.decimals != NUMBER:
            members = with_numbers(part.schema, members, options.decimals)
        decode = partial(json_codec.decode, schema=part.schema, defaults=part.defaults, members=members)
        return Codec(decode, partial(_encode, members=members, omit=options.omit))


def json_options(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of JsonOptions that the keys of a file give."""
    return {"decimals": values.get("decimals") or NUMBER, "omit": values.get("nulls") == "omit"}


def _encode(tuples: pa.RecordBatch, members: Members, *, omit: bool) -> pa.BinaryArray:
    """Imports the encoder and polars, which takes 0.15 s and 15 MB, when there are tuples: many processes have none.

    Raises ModuleNotFoundError, also without tuples, if polars is missing, which the extra `run` brings.
    """
    if not tuples.num_rows and find_spec("polars"):
        import pyarrow as pa  # noqa: PLC0415

        return pa.array([], pa.binary())
    from sluice.wire.json.json_write import encode  # noqa: PLC0415

    return encode(tuples, members, omit=omit)
