"""The format json: a record is one JSON object, whose names are the attributes. The codec is wire/json/."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from sluice.wire.formats.format_contract import Codec, Format, Part

if TYPE_CHECKING:
    import pyarrow as pa


class JsonFormat(Format):
    in_keys = True

    def codec(self, part: Part) -> Codec:
        from sluice.wire.json import json_codec  # noqa: PLC0415 - it imports compiled kernels

        return Codec(partial(json_codec.decode, schema=part.schema, defaults=part.defaults), _encoder())


def _encoder() -> Callable[[pa.RecordBatch], pa.BinaryArray]:
    """The encoder. Without polars, which the extra `run` brings, it raises ModuleNotFoundError when it is called."""
    try:
        from sluice.wire.json.json_write import encode  # noqa: PLC0415
    except ModuleNotFoundError as error:
        missing = error

        def fail(tuples: pa.RecordBatch) -> NoReturn:
            del tuples
            raise missing

        return fail
    return encode
