"""The example in Avro, from the bytes of its topic to those that it writes."""

from __future__ import annotations

import io
import json

import fastavro
import pyarrow as pa

import sluice
from sluice.columns.arrow_types import arrow_schema
from sluice.config.load import load
from sluice.files import project_file
from sluice.wire.json.json_values import nanoseconds
from sluice.wire.record_codec import Records

FILE = project_file("examples/turnover.yaml")
TRADE, TURNOVER = (json.loads(project_file(f"examples/{name}.avsc").read_text()) for name in ("trade", "turnover"))
SAMPLE = [json.loads(line)["tuple"] for line in project_file("examples/turnover.jsonl").read_text().splitlines()]
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def trade(sample):
    """As a venue sends it: a round lot has no size, and a trace that is none is not there."""
    time = nanoseconds(sample["time"]) // 1_000_000
    value = {**sample, "size": None if sample["size"] == 100 else sample["size"], "side": "BUY", "time": time}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(TRADE), value)
    return out.getvalue(), [] if sample["trace"] == "none" else [("trace-id", sample["trace"].encode())]


def test_its_sample_is_what_a_venue_sends():
    stream = load(FILE).streams["trades"]
    values, headers = zip(*map(trade, SAMPLE), strict=True)
    nothing = pa.nulls(len(values), pa.binary())
    found = Records.of(stream, {}).decode(pa.array(values, pa.binary()), nothing, pa.array(headers, HEADERS))
    assert found.bad == []
    expected = [{**sample, "time": nanoseconds(sample["time"])} for sample in SAMPLE]
    columns = found.tuples.set_column(3, "time", found.tuples.column("time").cast(pa.int64()))
    assert columns.to_pylist() == expected


def test_what_it_writes_is_read_by_its_schema():
    """Of A: 3 at 10, 1 at 12, 4 at 11."""
    (made,) = (r["tuple"] for r in sluice.replay(FILE, project_file("examples/turnover.jsonl")) if "tuple" in r)
    stream = load(FILE).streams["turnover"]
    columns = [
        pa.array([nanoseconds(made[one.name]) if one.name == "last" else made[one.name]], one.type)
        for one in arrow_schema(stream.schema)
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=arrow_schema(stream.schema))
    records = Records.of(stream, {})
    (value,) = records.encode_values(batch).to_pylist()
    read = fastavro.schemaless_reader(io.BytesIO(value), fastavro.parse_schema(TURNOVER), None)
    assert read["last"].isoformat() == "2013-01-01T10:00:02.125000+00:00"
    assert {**read, "last": None} == {"turnover": 86.0, "trades": 3, "last": None, "source": "sluice"}
    assert records.encode_keys(batch).to_pylist() == [b"A"]
    assert records.encode_headers(batch)["trace-id"].to_pylist() == [b"third"]
