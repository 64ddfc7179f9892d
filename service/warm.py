"""Compiles all kernels ahead of the first use: `python -m service.warm`.

Nothing here starts threads, so that a process which did it may fork.
"""

from __future__ import annotations

import gc

import pyarrow as pa

from service.engine import warm as engine
from service.kafka.murmur2 import murmur2
from service.pipeline.avro import schema_of
from service.pipeline.spec import Coding
from service.pipeline.types import SCALARS
from service.wire.formats import FORMATS, Part

SCHEMA = tuple((type_.kind.value, type_) for type_ in dict.fromkeys(SCALARS.values()))
TUPLE = b'{"boolean": true, "int64": 1, "float64": 1.5, "string": "a", "timestamp": "2013-01-01T05:17:00Z"}'


def main() -> None:
    gc.disable()  # the compiler makes millions of objects that stay: a quarter of its time
    engine.main()
    json = FORMATS["json"](Part(Coding("json"), SCHEMA))
    tuples = json.decode(pa.array([TUPLE])).tuples
    avro = FORMATS["avro"](Part(Coding("avro", schema_of("warm", SCHEMA)), SCHEMA))
    avro.decode(avro.encode(tuples))
    murmur2(pa.array([b"key"]))
    gc.enable()


if __name__ == "__main__":
    main()
