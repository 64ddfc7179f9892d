"""Whatever bytes come, in any format: never an error, each bad record once and with a reason, its neighbours as before.

`make fuzz-formats` plays a million of them per format, from records that were grown by coverage (tests/hostile).
"""

from __future__ import annotations

import json
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from sluice.columns.arrow_types import arrow_schema
from sluice.model.avro_schema import parse, schema_of
from sluice.model.protobuf import proto_fit
from sluice.model.spec import Coding
from sluice.model.types import BOOLEAN, FLOAT64, INT64, STRING, TIMESTAMP, list_of
from sluice.wire.avro.avro_read import Reader
from sluice.wire.confluent import Confluent
from sluice.wire.dead_letter_record import Reason, word_of
from sluice.wire.formats.avro_format import AvroOptions
from sluice.wire.formats.csv_format import CsvOptions
from sluice.wire.formats.format_contract import Part
from sluice.wire.formats.format_table import FORMATS, codec
from sluice.wire.formats.protobuf_format import ProtobufOptions
from sluice.wire.json import json_schema
from sluice.wire.json.json_confluent import JsonConfluent
from sluice.wire.json.json_types import json_form
from sluice.wire.protobuf.proto_confluent import ProtobufConfluent
from sluice.wire.schema_registry import PROTOBUF as PROTOBUF_KIND
from sluice.wire.schema_registry import UnknownSchemaError

SEED, MUTANTS = 1, 5000
SCHEMA = (("k", STRING), ("x", FLOAT64), ("n", INT64), ("t", TIMESTAMP), ("b", BOOLEAN), ("l", list_of(STRING)))
FORMS = [(name, json_form(type_)) for name, type_ in SCHEMA]
ROWS = [
    {"k": "IBM", "x": 1.5, "n": -7, "t": 1_357_041_600_000_000_000, "b": True, "l": []},
    {"k": 'é"€,😀\n', "x": 1e-7, "n": 2**63 - 1, "t": -1, "b": False, "l": ["a", "", 'b,"']},
    {"k": "", "x": -0.0, "n": 0, "t": 2**62, "b": True, "l": ["x"] * 40},
]
TUPLES = pa.RecordBatch.from_pylist(ROWS, arrow_schema(SCHEMA))
NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
ODD = json.dumps({
    "type": "record", "name": "Odd", "fields": [
        {"name": "gone", "type": {"type": "map", "values": {"type": "array", "items": ["null", "string", "int"]}}},
        {"name": "node", "type": NODE},
        {"name": "void", "type": {"type": "array", "items": "null"}},
        *json.loads(schema_of("R", SCHEMA))["fields"],
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
    ],
})  # fmt: skip
#: before and behind the fields of a tuple
BEFORE, BEHIND = b"\x02\x02a\x04\x00\x02\x02b\x00\x00" + b"\x02\x02\x00" + b"\x06\x00", b"\x02"


class OneSchema:
    """A registry that has the schema 1."""

    def schema(self, number):
        if number != 1:
            raise UnknownSchemaError(f"the registry has no schema {number}")
        return parse(schema_of("R", SCHEMA))

    def sources(self, number, kind):
        self.schema(number)
        return (("", PROTO if kind == PROTOBUF_KIND else json_schema.schema_of("R", FORMS)),)

    def id_of(self, *_):
        return 1


def avro(text):
    return codec(Part(Coding("avro", AvroOptions(text)), SCHEMA))


def confluent():
    return Confluent(SCHEMA, OneSchema(), "s", schema_of("R", SCHEMA), None, {})


def one_text():
    return codec(Part(Coding("text"), SCHEMA[1:2]))


PROTO = proto_fit.schema_of("R", SCHEMA)


def protobuf_confluent():
    return ProtobufConfluent(SCHEMA, OneSchema(), "s", (("", PROTO),), "R", {})


def json_confluent():
    return JsonConfluent(SCHEMA, OneSchema(), "s", json_schema.schema_of("R", FORMS), JSON)


