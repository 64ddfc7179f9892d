"""`make bench-formats`: how fast one core reads and writes records of each format, the same trades in all; and flat
messages of Protobuf with ten fields.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable

import fastavro
import numpy as np
import pyarrow as pa

from sluice.columns.arrow_types import arrow_schema
from sluice.model.avro_schema import parse, schema_of
from sluice.model.protobuf import proto_fit
from sluice.model.spec import Coding
from sluice.model.types import FLOAT64, INT64, STRING, TIMESTAMP, Schema
from sluice.wire.confluent import Confluent
from sluice.wire.formats.avro_format import AvroOptions
from sluice.wire.formats.csv_format import CsvOptions
from sluice.wire.formats.format_contract import Codec, Part
from sluice.wire.formats.format_table import codec
from sluice.wire.formats.protobuf_format import ProtobufOptions
from sluice.wire.json import json_schema
from sluice.wire.json.json_confluent import JsonConfluent
from sluice.wire.protobuf.proto_confluent import ProtobufConfluent

COUNT, TIMES = 200_000, 5
TRADES: Schema = (("symbol", STRING), ("price", FLOAT64), ("size", INT64), ("time", TIMESTAMP))
AVRO = schema_of("Trade", TRADES)
PROTOBUF = (("trade.proto", proto_fit.schema_of("Trade", TRADES)),)
JSON = json_schema.schema_of("Trade", TRADES)
HEAD = "| format | bytes | read, us | write, us |\n| --- | --- | --- | --- |"


class OneSchema:
    """A registry that has one schema at hand."""

    def schema(self, _: int) -> object:
        return parse(AVRO)

    def sources(self, _: int, kind: str) -> tuple[tuple[str, str], ...]:
        return PROTOBUF if kind == "PROTOBUF" else (("", JSON),)

    def id_of(self, *_: str) -> int:
        return 1


def trades() -> pa.RecordBatch:
    random = np.random.default_rng(1)
    columns = [
        pa.array([f"S{number}" for number in random.integers(0, 1000, COUNT)]),
        pa.array(np.round(random.uniform(1, 500, COUNT), 2)),
        pa.array(random.integers(1, 10_000, COUNT)),
        pa.array(1_357_041_600_000_000_000 + np.arange(COUNT) * 1_000_000).view(pa.timestamp("ns", "UTC")),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(TRADES))


def forms() -> dict[str, tuple[Codec, Schema]]:
    one = TRADES[:1]
    confluent = Confluent(TRADES, OneSchema(), "trades", AVRO, None, {})  # type: ignore[arg-type]
    confluent_protobuf = ProtobufConfluent(TRADES, OneSchema(), "trades", PROTOBUF, "Trade", {})  # type: ignore[arg-type]
    confluent_json = JsonConfluent(TRADES, OneSchema(), "trades", JSON, codec(Part(Coding("json"), TRADES)))  # type: ignore[arg-type]
    ten = TRADES + tuple((f"{name}_{number}", type_) for number in (2, 3) for name, type_ in TRADES[:3])
    files = (("ten.proto", proto_fit.schema_of("Ten", ten)),)
    return {
        "json": (codec(Part(Coding("json"), TRADES)), TRADES),
        "json-confluent": (Codec(confluent_json.decode, confluent_json.encode), TRADES),
        "avro": (codec(Part(Coding("avro", AvroOptions(AVRO)), TRADES)), TRADES),
        "avro-confluent": (Codec(confluent.decode, confluent.encode), TRADES),
        "protobuf": (codec(Part(Coding("protobuf", ProtobufOptions("Trade", PROTOBUF)), TRADES)), TRADES),
        "protobuf-confluent": (Codec(confluent_protobuf.decode, confluent_protobuf.encode), TRADES),
        "protobuf, ten fields": (codec(Part(Coding("protobuf", ProtobufOptions("Ten", files)), ten)), ten),
        "csv": (codec(Part(Coding("csv", CsvOptions()), TRADES)), TRADES),
        "text": (codec(Part(Coding("text"), one)), one),
    }


def fastest(work: Callable[[], object]) -> float:
    """Microseconds of one core per record, whatever else the machine does: of the best of some times."""
    best = float("inf")
    for _ in range(TIMES):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best / COUNT * 1e6


def by_fastavro(values: pa.BinaryArray) -> float:
    """For comparison: record by record into Python's objects, which are then to become columns."""
    schema, records = fastavro.parse_schema(json.loads(AVRO)), values.to_pylist()
    return fastest(lambda: [fastavro.schemaless_reader(io.BytesIO(record), schema, None) for record in records])


def main() -> None:
    pa.set_cpu_count(1)
    batch = trades()
    print(HEAD)
    for word, (form, schema) in forms().items():
        names = [name for name, _ in schema]
        columns = [batch.column(name.partition("_")[0]) for name in names]
        tuples = pa.RecordBatch.from_arrays(columns, names)
        values = form.encode(tuples)
        decoded = form.decode(values)
        assert not decoded.bad  # noqa: S101 - it would be no measure
        read, write = fastest(lambda f=form, v=values: f.decode(v)), fastest(lambda f=form, t=tuples: f.encode(t))
        print(f"| `{word}` | {values.nbytes / COUNT - 4:.0f} | {read:.2f} | {write:.2f} |", flush=True)
        if word == "avro":
            print(f"| (fastavro, into Python objects) | | {by_fastavro(values):.2f} | |", flush=True)


if __name__ == "__main__":
    main()
