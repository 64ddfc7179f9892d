"""The format json: a record is one JSON object, whose names are the attributes. The codec is wire/json/."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from sluice.model.members import Members
from sluice.wire.formats.format_contract import Codec, Format, Part

if TYPE_CHECKING:
    import pyarrow as pa


class JsonFormat(Format):
    in_keys = True
    has_paths = True
    coerces = True

    def codec(self, part: Part) -> Codec:
        from sluice.wire.json import json_codec  # noqa: PLC0415 - it imports compiled kernels

        decode = partial(json_codec.decode, schema=part.schema, defaults=part.defaults, members=part.members)
        return Codec(decode, partial(_encode, members=part.members))


def _encode(tuples: pa.RecordBatch, members: Members) -> pa.BinaryArray:
    """Imports the encoder and polars, which takes 0.15 s and 15 MB, when there are tuples: many processes have none.

    Raises ModuleNotFoundError, also without tuples, if polars is missing, which the extra `run` brings.
    """
    if not tuples.num_rows and find_spec("polars"):
        import pyarrow as pa  # noqa: PLC0415

        return pa.array([], pa.binary())
    from sluice.wire.json.json_write import encode  # noqa: PLC0415

    return encode(tuples, members)
