"""The formats of values that a pipeline file can name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import pyarrow as pa

from service.pipeline.types import Schema
from service.wire import json_format
from service.wire.decoded import Decoded


class Format(NamedTuple):
    decode: Callable[[pa.BinaryArray, Schema], Decoded]
    encode: Callable[[pa.RecordBatch], pa.BinaryArray]


#: word in the pipeline file -> how values of that format are read and written
FORMATS: Mapping[str, Format] = {"json": Format(json_format.decode, json_format.encode)}