PROTOBUF = codec(Part(Coding("protobuf", ProtobufOptions("R", (("", PROTO),))), SCHEMA))
JSON = codec(Part(Coding("json"), SCHEMA))
CSV = codec(Part(Coding("csv", CsvOptions()), SCHEMA))
PLAIN = avro(schema_of("R", SCHEMA))
#: format -> how it is decoded, and ordinary records
ORDINARY = {
    "protobuf": (PROTOBUF.decode, PROTOBUF.encode(TUPLES)),
    "protobuf-confluent": (protobuf_confluent().decode, protobuf_confluent().encode(TUPLES)),
    "json-confluent": (json_confluent().decode, json_confluent().encode(TUPLES)),
    "json": (JSON.decode, JSON.encode(TUPLES)),
    "avro": (PLAIN.decode, PLAIN.encode(TUPLES)),
    "avro of another schema": (
        Reader.of(SCHEMA, parse(ODD), parse(schema_of("R", SCHEMA)), {"k": "none"}).read,
        pa.array([BEFORE + value + BEHIND for value in PLAIN.encode(TUPLES).to_pylist()], pa.binary()),
    ),
    "avro-confluent": (confluent().decode, confluent().encode(TUPLES)),
    "csv": (CSV.decode, CSV.encode(TUPLES)),
    "text": (one_text().decode, pa.array([b"1.5", b"-1e-7", b"NaN", b"12345678901234567890"], pa.binary())),
}  # fmt: skip


def test_every_format_has_ordinary_records():
    assert FORMATS.keys() - ORDINARY.keys() == {"raw"}, "raw decodes any bytes"


INTERESTING = b'{}[]",:\\/ \t\r\n0159.eE+-tfnuZT\x00\x01\x02\x7f\x80\xff\xed\xa0\xc2'
LARGE = [
    b"\xff" * 9 + b"\x01",
    b"\xfe" + b"\xff" * 8 + b"\x01",
    b"\xfe\xff\xff\xff\x0f",
    b"9" * 400,
    b"[" * 3000,
    b"\x02" * 3000,
]


def mutant(random, ordinary):
    """An ordinary record with one to four things done to it."""
    data = bytearray(random.choice(ordinary))
    for _ in range(random.choice((1, 1, 2, 3, 4))):
        at = random.randrange(len(data) + 1)
        match random.randrange(8):
            case 0:
                del data[at:]
            case 1:
                data[at : at + 1] = bytes([random.choice(INTERESTING)])
            case 2 if at < len(data):
                data[at] ^= 1 << random.randrange(8)
            case 3:
                data[at:at] = data[at : at + random.randrange(1, 30)]
            case 4:
                del data[at : at + random.randrange(1, 4)]
            case 5:
                data[at:at] = random.choice(LARGE) if not random.randrange(10) else b"\x00"
            case 6:
                data[at:at] = random.randbytes(random.randrange(1, 5))
            case _:
                data += random.choice(ordinary)[: random.randrange(20)]
    return bytes(data)


def compared(decode, records, mutants):
    """The reasons of the mutants that are bad, when every second record is an ordinary one, which stays as it was."""
    ordinary, clean = records.to_pylist(), decode(records)
    assert not clean.bad
    values = pa.array([v for n, m in enumerate(mutants) for v in (m, ordinary[n % len(ordinary)])], pa.binary())
    found = decode(values)
    bad = [row for row, _ in found.bad]
    assert sorted([*bad, *found.good]) == list(range(len(values)))
    assert all(word_of(reason) in set(Reason) for _, reason in found.bad)
    untouched = found.tuples.filter(pa.array(found.good % 2 == 1))
    expected = clean.tuples.take(pa.array(np.arange(len(mutants)) % len(ordinary)))
    assert as_bytes(untouched) == as_bytes(expected)
    return {row // 2: reason for row, reason in found.bad}


@pytest.mark.parametrize("name", ORDINARY)
def test_mutants(name):
    decode, records = ORDINARY[name]
    random = Random(SEED)
    mutants = [mutant(random, records.to_pylist()) for _ in range(MUTANTS)]
    assert len(mutants) / 100 < len(compared(decode, records, mutants)) < len(mutants)


@pytest.mark.parametrize("name", ORDINARY)
def test_a_mutant_alone_is_what_it_is_among_others(name):
    decode, records = ORDINARY[name]
    random = Random(SEED + 1)
    mutants = [mutant(random, records.to_pylist()) for _ in range(300)]
    together = decode(pa.array(mutants, pa.binary()))
    reasons, place = dict(together.bad), {row: n for n, row in enumerate(together.good.tolist())}
    for row, value in enumerate(mutants):
        alone = decode(pa.array([value], pa.binary()))
        assert [reason for _, reason in alone.bad] == ([reasons[row]] if row in reasons else [])
        if row in place:
            assert as_bytes(alone.tuples) == as_bytes(together.tuples.slice(place[row], 1))


def as_bytes(batch):
    """What only equal columns have in common: NaN is itself, and zero has a sign."""
    return [
        repr(c.cast(pa.int64()).to_pylist() if pa.types.is_timestamp(c.type) else c.to_pylist()) for c in batch.columns
    ]
