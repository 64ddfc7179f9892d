"""Compiles all kernels before their first use: `python -m sluice.batch.kernel_warm_up`, once after the installation.

`main` starts no threads, so a process may fork after it.
"""

from __future__ import annotations

import gc
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pyarrow as pa

from sluice.engine import operator_warm_up as engine
from sluice.kafka.murmur2 import murmur2
from sluice.model.avro_schema import schema_of
from sluice.model.spec import Coding
from sluice.model.types import SCALARS
from sluice.wire.formats.avro_format import AvroOptions
from sluice.wire.formats.format_contract import Part
from sluice.wire.formats.format_table import codec

SCHEMA = tuple((type_.kind.value, type_) for type_ in dict.fromkeys(SCALARS.values()))
TUPLE = b'{"boolean": true, "int64": 1, "float64": 1.5, "string": "a", "timestamp": "2013-01-01T05:17:00Z"}'


def main() -> None:
    """Compiles all kernels in this process, or loads them from the cache."""
    gc.disable()  # collection takes a quarter of the compiler's time, and finds nothing
    engine.main()
    formats()
    gc.enable()


def formats() -> None:
    json = codec(Part(Coding("json"), SCHEMA))
    tuples = json.decode(pa.array([TUPLE])).tuples
    avro = codec(Part(Coding("avro", AvroOptions(schema_of("warm", SCHEMA))), SCHEMA))
    avro.decode(avro.encode(tuples))
    murmur2(pa.array([b"key"]))


def compiled() -> None:
    """Compiles all kernels in as many processes as there are processors."""
    with ProcessPoolExecutor(initializer=gc.disable, mp_context=get_context("spawn")) as pool:
        for done in [*(pool.submit(engine.feed, operator) for operator in engine.OPERATORS), pool.submit(formats)]:
            done.result()


if __name__ == "__main__":
    compiled()
