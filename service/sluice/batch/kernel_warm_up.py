"""Compiles kernels before their first use: the kernels of a pipeline, or all kernels.

`everything` and `of_pipeline` start no threads, so a process may fork after them.
"""

from __future__ import annotations

import base64
import binascii
import gc
import itertools
import logging
import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from functools import partial
from multiprocessing import get_context

import pyarrow as pa

from sluice.columns.key_bytes import murmur2
from sluice.compiler.progress import reported, to_stderr
from sluice.engine import operator_warm_up as engine
from sluice.kafka.librdkafka import column_consumer, producer_queue
from sluice.model.avro_schema import schema_of
from sluice.model.protobuf import proto_fit
from sluice.model.spec import Coding, Pipeline, Properties, Settings, Stream
from sluice.model.types import INT64, SCALARS, STRING, TIMESTAMP, Schema, list_of
from sluice.processes import processors, without_garbage_collection
from sluice.wire.formats.avro_format import AvroOptions
from sluice.wire.formats.format_contract import Part
from sluice.wire.formats.format_table import codec
from sluice.wire.formats.protobuf_format import ProtobufOptions

LOGGER = logging.getLogger("sluice")

SCHEMA: Schema = tuple((type_.word, type_) for type_ in SCALARS)
TUPLE = b'{"boolean": true, "int64": 1, "float64": 1.5, "string": "a", "timestamp": "2013-01-01T05:17:00Z"}'

#: the environment variable that names the pipelines of a service to the Python processes of Spark on a cluster
VARIABLE = "SLUICE_KERNELS"
#: maximum bytes of the variable: Linux allows 128 KiB
MAX_BYTES = 100_000
#: about as many parts a process compiles before it ends
MAX_PARTS = 4
#: what a process compiles
Work = Callable[[], None]


def everything() -> list[Work]:
    """The parts of the warm-up that together compile all kernels."""
    operators = [partial(engine.feed, operator, engine.STREAMS) for operator in engine.OPERATORS]
    return [*operators, partial(json, SCHEMA), partial(avro, SCHEMA), protobuf, keys, clients]


def of_pipeline(pipeline: Pipeline) -> list[Work]:
    """The parts that compile the kernels that a pipeline needs. No code of the user runs."""
    without_code = [engine.without_user_code(operator) for operator in pipeline.operators]
    operators: list[Work] = [partial(engine.feed, operator, pipeline.streams) for operator in without_code if operator]
    return [*operators, engine.results, *of_routing(pipeline)]


def of_routing(pipeline: Pipeline) -> list[Work]:
    """The parts that compile the kernels that decode records and choose their buckets."""
    parts: list[Work] = []
    streams = [stream for stream in pipeline.streams.values() if stream.topic and stream.schema]
    for form, compiling in (("json", json), ("avro", avro)):
        if any(coding.format.startswith(form) for stream in streams for coding in codings(stream)):
            parts.append(partial(compiling, SCHEMA))
    if any(coding.format.startswith("protobuf") for stream in streams for coding in codings(stream)):
        parts.append(protobuf)
    return [*parts, keys, clients]


def codings(stream: Stream) -> list[Coding]:
    return [stream.value, *([stream.key.coding] if stream.key else [])]


def json(schema: Schema) -> None:
    codec(Part(Coding("json"), schema)).decode(pa.array([TUPLE]))


def avro(schema: Schema) -> None:
    form = codec(Part(Coding("avro", AvroOptions(schema_of("warm", schema))), schema))
    form.decode(form.encode(engine.sample(schema)))


def protobuf() -> None:
    """The interpreter and the encoder have one form for all messages."""
    schema: Schema = (("a", STRING), ("b", list_of(INT64)), ("c", TIMESTAMP))
    files = (("warm.proto", proto_fit.schema_of("warm", schema)),)
    form = codec(Part(Coding("protobuf", ProtobufOptions("warm", files)), schema))
    form.decode(form.encode(engine.sample(schema)))


def keys() -> None:
    murmur2(pa.array([b"key"]))


def clients() -> None:
    column_consumer.compile_kernels()
    producer_queue.compile_kernel()


def in_this_process(parts: Iterable[Work], log: Callable[[str], object] = to_stderr) -> None:
    """Compiles in this process, or loads from the cache. What cannot be compiled now is compiled at its first use.

    `log` is called with each line about a compilation that takes long.
    """
    # the collection of garbage takes a quarter of the compiler's time, and finds nothing
    with reported(log), without_garbage_collection():
        for part in parts:
            try:
                part()
            except Exception:
                LOGGER.debug("a kernel could not be compiled in advance", exc_info=True)


def in_processes(parts: Iterable[Work]) -> Iterator[int]:
    """Compiles in as many processes as there are processors. Yields the number of finished parts after each one.

    The processes end after about MAX_PARTS parts each, which frees their memory. `max_tasks_per_child` would do this
    for each process alone, but a pool whose processes end at the same time may then wait for ever (CPython issue
    115634).
    """
    context, count, numbers = get_context("spawn"), processors(), itertools.count(1)
    rest = list(parts)
    while rest:
        next_parts, rest = rest[: MAX_PARTS * count], rest[MAX_PARTS * count :]
        with ProcessPoolExecutor(count, initializer=gc.disable, mp_context=context) as pool:
            for done in as_completed([pool.submit(part) for part in next_parts]):
                done.result()
                yield next(numbers)


def for_service(text: str) -> None:
    """Compiles what the pipelines of a text of `to_text` need, all if it has none, and loads what writes JSON."""
    pipelines = from_text(text)
    operators = [operator.name for pipeline in pipelines for operator in pipeline.operators]

    def log(text: str) -> None:
        LOGGER.info(text, extra={"operators": ", ".join(operators) or "all"})

    parts = [part for pipeline in pipelines for part in of_pipeline(pipeline)] if pipelines else everything()
    outputs = [coding for pipeline in pipelines for stream in pipeline.outputs for coding in codings(stream)]
    writers = [json_writer] if not pipelines or any(coding.format == "json" for coding in outputs) else []
    in_this_process([*parts, *writers], log)


def json_writer() -> None:
    """Loads polars, which takes long. A call would start its threads, which do not exist in a forked process."""
    import sluice.wire.json.json_write  # noqa: F401, PLC0415 - the extra `run` brings polars, and `compile` needs none


def to_text(pipelines: Sequence[Pipeline]) -> str:
    """The pipelines as a text for `from_text`, without any properties of clients.

    Leaves out the last pipelines if the text would be too long; their kernels are compiled at the first use.
    """
    for count in range(len(pipelines), 0, -1):
        kept = tuple(replace(pipeline, settings=Settings(Properties())) for pipeline in pipelines[:count])
        text = base64.b64encode(zlib.compress(pickle.dumps(kept))).decode()
        if len(text) <= MAX_BYTES:
            return text
    return ""


def from_text(text: str) -> tuple[Pipeline, ...]:
    """The pipelines of a text that `to_text` made; none of any other text."""
    try:
        unpacked = pickle.loads(zlib.decompress(base64.b64decode(text))) if text else ()  # noqa: S301 - the service wrote it
    except (binascii.Error, zlib.error, EOFError, pickle.UnpicklingError, ImportError, AttributeError):
        return ()
    return (
        tuple(pipeline for pipeline in unpacked if isinstance(pipeline, Pipeline))
        if isinstance(unpacked, tuple)
        else ()
    )
